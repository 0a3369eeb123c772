"""Migrations of a PostgreSQL: the same numbers, checks and rules as those of `migrate`, each step in a transaction."""

from tasktick.store.connect import PostgresConnection
from tasktick.store.migrate import Applied, Migration, available, pending
from tasktick.store.postgres import PostgresTransaction

DIALECT = "postgres"


async def applied(raw: PostgresConnection) -> list[Applied]:
    """The steps that this store has taken; none if it is new."""
    tx = PostgresTransaction(raw)
    if await tx.rows("migration_is_there", bool) == [False]:
        return []
    return await tx.rows("migration_applied", Applied)


async def migrate(raw: PostgresConnection) -> list[Migration]:
    """Bring the store up to date; what was applied. Who migrates at the same time waits, and finds it done."""
    ours = available(DIALECT)
    if not pending(ours, await applied(raw)):
        return []
    done: list[Migration] = []
    while (one := await _apply_next(raw, ours)) is not None:
        done.append(one)
    return done


async def _apply_next(raw: PostgresConnection, ours: list[Migration]) -> Migration | None:
    await raw.execute("BEGIN")
    try:
        tx = PostgresTransaction(raw)
        await tx.rows("server_migration_lock", str)
        await raw.execute(tx.text("migration_history"))
        todo = pending(ours, await applied(raw))
        for migration in todo[:1]:
            await apply(raw, migration)
        await raw.execute("COMMIT")
    except BaseException:
        await raw.execute("ROLLBACK")
        raise
    return todo[0] if todo else None


async def apply(raw: PostgresConnection, migration: Migration) -> None:
    """Take one step, in the open transaction."""
    await raw.execute(migration.text)
    await PostgresTransaction(raw).run(
        "migration_note",
        version=migration.version,
        name=migration.name,
        checksum=migration.checksum,
        min_reader=migration.min_reader,
    )
