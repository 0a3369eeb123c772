"""Migrations of a PostgreSQL, and the way back: the same numbers, checks and rules as those of `migrate`.

A step in a transaction is noted in that very transaction; one that runs alone or in batches is noted when it is done,
and is run again from its beginning if it was cut off. One at a time migrates a database: a connection of its own holds
a lock meanwhile. It is tried, never waited for: an index that is made concurrently waits for every transaction that is
under way, and so would wait for who waits for the lock. A store that is new takes all its steps in transactions.
"""

from collections.abc import Awaitable, Callable

from tasktick.errors import StoreError
from tasktick.store.connect import PostgresConnection
from tasktick.store.migrate import Applied, Loss, Migration, Step, available, pending, steps_of
from tasktick.store.migrate_back import refuse_losses, to_undo
from tasktick.store.postgres import PostgresTransaction
from tasktick.store.queries import split

DIALECT = "postgres"
Connect = Callable[[], Awaitable[PostgresConnection]]


async def applied(raw: PostgresConnection) -> list[Applied]:
    """The steps that this store has taken; none if it is new."""
    tx = PostgresTransaction(raw)
    if await tx.rows("migration_is_there", bool) == [False]:
        return []
    return await tx.rows("migration_applied", Applied)


async def migrate(raw: PostgresConnection, to: int | None = None, *, connect: Connect | None = None) -> list[Migration]:
    """Bring the store up to date, or up to a version; what was applied. Who does it at the same time waits.

    `connect` makes the connection that holds the lock; without it nobody else may be there.
    """
    ours = available(DIALECT)
    if not pending(ours, await applied(raw)):
        return []
    guard = await _locked(raw, connect)
    try:
        await _begun(raw)
        theirs = await applied(raw)
        todo = [one for one in pending(ours, theirs) if to is None or one.version <= to]
        if theirs and any(one.min_reader > max(done.version for done in theirs) for one in todo):
            # Who runs is of a version that could not read the store then, and would go on writing to it.
            await _refuse_running(raw, theirs)
        for migration in todo:
            await _take(raw, migration, migration.text, whole=not theirs)
        return todo
    finally:
        if guard is not None:
            await guard.close()


async def migrate_back(
    raw: PostgresConnection, to: int, *, lose_data: bool, connect: Connect | None = None
) -> list[Migration]:
    """Undo what is beyond a version, newest first, each as it says; what was undone."""
    ours = available(DIALECT)
    guard = await _locked(raw, connect)
    try:
        theirs = await applied(raw)
        undone = to_undo(ours, theirs, to)
        if not undone:
            return []
        await _begun(raw)
        await _refuse_running(raw, theirs)
        if not lose_data:
            refuse_losses([await _counted(raw, loss) for one in undone for loss in one.losses], to)
        for migration in undone:
            await _take(raw, migration, migration.down or "", whole=False)
        # What was cut off on its way up begins anew: what it had made may have gone with the tables.
        for migration in pending(ours, await applied(raw)):
            await PostgresTransaction(raw).run("migration_steps_forget", version=migration.version)
        return undone
    finally:
        if guard is not None:
            await guard.close()


async def _locked(raw: PostgresConnection, connect: Connect | None) -> PostgresConnection | None:
    """A connection that holds the lock until it is closed."""
    if connect is None:
        return None
    guard = await connect()
    try:
        while True:
            await guard.execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0")
            if await PostgresTransaction(guard).rows("server_migration_lock", bool) == [True]:
                # What has read still has its snapshot, for which an index that is made concurrently would wait.
                await guard.execute("SELECT 1")
                return guard
            await guard.execute("ROLLBACK")
            await raw.execute("SELECT pg_sleep(0.2)")
    except BaseException:
        await guard.close()
        raise


async def _begun(raw: PostgresConnection) -> None:
    """The tables in which migrations are noted are there."""
    await raw.execute(PostgresTransaction(raw).text("migration_history"))


async def _counted(raw: PostgresConnection, loss: Loss) -> tuple[Loss, int]:
    return loss, await raw.fetchval(loss.query)


async def _refuse_running(raw: PostgresConnection, theirs: list[Applied]) -> None:
    """Nodes that run would lose the ground under their feet."""
    if not any(one.name == "ring" for one in theirs):
        return
    running = await PostgresTransaction(raw).rows("migration_running", str)
    if running:
        raise StoreError(
            f"There are nodes that run on this store: {', '.join(running)}. Stop them first; one that was killed is "
            "over with its term, some seconds later."
        )


async def _take(raw: PostgresConnection, migration: Migration, text: str, *, whole: bool) -> None:
    """Take the steps of a migration, or of its way back, from the first that is not noted on."""
    tx = PostgresTransaction(raw)
    is_back = text != migration.text
    key = {"version": migration.version, "back": is_back}
    steps = steps_of(text)
    done = len(await tx.rows("migration_steps_done", int, checksum=migration.checksum, **key))
    for number, step in enumerate(steps):
        # On the way back the store may have been served again since: what has come meanwhile goes back too.
        if number < done and not (is_back and step.kind == "batches"):
            continue
        if step.kind != "transaction" and not whole:
            await _outside(raw, step)
        await raw.execute("BEGIN")
        try:
            if step.kind == "transaction" or whole:
                await raw.execute(_inside(step))
            await tx.run("migration_step_note", step=number, checksum=migration.checksum, **key)
            if number == len(steps) - 1:
                await _note(tx, migration, is_back=is_back)
            await raw.execute("COMMIT")
        except BaseException:
            await raw.execute("ROLLBACK")
            raise
    if not steps:
        await _note(tx, migration, is_back=is_back)


async def _note(tx: PostgresTransaction, migration: Migration, *, is_back: bool) -> None:
    await tx.run("migration_steps_forget", version=migration.version)
    if is_back:
        await tx.run("migration_forget", version=migration.version)
        return
    await tx.run(
        "migration_note",
        version=migration.version,
        name=migration.name,
        checksum=migration.checksum,
        min_reader=migration.min_reader,
    )


async def _outside(raw: PostgresConnection, step: Step) -> None:
    """Run statements outside a transaction, or again and again until they change nothing."""
    for statement in split(step.text):
        while True:
            status = await raw.execute(statement)
            if step.kind == "alone" or status.rpartition(" ")[2] in ("0", ""):
                break


def _inside(step: Step) -> str:
    """What a step is inside a transaction, where nobody else is there to be kept waiting."""
    return step.text.replace(" CONCURRENTLY", "")


async def apply(raw: PostgresConnection, migration: Migration) -> None:
    """Take one migration whole, in the open transaction."""
    for step in steps_of(migration.text):
        await raw.execute(_inside(step))
    await _note(PostgresTransaction(raw), migration, is_back=False)
