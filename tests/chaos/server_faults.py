"""Suite `postgres`: the server of a ring stopped and started, its backends ended, also while they commit, its tables
locked, its connections all taken. The nodes stay; nothing is lost, and nobody storms the server that comes back."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg

from tests.chaos.history import Fault, now_ms
from tests.chaos.ring_run import Plan, Stage
from tests.chaos.ring_store import APPLICATION, CONNECT_WITHIN_S

UP_S = (0.5, 2.0)
DOWN_S = (0.1, 2.5)
LOCKED_S = (0.3, 3.0)
FULL_S = (0.5, 2.5)
KINDS = ("restart", "terminate", "commit_lost", "commit_undone", "locked", "crash", "full")
LOCKS = ("tasks", "leases", "nodes", "marks", "names", "events", "event_inbox", "event_head")
TRIES = 200
TRY_AGAIN_S = 0.05
CATCH_WITHIN_S = 2.0
CAUGHT_POLL_S = 0.002
THEIRS = f"backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> '{APPLICATION}'"
TERMINATE = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {THEIRS}"
# In the commit itself: it waits for a standby that never comes. It is durable here, and its client hears nothing.
IN_COMMIT = f"""
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {THEIRS} AND wait_event = 'SyncRep'
"""
WAIT_FOR_NOBODY = (
    "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
    "SELECT pg_reload_conf()",
)
WAIT_NO_MORE = ("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
# In the commit, before it is one: what is deferred to it takes its time, and is then undone.
# A row says whether it does: it is there for a while, and nobody has to be kept out of a table for it.
SLOW_COMMITS = """
CREATE TABLE chaos.slow_commits ();
CREATE FUNCTION chaos.slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM chaos.slow_commits) THEN PERFORM pg_sleep(0.2); END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT OR UPDATE ON marks
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos.slow()
"""
BEFORE_COMMIT = f"""
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {THEIRS} AND wait_event = 'PgSleep'
"""


async def break_server(stage: Stage, count: int) -> None:
    """Fault after fault, each kind in turn and then at random."""
    async with _connection(stage) as raw:
        await _whatever_it_takes(raw, SLOW_COMMITS)
    for number in range(count):
        await asyncio.sleep(stage.random.uniform(*UP_S))
        kind = KINDS[number] if number < len(KINDS) else stage.random.choice(KINDS)
        at = now_ms()
        match kind:
            case "restart" | "crash":
                await _restart(stage, signal.SIGINT if kind == "restart" else signal.SIGQUIT)
            case "terminate":
                await _terminate(stage)
            case "commit_lost":
                await _lose_commits(stage)
            case "commit_undone":
                await _undo_commits(stage)
            case "locked":
                await _lock(stage)
            case _:
                await _fill(stage)
        stage.history.add(Fault(at, now_ms(), "store", 0, kind))


async def _restart(stage: Stage, how: signal.Signals) -> None:
    await asyncio.to_thread(stage.server.stop, how)
    await asyncio.sleep(stage.random.uniform(*DOWN_S))
    await asyncio.to_thread(stage.server.start)


async def _terminate(stage: Stage) -> None:
    async with _connection(stage) as raw:
        await raw.fetchval(TERMINATE)


async def _lose_commits(stage: Stage) -> None:
    async with _connection(stage) as raw:
        for statement in WAIT_FOR_NOBODY:
            await raw.execute(statement)
        try:
            await _until_some(raw, IN_COMMIT)
        finally:
            for statement in WAIT_NO_MORE:
                await raw.execute(statement)


async def _undo_commits(stage: Stage) -> None:
    async with _connection(stage) as raw:
        await raw.execute("INSERT INTO chaos.slow_commits DEFAULT VALUES")
        try:
            await _until_some(raw, BEFORE_COMMIT)
        finally:
            await raw.execute("DELETE FROM chaos.slow_commits")


async def _until_some(raw: Any, statement: str) -> None:
    """End those that are where they are wanted, as soon as there are some."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + CATCH_WITHIN_S
    while not await raw.fetchval(statement) and loop.time() < give_up:  # noqa: ASYNC110 # a database sends no event
        await asyncio.sleep(CAUGHT_POLL_S)


async def _whatever_it_takes(raw: Any, statements: str) -> None:
    """Locks that others want too: a little at a time, until they are had."""
    for _ in range(TRIES):
        try:
            async with raw.transaction():
                await raw.execute("SET LOCAL lock_timeout = 200")
                await raw.execute(statements)
                return
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            await asyncio.sleep(TRY_AGAIN_S)
    raise AssertionError("the lock was never to be had")


async def _lock(stage: Stage) -> None:
    table = stage.random.choice(LOCKS)
    async with _connection(stage) as raw, raw.transaction():
        await raw.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        await asyncio.sleep(stage.random.uniform(*LOCKED_S))


async def _fill(stage: Stage) -> None:
    """Every connection that there is, is the harness's for a while; the nodes lose theirs."""
    async with AsyncExitStack() as stack:
        last = await stack.enter_async_context(_connection(stage))
        await last.fetchval(TERMINATE)
        taken: list[Any] = []
        try:
            while True:
                taken.append(await asyncpg.connect(stage.store.url, server_settings={"application_name": APPLICATION}))
        except asyncpg.PostgresError:
            pass  # that was the last one
        try:
            await asyncio.sleep(stage.random.uniform(*FULL_S))
        finally:
            for one in taken:
                one.terminate()


@asynccontextmanager
async def _connection(stage: Stage) -> AsyncIterator[Any]:
    """A connection of the harness, however long it takes to be had."""
    for _ in range(TRIES):
        try:
            raw = await asyncpg.connect(
                stage.store.url, timeout=CONNECT_WITHIN_S, server_settings={"application_name": APPLICATION}
            )
        except (OSError, TimeoutError, asyncpg.PostgresError):
            await asyncio.sleep(TRY_AGAIN_S)
        else:
            break
    else:
        raise AssertionError("the server takes no connections")
    try:
        yield raw
    finally:
        await raw.close(timeout=CONNECT_WITHIN_S)


POSTGRES = Plan(
    "postgres",
    break_server,
    demanded=("fault_store", "acknowledged", "hits", "log_store_unreachable", "log_commit_unknown"),
    demanded_long=(
        *(f"store_{kind}" for kind in KINDS),
        "log_commit_found_out_ours",
        "log_commit_found_out_not",
        "replayed",
    ),
    long=len(KINDS),
)
