"""Whether a store holds what it must: read-only, so it may run beside a daemon.

Each check reads one snapshot and is judged by itself. A damaged page may make a check impossible: that
check then fails with what the database said, and the others still run.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tasktick.errors import StoreError, StoreTooNew
from tasktick.model.partition import ALL_PARTITIONS
from tasktick.model.state import STORED
from tasktick.store import counts, migrate, whereabouts
from tasktick.store.connect import SQLITE_VERSION_TEXT, DatabaseError, RawConnection, raw_connection
from tasktick.store.database import URL_START, may_write, require_file
from tasktick.store.protocol import Operation, Transaction
from tasktick.store.sqlite import READER_PRAGMAS, SqliteTransaction, read_with, step

SHOWN_MAX = 3
NOT_COMPARED = "not compared: store and program are at different versions"
Objects = dict[tuple[str, str], str]


class Check(msgspec.Struct, frozen=True):
    """What was looked at, and what was found."""

    name: str
    ok: bool
    detail: str
    skipped: bool = False
    """It was not looked at, for the reason that the detail says."""


NOT_LOOKED_AT = Check(
    "rows",
    ok=True,
    detail="not looked at: this store is of an older version. Migrate it, or a copy, and check that",
    skipped=True,
)


class Report(msgspec.Struct, frozen=True):
    """All checks of one store."""

    path: str
    database: str
    ok: bool
    checks: list[Check]


class Faults(msgspec.Struct, frozen=True, array_like=True):
    """How many rows break a rule, and one of them."""

    rows: int
    example: str | None


class Rule(msgspec.Struct, frozen=True):
    """A statement that counts what breaks a rule."""

    name: str
    query: str
    holds: str
    broken: str
    parameters: dict[str, Any] = {}


RULES = (
    Rule(
        "states",
        "check_states",
        "every state is known",
        "in a state that is not known",
        {"known": sorted(int(state) for state in STORED)},
    ),
    Rule("details", "check_details", "every task has its details", "without details"),
    Rule("payloads", "check_payloads", "every task has the payload it names", "without the payload they name"),
    Rule("running", "check_running", "every running task has a lease", "running without a lease"),
    Rule("finished", "check_finished", "every finished task says when", "finished without a time"),
    Rule("dead letters", "check_dead", "every dead task has its letter", "dead without a dead letter"),
    Rule("orphans", "check_orphans", "every row belongs to a task", "of a task that is not there"),
    Rule("history", "check_history", "history is whole", "in history that are wrong, or counted wrong"),
    Rule("keys", "check_keys", "every live key is that of an unfinished task", "that no unfinished task holds"),
    Rule("events", "check_events", "every event can be read", "that cannot be read, or count less than those before"),
    Rule("fires", "check_ahead", "every schedule has the fire that it names", "without the fire that they name"),
    Rule(
        "lines",
        "check_lines",
        "every fire in a line is to come, and who waits does so for somebody",
        "in a line that are wrong",
    ),
    Rule("templates", "check_templates", "every schedule has what it sends", "without what they send"),
    Rule(
        "calendars", "check_calendars", "every schedule has the calendars that it names", "that name one that is gone"
    ),
    Rule("ledger", "check_ledger", "no time is ahead of its schedule", "ahead of their schedule, or without a task"),
    Rule("idle times", "check_idle", "what did not run is not to run", "that did not run, and have a task to come"),
    Rule(
        "fire counts", "check_fire_counts", "every schedule counts its ledger", "that count what their ledger does not"
    ),
    Rule(
        "partitions",
        "check_partitions",
        f"all {len(ALL_PARTITIONS)} partitions have a row",
        "missing among the partitions",
        {"partitions": len(ALL_PARTITIONS)},
    ),
)


def check(path: Path, *, full: bool = False) -> Report:
    """Look at everything. `full` also compares every index with its table, which reads the file many times over."""
    require_file(path)
    try:
        raw = raw_connection(path, READER_PRAGMAS, read_only=True)
    except DatabaseError as error:
        return _judged(path, [Check("pages", ok=False, detail=f"it cannot be opened: {error}")])
    try:
        is_old = _is_behind(raw)
        if not is_old:
            _require_whole(path, raw)
        checks = [_tried(name, raw, look) for name, look in _looks(full=full, rows=not is_old)]
        return _judged(path, [*checks, NOT_LOOKED_AT] if is_old else checks)
    finally:
        raw.close()


def _is_behind(raw: RawConnection) -> bool:
    try:
        return is_behind(migrate.available(), migrate.applied(raw))
    except StoreTooNew:  # which is no damage
        raise
    except (DatabaseError, StoreError):  # it is for the checks to say what is wrong
        return False


def is_behind(ours: list[migrate.Migration], theirs: list[migrate.Applied]) -> bool:
    """Whether it is a store of an older version, whose rows are not yet as the checks expect them."""
    return bool(theirs) and bool(migrate.pending(ours, theirs))


def _require_whole(path: Path, raw: RawConnection) -> None:
    """What a move is still bringing cannot be judged."""
    try:
        found = read_with(raw, whereabouts.read)
    except (DatabaseError, msgspec.MsgspecError, StoreError, IndexError):
        return
    whereabouts.require_whole(found, f"{URL_START}{path.resolve()}")


def _judged(path: Path, checks: list[Check]) -> Report:
    """A store of which nothing can be read, by one who may not write beside it, is not damaged: SQLite needs that."""
    if not any(one.ok for one in checks) and not may_write(path.parent):
        raise StoreError(f"The store {path} cannot be read with these rights. Run this as the daemon's user.")
    return _report(path, checks)


def _report(path: Path, checks: list[Check]) -> Report:
    return Report(str(path), f"SQLite {SQLITE_VERSION_TEXT}", all(one.ok for one in checks), checks)


# Whether it is as it must be, None where that was not looked at; and what there is to say.
Finding = tuple[bool | None, str]
Look = Callable[[RawConnection], Finding]


def _looks(*, full: bool, rows: bool) -> list[tuple[str, Look]]:
    pages = "check_pages_full" if full else "check_pages_quick"
    return [
        ("pages", lambda raw: _pages(raw, pages)),
        ("schema", lambda raw: judged_schema(migrate.available(), migrate.applied(raw))),
        ("structure", _structure),
        *((name, _look_of(operation)) for name, operation in (contents() if rows else ())),
    ]


def contents() -> list[tuple[str, Operation[Finding]]]:
    """What is looked at in the rows of any database."""
    return [("counts", _counts), *((rule.name, _operation_of(rule)) for rule in RULES)]


def _look_of(operation: Operation[Finding]) -> Look:
    return lambda raw: read_with(raw, operation)


def _tried(name: str, raw: RawConnection, look: Look) -> Check:
    try:
        return check_of(name, look(raw))
    except (DatabaseError, msgspec.MsgspecError, StoreError) as error:
        # What the database said, not what the daemon would advise.
        return Check(name, ok=False, detail=f"it cannot be read: {error.__cause__ or error}")


def check_of(name: str, finding: Finding) -> Check:
    """A finding under its name."""
    ok, detail = finding
    return Check(name, ok is not False, detail, skipped=ok is None)


def _pages(raw: RawConnection, query: str) -> tuple[bool, str]:
    async def operation(tx: Transaction) -> list[str]:
        return await tx.rows(query, str)

    said = read_with(raw, operation)
    return (True, "the file is sound") if said == ["ok"] else (False, _some(said))


def _some(found: list[str]) -> str:
    more = len(found) - SHOWN_MAX
    return "; ".join(found[:SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")


def judged_schema(ours: list[migrate.Migration], theirs: list[migrate.Applied]) -> Finding:
    """At which version the store is; one without any is none of ours."""
    if not theirs:
        return False, "it has no schema: this is no TaskTick store"
    todo = migrate.pending(ours, theirs)
    at = f"version {theirs[-1].version}"
    waiting = ", ".join(f"{one.version:04} {one.name}" for one in todo)
    if todo:
        at += f"; `tasktick serve` and `tasktick migrate` bring it to {todo[-1].version}, by applying {waiting}"
    return True, at


def _structure(raw: RawConnection) -> Finding:
    if are_apart(migrate.available(), migrate.applied(raw)):
        return None, NOT_COMPARED
    fresh = raw_connection(Path(":memory:"))
    try:
        migrate.migrate(fresh)
        wanted, found = _objects(fresh), _objects(raw)
    finally:
        fresh.close()
    return compared(wanted, found)


def _objects(raw: RawConnection) -> Objects:
    return step(objects(SqliteTransaction(raw)))


async def objects(tx: Transaction) -> Objects:
    """Every object of the schema, by kind and name."""
    rows = await tx.rows("check_structure", tuple[str, str, str])
    return {(kind, name): sql for kind, name, sql in rows}


def are_apart(ours: list[migrate.Migration], theirs: list[migrate.Applied]) -> bool:
    """Whether store and program are at different versions."""
    return {one.version for one in ours} != {one.version for one in theirs}


def compared(wanted: Objects, found: Objects) -> Finding:
    """Whether all that should be there is there, as it should be."""
    wrong = [f"{kind} {name}" for kind, name in sorted(wanted) if found.get((kind, name)) != wanted[kind, name]]
    return (False, "missing or changed: " + _some(wrong)) if wrong else (True, "every table and index is there")


async def _counts(tx: Transaction) -> Finding:
    kept = {(one.tenant, one.state): one.tasks for one in await counts.read(tx, None)}
    actual = {(one.tenant, one.state): one.tasks for one in await counts.actual(tx)}
    wrong = [
        f"{tenant} in state {state}: kept {kept.get((tenant, state), 0)}, there are {actual.get((tenant, state), 0)}"
        for tenant, state in sorted(kept.keys() | actual.keys())
        if state != counts.PURGED and kept.get((tenant, state), 0) != actual.get((tenant, state), 0)
    ]
    return (
        (False, _some(wrong)) if wrong else (True, f"they agree with the {sum(actual.values())} tasks that are there")
    )


def _operation_of(rule: Rule) -> Operation[Finding]:
    async def operation(tx: Transaction) -> Finding:
        faults = (await tx.rows(rule.query, Faults, **rule.parameters))[0]
        if not faults.rows:
            return True, rule.holds
        example = f", such as {faults.example}" if faults.example is not None else ""
        return False, f"{faults.rows} {rule.broken}{example}"

    return operation
