"""`store check` and `migrate` on a PostgreSQL: the same checks over the same rows, and the schema as it should be.

What it should be is built beside it, in a schema of a transaction that is rolled back: nothing of it stays, and
nothing of the store is written.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path

import msgspec

from tasktick.errors import StoreError, StoreTooNew
from tasktick.store import archiving, whereabouts
from tasktick.store.check import (
    NOT_COMPARED,
    NOT_LOOKED_AT,
    Check,
    Finding,
    Report,
    are_apart,
    check_of,
    compared,
    contents,
    is_behind,
    judged_schema,
    objects,
)
from tasktick.store.connect import Fault, PostgresConnection, fault_of
from tasktick.store.migrate import Migration, available, pending
from tasktick.store.postgres import BEGIN_CHECK, PostgresTransaction, read_with
from tasktick.store.postgres_database import facts_of, judge_server
from tasktick.store.postgres_links import PostgresAddress, connect_patiently
from tasktick.store.postgres_migrate import DIALECT, applied, apply, migrate, migrate_back
from tasktick.store.postgres_refusals import raise_as_ours

BEGIN_BUILD = "BEGIN; CREATE SCHEMA tasktick_as_it_should_be; SET LOCAL search_path = tasktick_as_it_should_be"


@asynccontextmanager
async def _connected(address: PostgresAddress) -> AsyncIterator[PostgresConnection]:
    """A connection without limits of time, to a server that can hold a store."""
    try:
        raw = await connect_patiently(address)
    except Exception as error:
        raise_as_ours(address, error)
        raise
    try:
        yield raw
    finally:
        await raw.close()


async def check(address: PostgresAddress) -> Report:
    """Look at everything."""
    async with _connected(address) as raw:
        facts = await facts_of(raw)
        is_old = await _is_behind(raw, address)
        checks = [await _schema(raw), await _structure(raw)]
        for name, operation in () if is_old else contents():
            try:
                finding = await read_with(raw, operation, BEGIN_CHECK)
            except Exception as error:
                if fault_of(error.__cause__ or error) is None and not isinstance(
                    error, msgspec.MsgspecError | StoreError
                ):
                    raise
                finding = False, f"it cannot be read: {error.__cause__ or error}"
            checks.append(check_of(name, finding))
        checks += [NOT_LOOKED_AT] if is_old else []
    return Report(address.shown, f"PostgreSQL {facts.version_text}", all(one.ok for one in checks), checks)


async def _is_behind(raw: PostgresConnection, address: PostgresAddress) -> bool:
    """Whether the store is of an older version; raises if there is none, or not all of it."""
    theirs = await applied(raw)
    if not theirs:
        raise StoreError(
            f"There is no store at {address.shown}. `tasktick serve` makes one, or name its database with --store."
        )
    try:
        if is_behind(available(DIALECT), theirs):
            return True
        found = await whereabouts.read(PostgresTransaction(raw))
    except StoreTooNew:  # which is no damage
        raise
    except Exception as error:
        if fault_of(error) is None and not isinstance(error, msgspec.MsgspecError | StoreError | IndexError):
            raise
        return False  # it is for the checks to say what is wrong
    whereabouts.require_whole(found, address.shown)
    return False


async def _schema(raw: PostgresConnection) -> Check:
    try:
        return check_of("schema", judged_schema(available(DIALECT), await applied(raw)))
    except StoreError as error:
        return Check("schema", ok=False, detail=str(error))


async def _structure(raw: PostgresConnection) -> Check:
    return check_of("structure", await _compared(raw))


async def _compared(raw: PostgresConnection) -> Finding:
    ours = available(DIALECT)
    if are_apart(ours, await applied(raw)):
        return None, NOT_COMPARED
    tx = PostgresTransaction(raw)
    found = await objects(tx)
    try:
        await raw.execute(BEGIN_BUILD)
        await raw.execute(tx.text("migration_history"))
        for migration in ours:
            await apply(raw, migration)
        wanted = await objects(tx)
    except Exception as error:
        if fault_of(error) is not Fault.ROW:
            raise
        return None, f"not compared: it cannot be built beside it ({error})"
    finally:
        await raw.execute("ROLLBACK")
    return compared(wanted, found)


async def steps(address: PostgresAddress, *, only_check: bool, to: int | None = None) -> list[Migration]:
    """Bring a store up to date, or say what that would take. Who does it at the same time waits."""
    if only_check:
        async with _connected(address) as raw:
            todo = pending(available(DIALECT), await applied(raw))
            return [one for one in todo if to is None or one.version <= to]
    try:
        async with _connected(address) as raw:
            judge_server(await facts_of(raw))
            return await migrate(raw, to, connect=lambda: connect_patiently(address))
    except Exception as error:
        raise _not_migrated(address, error) from error


async def back(address: PostgresAddress, to: int, *, lose_data: bool) -> list[Migration]:
    """Undo what is beyond a version; what was undone."""
    try:
        async with _connected(address) as raw:
            return await migrate_back(raw, to, lose_data=lose_data, connect=lambda: connect_patiently(address))
    except Exception as error:
        raise _not_migrated(address, error) from error


def _not_migrated(address: PostgresAddress, error: Exception) -> Exception:
    """What a person is told: a migration may meet what others have made in the database."""
    raise_as_ours(address, error)
    if fault_of(error) is None:
        return error
    reason = ": ".join(part for part in (str(error).partition("\n")[0], getattr(error, "detail", None)) if part)
    return StoreError(
        f"The store {address.shown} cannot be migrated: {reason}. What was done so far stays; run the command again "
        "when that is out of the way."
    )


async def version(address: PostgresAddress) -> int:
    """At which version a store is."""
    async with _connected(address) as raw:
        return max((one.version for one in await applied(raw)), default=0)


async def archived(
    address: PostgresAddress, before: date, out: Path, *, drop: bool, told: Callable[[archiving.Done], None]
) -> list[archiving.Done]:
    """Write out what ended before a day, whether nodes run meanwhile or not."""
    folder = archiving.folder_of(out, address.name)
    try:
        async with _connected(address) as raw:
            if pending(available(DIALECT), await applied(raw)):
                raise StoreError("This store is of an older version. Run `tasktick migrate` first.")
            return await archiving.archive(archiving.ServerAccess(raw), folder, before, drop=drop, told=told)
    except Exception as error:
        raise_as_ours(address, error)
        if fault_of(error) is None:
            raise
        raise StoreError(f"The store {address.shown} cannot be archived: {error}.") from error
