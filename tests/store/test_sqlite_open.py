"""SQLite alone: who may open the file, how it is set, and what is left when it is closed."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from tasktick.errors import StoreCorrupt, StoreError, StoreLocked
from tasktick.model import change
from tasktick.store import counts, tasks
from tasktick.store.connect import SAFE_SQLITE, ThreadLink
from tasktick.store.database import SqliteDatabase, open_sqlite
from tests.store.drivers import spawn, sqlite, unexpected
from tests.store.world import World

ROOT = Path(__file__).resolve().parents[2]
# Logs go to standard error, as the daemon's do.
LOGGED = """
import sys
if "no pysqlite3" in sys.argv:
    sys.modules["pysqlite3"] = None
from tasktick import logs
logs.configure()
"""
HOLD = """
import asyncio, sys
from pathlib import Path
from tests.store.drivers import sqlite

async def main():
    async with sqlite(Path(sys.argv[1])):
        print("open", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
ONCE = """
import asyncio, sys, threading
from pathlib import Path
from tests.store.drivers import sqlite
from tests.store.world import World

async def main():
    async with sqlite(Path(sys.argv[1])) as database:
        world = World(database)
        await world.start()
        writes = [asyncio.ensure_future(world.create()) for _ in range(50)]
        await asyncio.sleep(0)
    print(len([await one for one in writes]))

asyncio.run(main())
for thread in set(threading.enumerate()) - {threading.main_thread()}:
    thread.join(5)
assert threading.active_count() == 1, threading.enumerate()
"""
# The standard library's own SQLite, as on a machine without the extra.
ROUND_TRIP = """
import asyncio, sys
from pathlib import Path
from tasktick.store.connect import SQLITE_VERSION_TEXT, sqlite3
from tests.store.drivers import sqlite
from tests.store.world import World
assert sqlite3.__file__.endswith("/sqlite3/__init__.py"), sqlite3.__file__

async def main():
    async with sqlite(Path(sys.argv[1])) as database:
        world = World(database)
        await world.start()
        claimed = await world.claimed(key="k-1")
        await world.finish(claimed, 500)
        world.now += 3_600_000
        await world.act("pause", claimed.id)
        await world.act("resume", claimed.id)
        (claimed,) = await world.claim(claimed.id)
        print(SQLITE_VERSION_TEXT, (await world.finish(claimed)).word, len(await world.attempts(claimed.id)))
        await world.check_counts()

asyncio.run(main())
"""


def program(text: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", LOGGED + text, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left_over(before: set[threading.Thread]) -> list[threading.Thread]:
    """Threads that have started since and do not end; one that has just been told to may need a moment."""
    new = set(threading.enumerate()) - before
    for thread in new:
        thread.join(5)
    return [thread for thread in new if thread.is_alive()]


async def pragma(database: SqliteDatabase, name: str) -> Any:
    return await database._links.writer.call(lambda raw: raw.execute(f"PRAGMA {name}").fetchone()[0])


async def test_the_writer_syncs_every_commit(tmp_path: Path) -> None:
    async with sqlite(tmp_path) as database:
        assert await pragma(database, "synchronous") == 2, "FULL"
        assert await pragma(database, "journal_mode") == "wal"
        assert await pragma(database, "wal_autocheckpoint") == 0, "its errors would be swallowed"


async def test_readers_cannot_write(tmp_path: Path) -> None:
    async with sqlite(tmp_path) as database:
        for reader in (database, database.near):
            with pytest.raises(StoreError, match="readonly"):
                await reader.read(lambda tx: tx.run("counts_add", rows=[["a", 2, 1]]))
        assert await database.read(counts.actual) == []


async def test_the_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with sqlite(tmp_path / "data") as database:
            await World(database).start()
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").iterdir()}
    finally:
        os.umask(before)
    names = {"tasktick.db", "tasktick.db-wal", "tasktick.db-shm", "tasktick.db.lock"}
    assert modes == dict.fromkeys(names, 0o600)
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


async def test_one_process_has_it_once(tmp_path: Path) -> None:
    async with sqlite(tmp_path) as database:
        with pytest.raises(StoreLocked, match=f"in use by another TaskTick \\(process {os.getpid()}\\)"):
            await open_sqlite(tmp_path / "tasktick.db", spawn, unexpected)
        assert await database.read(counts.actual) == []
    async with sqlite(tmp_path):
        pass


async def test_a_name_that_leads_to_the_same_file_is_the_same_store(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "tasktick.db").symlink_to(tmp_path / "tasktick.db")
    async with sqlite(tmp_path):
        with pytest.raises(StoreLocked):
            await open_sqlite(tmp_path / "other" / "tasktick.db", spawn, unexpected)


@pytest.mark.process
async def test_another_process_is_kept_out_until_it_is_dead(tmp_path: Path) -> None:
    with program(HOLD, str(tmp_path)) as holder:
        assert holder.stdout is not None
        try:
            assert await asyncio.to_thread(holder.stdout.readline) == "open\n"
            with pytest.raises(StoreLocked, match=f"process {holder.pid}"):
                await open_sqlite(tmp_path / "tasktick.db", spawn, unexpected)
        finally:
            holder.send_signal(signal.SIGKILL)
            holder.wait()
    async with sqlite(tmp_path):
        pass


@pytest.mark.process
def test_a_process_that_closes_the_store_ends(tmp_path: Path) -> None:
    with program(ONCE, str(tmp_path)) as once:
        out, err = once.communicate(timeout=20)
    assert (out, once.returncode) == ("50\n", 0), err


@pytest.mark.process
def test_it_runs_on_the_standard_library(tmp_path: Path) -> None:
    with program(ROUND_TRIP, str(tmp_path), "no pysqlite3") as once:
        out, err = once.communicate(timeout=20)
    assert out.endswith(" succeeded 2\n"), err
    version = tuple(map(int, out.split()[0].split(".")))
    assert ("sqlite_old" in err) == (version < SAFE_SQLITE)


async def test_closing_writes_what_is_queued_and_leaves_no_thread(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    async with sqlite(tmp_path) as database:
        world = World(database)
        await world.start()
        writes = [asyncio.ensure_future(world.create()) for _ in range(50)]
        await asyncio.sleep(0)
    ids = [await one for one in writes]
    assert left_over(threads) == []
    async with sqlite(tmp_path) as database:
        assert {row.id for row in await database.read(lambda tx: tasks.states(tx, ids))} == set(ids)
    assert not Path(f"{tmp_path}/tasktick.db-wal").exists(), "the log is moved in"  # noqa: ASYNC240 - a look


async def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    async with sqlite(tmp_path) as database:
        await database.close()
    with pytest.raises(StoreError, match="closing"):
        await World(database).create()


async def test_readers_see_only_what_is_committed(tmp_path: Path) -> None:
    inserted, go_on = threading.Event(), threading.Event()
    async with sqlite(tmp_path) as database:
        world = World(database)
        await world.start()
        task = world.task()

        async def slowly(tx: Any) -> None:
            await tasks.insert(tx, [task])
            inserted.set()
            assert go_on.wait(10)

        write = asyncio.ensure_future(database.write(slowly))
        assert await asyncio.to_thread(inserted.wait, 10)
        for reader in (database, database.near):
            assert await reader.read(lambda tx: tasks.states(tx, [task.state.id])) == []
        go_on.set()
        await write
        for reader in (database, database.near):
            assert len(await reader.read(lambda tx: tasks.states(tx, [task.state.id]))) == 1


async def test_a_read_is_one_snapshot(tmp_path: Path) -> None:
    first, go_on = threading.Event(), threading.Event()
    async with sqlite(tmp_path) as database:
        world = World(database)
        await world.start()
        task_id = await world.create()

        async def twice(tx: Any) -> list[Any]:
            seen = await tasks.states(tx, [task_id])
            first.set()
            assert go_on.wait(10)
            return seen + await tasks.states(tx, [task_id])

        read = asyncio.ensure_future(database.read(twice))
        assert await asyncio.to_thread(first.wait, 10)
        await world.write(change.pause(await _near_state(database, task_id), world.now))
        go_on.set()
        before, after = await read
        assert before == after


async def _near_state(database: SqliteDatabase, task_id: str) -> Any:
    return (await database.near.read(lambda tx: tasks.states(tx, [task_id])))[0]


async def test_what_is_no_store_is_said_to_be_none(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    (tmp_path / "tasktick.db").write_bytes(b"this is a letter to a friend, of some length, and no database" * 20)
    with pytest.raises(StoreCorrupt, match="not a database"):
        await open_sqlite(tmp_path / "tasktick.db", spawn, unexpected)
    assert left_over(threads) == []


async def test_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "tasktick.db").mkdir()
    with pytest.raises(StoreError, match=r"tasktick\.db cannot be opened"):
        await open_sqlite(tmp_path / "tasktick.db", spawn, unexpected)


async def test_a_path_may_hold_what_a_uri_may_not(tmp_path: Path) -> None:
    folder = tmp_path / "100% a?b#c d"
    async with sqlite(folder) as database:
        await World(database).start()
    assert (folder / "tasktick.db").stat().st_size > 0


async def test_the_private_hop_of_aiosqlite_is_as_we_use_it(tmp_path: Path) -> None:
    """`ThreadLink` calls `Connection._execute(function, *arguments)` and reads `_conn`: pinned with its version."""
    connection = await aiosqlite.connect(tmp_path / "file.db")
    try:
        thread = await ThreadLink(connection).call(lambda raw: (threading.current_thread(), raw))
        assert thread[0] is connection._thread
        assert thread[1] is connection._conn
        assert await connection._execute(lambda a, b: a + b, 1, 2) == 3  # type: ignore[no-untyped-call]
    finally:
        await connection.close()
    connection._thread.join(5)
    assert not connection._thread.is_alive()
