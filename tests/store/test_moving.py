"""A store moves to another dialect and back, whole, wherever it is cut off, and no two places are ever served."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tasktick.errors import StoreMoved, StoreUnavailable
from tasktick.model.state import State
from tasktick.store import claims, events, leases, moving_sqlite, postgres_moving
from tasktick.store.connect import raw_connection
from tasktick.store.migrate import migrate
from tasktick.store.moving_ends import BYTES_MAX, carried
from tasktick.store.moving_tables import EMPTIED, NOT_CARRIED, PARTITION, TABLES
from tasktick.store.postgres_database import PostgresDatabase
from tests import postgres
from tests.store import told
from tests.store.drivers import EVER
from tests.store.moving import KillAt, Killed, end_of, faults, holds, may_be_served, move, served
from tests.store.world import World

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(180)]
NEWEST = max(postgres.installed(), default="none")


@pytest.fixture(params=sorted(postgres.installed()))
async def server(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    async with postgres.cluster(request.param).new_schema() as url:
        yield url


async def _migrated(url: str, folder: Path) -> None:
    async with served(url, folder):
        pass


async def test_every_table_of_both_schemas_is_carried_or_known_not_to_be(newest_server: str, tmp_path: Path) -> None:
    known = {table.name for table in TABLES} | set(NOT_CARRIED) | set(EMPTIED)
    raw = raw_connection(tmp_path / "fresh.db")
    migrate(raw)
    theirs = {name: dict(raw.execute("SELECT name, type FROM pragma_table_info(?)", (name,))) for name in known}
    there = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    raw.close()
    assert there <= known, "a new table is carried, or it is said why not"
    await _migrated(newest_server, tmp_path)
    connection = await asyncpg.connect(newest_server)
    query = """SELECT c.relname, a.attname, a.atttypid::regtype::text FROM pg_class AS c
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"""
    ours: dict[str, dict[str, str]] = {}
    for table, column, kind in await connection.fetch(query):
        ours.setdefault(table, {})[column] = kind
    await connection.close()
    assert ours.keys() <= known
    for table in TABLES:
        assert carried(table, ours[table.name]) == carried(table, theirs[table.name]), table.name
        if not table.only:
            left_out = set(ours[table.name]) - set(carried(table, ours[table.name]))
            assert left_out == {*table.added, *([PARTITION] if table.of else [])}, table.name


async def test_there_and_back_again(server: str, rich_file: Path, tmp_path: Path) -> None:
    before = await holds(rich_file)
    assert min(one.rows for one in before) > 0, "the rich store has a row in every table"
    there = await move(rich_file, server)
    assert there.tables == await holds(server)
    unmoved = {"nodes"}  # whose end the lock has proven
    assert [one for one in there.tables if one.table not in unmoved] == [
        one for one in before if one.table not in unmoved
    ]
    assert await faults(server) == []
    back = await move(server, tmp_path / "back.db")
    assert back.tables == there.tables == await holds(tmp_path / "back.db")
    assert await faults(tmp_path / "back.db") == []
    home = await move(tmp_path / "back.db", server, replace=True)
    assert home.tables == there.tables
    assert await may_be_served(server, tmp_path)
    assert not await may_be_served(rich_file, tmp_path)
    assert not await may_be_served(tmp_path / "back.db", tmp_path)
    assert (await move(tmp_path / "back.db", server)).already


async def test_a_store_that_has_moved_says_where_to(newest_server: str, rich_file: Path, tmp_path: Path) -> None:
    await move(rich_file, newest_server)
    with pytest.raises(StoreMoved, match=r"has moved to postgresql://.*start with --store for that place"):
        async with served(rich_file, tmp_path):
            pass
    assert newest_server in str(await _said(rich_file, tmp_path)), "what it says to run can be pasted"


async def _said(place: Path, folder: Path) -> str:
    try:
        async with served(place, folder):
            return ""
    except StoreMoved as error:
        return str(error)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that even a small store has many of them."""
    for module in (moving_sqlite, postgres_moving):
        monkeypatch.setattr(module, "ROWS_MAX", 7)
    monkeypatch.setattr(postgres_moving, "KEYS_EACH", 2)


@pytest.mark.usefixtures("small_chunks")
async def test_small_chunks_there_and_back_again(newest_server: str, rich_file: Path, tmp_path: Path) -> None:
    there = await move(rich_file, newest_server)
    back = await move(newest_server, tmp_path / "back.db")
    assert there.tables == back.tables == await holds(tmp_path / "back.db")


@pytest.mark.usefixtures("small_chunks")
async def test_a_table_that_was_walked_by_another_key_begins_anew(newest_server: str, rich_file: Path) -> None:
    """An older program walked details by their ids alone."""
    with pytest.raises(Killed):
        await move(rich_file, newest_server, at=KillAt(point="copy task_details"))
    connection = await asyncpg.connect(newest_server)
    try:
        upto = '{"table":"task_details","after":["%s"]}' % ("f" * 32)
        assert await connection.execute("UPDATE whereabouts SET filled_upto = $1", upto) == "UPDATE 1"
        assert await connection.execute("DELETE FROM task_details") != "DELETE 0"
    finally:
        await connection.close()
    assert (await move(rich_file, newest_server)).tables == await holds(newest_server)


@pytest.mark.usefixtures("small_chunks")
async def test_it_goes_on_wherever_it_was_killed(server: str, rich_file: Path, tmp_path: Path) -> None:
    counted = KillAt()
    async with postgres.cluster(NEWEST).new_schema() as trial:
        copy = tmp_path / "copy.db"
        shutil.copy(rich_file, copy)
        await move(copy, trial, at=counted)
        wanted = await holds(trial)
    kills = 0
    for nth in range(1, len(counted.seen) + 1):
        try:
            await move(rich_file, server, at=KillAt(nth))
            break
        except Killed as point:
            kills += 1
            last = str(point)
        source, target = await may_be_served(rich_file, tmp_path), await may_be_served(server, tmp_path)
        assert not (source and target), last
        if last == "opened":
            break
    assert kills > 15
    assert (await move(rich_file, server)).already or await may_be_served(server, tmp_path)
    unserved = {"nodes", "leases"}
    assert [one for one in await holds(server) if one.table not in unserved] == [
        one for one in wanted if one.table not in unserved
    ]
    assert await faults(server) == []


@pytest.mark.parametrize("point", ["begun", "copy tasks", "copy names", "left", "check tasks", "checked", "opened"])
async def test_back_from_a_server_it_goes_on_too(
    newest_server: str, rich_file: Path, tmp_path: Path, point: str
) -> None:
    wanted = (await move(rich_file, newest_server)).tables
    target = tmp_path / "back.db"
    with pytest.raises(Killed):
        await move(newest_server, target, at=KillAt(point=point))
    served_there = await may_be_served(newest_server, tmp_path), await may_be_served(target, tmp_path)
    assert served_there == (point in {"begun", "copy tasks", "copy names"}, point == "opened")
    await move(newest_server, target)
    found = await holds(target)
    assert [one for one in found if one.table != "events"] == [one for one in wanted if one.table != "events"]
    assert await faults(target) == []


async def test_what_the_source_did_between_two_tries_is_carried_too(
    newest_server: str, rich_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        await move(rich_file, newest_server, at=KillAt(point="copy names"))
    async with served(rich_file, tmp_path) as database:
        world = World(database, seed=11)
        await world.start("incarnation-2")
        await world.finish(await world.claimed(partition=200))
        await world.create(partition=1, key="new")
        removed = await world.create(partition=2)
        await world.act("cancel", removed)
    moved = await move(rich_file, newest_server)
    assert moved.tables == await holds(newest_server)
    assert [one.rows for one in moved.tables] == [one.rows for one in await holds(rich_file)]
    assert await faults(newest_server) == []


async def test_a_daemon_goes_on_where_the_old_one_stopped(newest_server: str, rich_file: Path, tmp_path: Path) -> None:
    async with served(rich_file, tmp_path) as database:
        before = await database.read(leases.read)
    await move(rich_file, newest_server)
    async with served(newest_server, tmp_path) as database:
        world = World(database, seed=5)
        rows = await database.read(lambda tx: claims.orphans(tx, 100, None))
        assert len(rows) == 4, "who had the file is proven dead: what it was at is taken up at once"
        await world.start("incarnation-9")
        epochs = {lease.partition: lease.epoch for lease in before}
        assert all(world.epochs[partition] == epoch + 1 for partition, epoch in epochs.items())
        for row in rows:
            state = await world.rescue(row)
            assert state in {State.SCHEDULED, State.RETRYING, State.CANCELLED}
            if state != State.CANCELLED:
                world.now = max(world.now, (await world.state(row.id)).wake_at)
                (again,) = await world.claim(row.id)
                assert again.fence > row.fence
        repeated = world.idempotent(world.task(partition=0), "once-3")
        (answer,) = await world.create_all([repeated])
        assert answer is not None
        assert answer.status == 201
        assert repeated.task.state.id not in answer.body
        await world.check_counts()


async def test_who_is_not_proven_dead_is_not_rescued_early(newest_server: str, rich_file: Path, tmp_path: Path) -> None:
    await move(rich_file, newest_server)
    async with served(newest_server, tmp_path) as database:
        world = World(database, seed=5)
        start = leases.Start("far-away", "node-f", 1_000, home="another folder")
        await database.write(lambda tx: leases.start_node(tx, start, world.now))
        world.incarnation = "far-away"
        world.epochs = await database.write(lambda tx: leases.acquire(tx, "far-away", world.now))
        running = await world.claimed(partition=77)
    await _execute(newest_server, "UPDATE nodes SET expires_at = 1 WHERE incarnation = 'far-away'")
    await move(newest_server, tmp_path / "back.db")
    async with served(tmp_path / "back.db", tmp_path) as database:
        world = World(database, seed=6)
        await world.start("incarnation-10")
        found = await database.read(lambda tx: claims.orphans(tx, 100, None))
        assert running.id not in {row.id for row in found}, "it may be sending: its lease is waited for"
        until = (await world.state(running.id)).lease_until
        assert until is not None
        late = await database.read(lambda tx: claims.expired_leases(tx, until, [], 100, None))
        assert running.id in {row.id for row in late}


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


async def test_a_node_that_slept_writes_nothing_to_a_store_that_has_moved(
    newest_server: str, rich_file: Path, tmp_path: Path
) -> None:
    await move(rich_file, newest_server)
    async with served(newest_server, tmp_path) as database:
        world = World(database, seed=5)
        await world.start("incarnation-11")
        await database.write(lambda tx: leases.end_node(tx, "incarnation-11", world.now))
        await move(newest_server, tmp_path / "back.db")
        with pytest.raises(StoreUnavailable, match="has moved"):
            await world.create(partition=3)


async def test_large_rows_are_carried_a_few_at_a_time(newest_server: str, tmp_path: Path) -> None:
    path = tmp_path / "large.db"
    async with served(path, tmp_path) as database:
        world = World(database)
        await world.start()
        ids = [await world.create(partition=n % 3) for n in range(60)]
    raw = raw_connection(path)
    body = "x" * 500_000
    raw.executemany(
        "UPDATE task_details SET payload = json_set(payload, '$.note', ?) WHERE id = ?", [(body, i) for i in ids]
    )
    raw.close()
    details = next(table for table in TABLES if table.name == "task_details")
    await move(path, newest_server)
    for place in (path, newest_server):
        end = end_of(place)
        await end.look()
        await end.columns(details)
        after, sizes = None, []
        while True:
            chunk = await end.chunk(details, after)
            sizes.append(sum(len(value) for row in chunk.rows for value in row if isinstance(value, str)))
            if chunk.upto is None:
                break
            after = chunk.upto
        await end.close()
        assert len(sizes) > 2
        assert max(sizes) < BYTES_MAX + 8 * len(body)


async def test_finished_rows_are_read_where_they_live(newest_server: str, rich_file: Path, tmp_path: Path) -> None:
    """What the upkeep has moved into history comes along, and nothing twice."""
    before = await holds(rich_file)
    await move(rich_file, newest_server)
    moved = await _into_history(newest_server, tmp_path)
    assert moved > 3
    back = await move(newest_server, tmp_path / "back.db")
    rows = {one.table: one.rows for one in back.tables}
    assert rows["tasks"] == next(one.rows for one in before if one.table == "tasks")
    for name in ("tasks", "task_details", "attempts"):
        mine, theirs = (next(one for one in tables if one.table == name) for tables in (before, back.tables))
        assert mine == theirs
    assert await faults(tmp_path / "back.db") == []


async def _into_history(url: str, folder: Path) -> int:
    async with served(url, folder) as database:
        assert isinstance(database, PostgresDatabase)
        while await database.history.move(EVER):
            pass
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM finished_tasks"))
    finally:
        await connection.close()


async def test_what_has_no_number_yet_is_numbered_and_carried(
    newest_server: str, rich_file: Path, tmp_path: Path
) -> None:
    await move(rich_file, newest_server)
    async with served(newest_server, tmp_path) as database:
        world = World(database, seed=11)
        await world.start("incarnation-2")
        for n in range(5):
            await world.create(partition=n, key=f"new-{n}")
        newest = (await database.read(events.edges)).newest
    target = tmp_path / "back.db"
    await move(newest_server, target)
    async with served(target, tmp_path) as database:
        assert (await database.read(events.edges)).newest == newest + 5
        assert await database.read(told.faults) == []
    assert await faults(newest_server) == []
    await move(target, newest_server, replace=True)
    async with served(newest_server, tmp_path) as database:
        world = World(database, seed=12)
        await world.start("incarnation-3")
        await world.create(partition=9)
        assert not await database.number_events()
        assert (await database.read(events.edges)).newest == newest + 6
        assert await database.read(told.faults) == []
