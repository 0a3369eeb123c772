"""SQLite alone: a sync that fails stops it, a full disk is refused and outlived, and commits are shared."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tasktick.errors import StoreBroken, StoreFull
from tasktick.store import check as store_check
from tasktick.store import due, tasks
from tasktick.store.connect import raw_connection
from tasktick.store.database import SqliteDatabase, open_sqlite
from tasktick.store.tasks import Create
from tests.store.drivers import spawn, sqlite
from tests.store.world import World

ROOT = Path(__file__).resolve().parents[2]
TMPFS_BYTES = 2_000_000
# Prints what was acknowledged and what failed; then tries once more, reads, and closes.
CREATES = """
import asyncio, sys
from pathlib import Path
from tasktick import logs
from tasktick.store import counts, writer
from tasktick.store.database import open_sqlite
from tests.store.drivers import spawn
from tests.store.world import World

logs.configure()
writer.CHECKPOINT_BUSY_ROWS = int(sys.argv[2])

async def main():
    crashed = asyncio.get_running_loop().create_future()
    database = await open_sqlite(Path(sys.argv[1]) / "tasktick.db", spawn, crashed.set_result)
    try:
        world = World(database)
        await world.start()
        for _ in range(25):
            try:
                print("ack", await world.create(), flush=True)
            except Exception as error:
                print("fail", type(error).__name__, flush=True)
        print("crash", type(await crashed).__name__, flush=True)
        print("read", sum(row.tasks for row in await database.read(counts.actual)), flush=True)
    finally:
        await database.close()

asyncio.run(main())
"""


async def recovered(folder: Path) -> set[str]:
    """The ids that a new start finds, in a store that is sound."""
    async with sqlite(folder):
        pass
    report = store_check.check(folder / "tasktick.db", full=True)
    assert report.ok, report.checks
    raw = raw_connection(folder / "tasktick.db")
    try:
        return {task_id for (task_id,) in raw.execute("SELECT id FROM tasks").fetchall()}
    finally:
        raw.close()


def with_failing_sync(
    folder: Path, when: int, *, of: str | None = None, checkpoint_rows: int = 2_000
) -> list[list[str]]:
    """What the creating process printed, while its n-th sync (of one file, or of any) fails."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("there is no strace here")
    inject = ["-e", "trace=fsync,fdatasync", "-e", f"inject=fsync,fdatasync:error=EIO:when={when}"]
    path = ["-P", str(folder / of)] if of else []
    command = [strace, "-f", "-qq", "-o", "/dev/null", *inject, *path, sys.executable, "-c", CREATES]
    ran = subprocess.run(
        [*command, str(folder), str(checkpoint_rows)], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    if "ptrace" in ran.stderr.lower():
        pytest.skip("strace may not watch processes here")
    assert ran.returncode == 0, ran.stderr
    return [line.split() for line in ran.stdout.splitlines()]


def judged(lines: list[list[str]]) -> set[str]:
    """What was acknowledged; nothing was after the first failure, and the process was told to stop."""
    words = [line[0] for line in lines]
    first = words.index("fail")
    assert set(words[first:-2]) == {"fail"}
    assert {line[1] for line in lines if line[0] == "fail"} == {"StoreBroken"}
    assert lines[-2] == ["crash", "StoreBroken"]
    assert words[-1] == "read", "reads go on until the process ends"
    return {line[1] for line in lines if line[0] == "ack"}


@pytest.mark.process
@pytest.mark.parametrize("when", [4, 9, 20])
async def test_a_commit_that_cannot_be_synced_is_the_last(tmp_path: Path, when: int) -> None:
    async with sqlite(tmp_path):
        pass
    lines = await asyncio.to_thread(with_failing_sync, tmp_path, when, of="tasktick.db-wal")
    acknowledged = judged(lines)
    assert Path(f"{tmp_path}/tasktick.db-wal").exists(), "what a failed sync left is for the next start to read"  # noqa: ASYNC240 - a look
    found = await recovered(tmp_path)
    assert acknowledged <= found
    assert len(found) <= len(acknowledged) + 1, "only the one of unknown fate may be there as well"


@pytest.mark.process
async def test_a_checkpoint_that_cannot_be_synced_is_the_last(tmp_path: Path) -> None:
    async with sqlite(tmp_path):
        pass
    lines = await asyncio.to_thread(with_failing_sync, tmp_path, 1, of="tasktick.db", checkpoint_rows=5)
    acknowledged = judged(lines)
    assert len(acknowledged) < 10, "it was noticed at the first checkpoint"
    assert await recovered(tmp_path) >= acknowledged


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", str(folder)]
    mount = shutil.which("mount")
    if mount is None or subprocess.run([mount, *options], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
async def broken() -> asyncio.Future[BaseException]:
    """What broke the store, if anything did."""
    return asyncio.get_running_loop().create_future()


@pytest.fixture
async def tight(small_disk: Path, broken: asyncio.Future[BaseException]) -> AsyncIterator[World]:
    database = await open_sqlite(small_disk / "tasktick.db", spawn, broken.set_result)
    world = World(database)
    await world.start()
    yield world
    await database.close()


async def fill(world: World) -> list[str]:
    """Create until the disk is full; what was acknowledged."""
    acknowledged: list[str] = []
    for _ in range(TMPFS_BYTES // 20_000):
        try:
            acknowledged.append(await world.create(url="https://receiver.example/" + "x" * 20_000))
        except StoreFull:
            return acknowledged
    raise AssertionError("the disk was not full")


async def test_a_full_disk_refuses_and_recovers_when_room_returns(
    tight: World, small_disk: Path, broken: asyncio.Future[BaseException]
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * 500_000)
    first, again = await fill(tight), await fill(tight)
    assert first
    await tight.check_counts()
    assert await tight.rows_by_state() == {("default", 2): len(first) + len(again)}
    ballast.unlink()
    later = await tight.create()
    acknowledged = {*first, *again, later}
    rows = await tight.database.near.read(lambda tx: tasks.states(tx, sorted(acknowledged)))
    assert len(rows) == len(acknowledged)
    (claimed,) = await tight.claim(later)
    await tight.finish(claimed)
    await tight.check_counts()
    assert not broken.done(), "a full disk does not stop the process"


async def test_a_full_disk_loses_nothing_over_a_restart(tight: World, small_disk: Path) -> None:
    acknowledged = await fill(tight)
    database = tight.database
    assert isinstance(database, SqliteDatabase)
    await database.close()
    assert await recovered(small_disk) == set(acknowledged)


async def test_a_file_that_may_not_grow_is_a_full_disk(tmp_path: Path) -> None:
    async with sqlite(tmp_path) as database:
        world = World(database)
        await world.start()
        link = database._links.writer
        pages = await link.call(lambda raw: raw.execute("PRAGMA page_count").fetchone()[0])
        await link.call(lambda raw: raw.execute(f"PRAGMA max_page_count = {pages + 20}").fetchone())
        acknowledged = await fill(world)
        with pytest.raises(StoreFull):
            await world.create_all([Create(world.task(url="https://receiver.example/" + "x" * 90_000))])
        await database.write(lambda tx: due.park(tx, {}))
        assert database.writer.full, "a commit of nothing finds room on any disk"
        await link.call(lambda raw: raw.execute("PRAGMA max_page_count = 1000000").fetchone())
        acknowledged.append(await world.create())
        room: bool = not database.writer.full
        assert room
        assert await world.rows_by_state() == {("default", 2): len(acknowledged)}
        await world.check_counts()


async def test_creates_that_wait_together_commit_together(tmp_path: Path) -> None:
    async with sqlite(tmp_path) as database:
        world = World(database)
        await world.start()
        before = database.writer.commits
        await asyncio.gather(*(world.create() for _ in range(400)))
        assert database.writer.commits - before <= 4


async def test_a_store_that_broke_answers_nothing_but_that(tmp_path: Path) -> None:
    broke: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    database = await open_sqlite(tmp_path / "tasktick.db", spawn, broke.set_result)
    world = World(database)
    await world.start()
    await database._links.writer.call(lambda raw: raw.execute("PRAGMA query_only = ON"))
    with pytest.raises(StoreBroken):
        await world.create()
    with pytest.raises(StoreBroken):
        await world.create()
    assert isinstance(await broke, StoreBroken)
    await database.close()
