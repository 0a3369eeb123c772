"""Events of many writers, numbered afterwards: each once, none passed over, a later change behind an earlier one."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import msgspec
import pytest

from tasktick.errors import StoreError
from tasktick.store import events, retention
from tasktick.store.events import Edges, Numbered
from tasktick.store.postgres import dialect
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.tasks import Create
from tests import postgres
from tests.store.drivers import opened
from tests.store.inbox import FOREIGN, Place, placed, take, tell
from tests.store.world import TENANT, World

pytestmark = pytest.mark.postgres


@pytest.fixture(params=sorted(postgres.installed()))
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with placed(request.param, tmp_path) as place:
        yield place


async def test_nothing_waits_for_who_is_not_committed_and_nothing_of_his_is_lost(place: Place) -> None:
    held = await place.writer("held")
    for name in "abc":
        await place.told(name)
        assert (await place.read())[-1] == name
    settled, _ = await place.head()
    assert settled == 0, "a number before the others is still to come"
    await held.execute("COMMIT")
    assert await place.read() == ["a", "b", "c", "held"]
    assert await place.read() == ["a", "b", "c", "held"]


async def test_a_number_that_was_drawn_is_waited_for_whatever_the_id_of_its_transaction(place: Place) -> None:
    """One that is younger than all that are over is none the less under way."""
    older = await place.session("BEGIN; SELECT pg_current_xact_id()")
    held = await place.session("BEGIN; SELECT pg_current_xact_id()")
    await tell(held, "held")
    await tell(older, "a")
    await older.execute("COMMIT")
    assert await place.read() == ["a"]
    for name in "bc":
        await place.told(name)
        await place.read()
    assert (await place.head())[0] == 0
    await held.execute("COMMIT")
    assert await place.read() == ["a", "b", "c", "held"]


async def test_what_is_undone_leaves_no_hole(place: Place) -> None:
    undone = await place.writer("undone")
    await place.told("a")
    await undone.execute("ROLLBACK")
    await place.told("b")
    assert await place.read() == ["a", "b"]
    assert await place.database.read(events.edges) == Edges(1, 2)


async def test_a_later_change_of_a_row_is_later_whoever_began_first(place: Place) -> None:
    """By the ids of transactions, or below the oldest one that runs, the second change would be told first."""
    await place.raws[0].execute("CREATE TABLE one_row (n integer); INSERT INTO one_row VALUES (0)")
    change = "UPDATE one_row SET n = n + 1"
    older = await place.session("BEGIN; SELECT pg_current_xact_id()")
    running = await place.session(FOREIGN)
    younger = await place.session("BEGIN")
    await younger.execute(change)
    await tell(younger, "first")
    waits = asyncio.create_task(older.execute(change))
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = $1"
    async with asyncio.timeout(10):
        while not await place.raws[0].fetchval(waiting, older.get_server_pid()):  # noqa: ASYNC110 # a database sends no event
            await asyncio.sleep(0)
    await younger.execute("COMMIT")
    await waits
    await tell(older, "second")
    await older.execute("COMMIT")
    xmin = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
    writers = "SELECT writer::text::bigint FROM event_inbox ORDER BY number"
    first, second = [row[0] for row in await place.raws[0].fetch(writers)]
    assert second < await place.raws[0].fetchval(xmin) < first, "what the bound below the oldest would have taken"
    assert await place.read() == ["first", "second"]
    await running.execute("ROLLBACK")


@pytest.mark.parametrize(
    "begin", ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM events", FOREIGN]
)
async def test_a_transaction_of_somebody_else_holds_nothing_up(place: Place, begin: str) -> None:
    other = await place.session(begin)
    for number in range(5):
        await place.told(f"{number}")
        assert len(await place.read()) == number + 1
    settled, _ = await place.head()
    # Who only reads has no id, and is not waited for with that either.
    assert settled == (0 if begin is FOREIGN else 4)
    await other.execute("ROLLBACK")
    for number in range(5, 8):
        await place.told(f"{number}")
        assert len(await place.read()) == number + 1
    settled, _ = await place.head()
    assert settled >= 6


async def test_many_writers_and_readers(place: Place) -> None:
    """Each hears everything once, in one order, in which what a writer does later comes later."""
    writers, rounds = 8, 40
    done = asyncio.Event()

    async def write(name: int) -> None:
        random = Random(name)
        raw = await place.session()
        for nth in range(rounds):
            await raw.execute("BEGIN")
            await tell(raw, f"{name}-{nth}")
            for _ in range(random.choice((0, 0, 1, 5))):
                await raw.fetchval("SELECT pg_sleep(0.001)")
            await raw.execute("ROLLBACK" if random.random() < 0.1 else "COMMIT")

    async def follow(random: Random) -> list[str]:
        found: list[str] = []
        at = 1
        while True:
            is_last = done.is_set()
            await place.database.number_events()
            while rows := await place.database.read(partial(events.page, sequence=at)):
                found += [item.id for row in rows for item in row.of(TENANT)]
                at = rows[-1].sequence + 1
            if is_last:
                return found
            await asyncio.sleep(random.random() / 1_000)

    following = [asyncio.create_task(follow(Random(n))) for n in range(3)]
    await asyncio.gather(*(write(name) for name in range(writers)))
    done.set()
    heard = await asyncio.gather(*following)
    assert heard[0] == heard[1] == heard[2] == await place.numbered()
    assert len(set(heard[0])) == len(heard[0]) > writers * rounds * 0.7
    for name in range(writers):
        own = [int(one.split("-")[1]) for one in heard[0] if one.startswith(f"{name}-")]
        assert own == sorted(own)
    assert await place.raws[0].fetchval("SELECT count(*) FROM event_inbox") == 0
    # Where it is settled may lie beyond the newest that was seen last: a smaller number can be committed later.
    settled, _ = await place.head()
    assert settled > 0


async def test_lives_of_tasks_add_up_whoever_writes(place: Place, tmp_path: Path) -> None:
    world = World(place.database)
    await world.start()
    for _ in range(3):
        made = [world.task(partition=n) for n in range(20)]
        await asyncio.gather(*(world.create_all([Create(one)]) for one in made))
        await asyncio.gather(*(world.act("pause", one.state.id) for one in made), place.database.number_events())
        await asyncio.gather(*(world.act("cancel", one.state.id) for one in made), place.database.number_events())
    await world.check_counts()


async def test_one_numbers_at_a_time_and_no_other_waits(place: Place) -> None:
    await place.told("a")
    one = await place.session()
    assert await take(one) == Numbered(ours=True, more=False)
    await place.told("b")
    async with asyncio.timeout(1):
        assert await place.database.number_events(), "it is to come again"
        assert await place.database.write(lambda tx: events.purge(tx, -1, 1_000, 100)), "so is the purge"
    assert await place.numbered() == []
    await one.execute("COMMIT")
    assert await place.numbered() == ["a"]
    assert not await place.database.number_events()
    assert await place.numbered() == ["a", "b"]


async def test_two_at_once_number_everything_once(place: Place) -> None:
    names = [f"{n}" for n in range(60)]
    hands = [await place.session() for _ in range(4)]

    async def number(raw: asyncpg.Connection) -> None:
        while (await take(raw)).more:
            await raw.execute("COMMIT")
        await raw.execute("COMMIT")

    for name in names:
        await asyncio.gather(place.told(name), *(number(raw) for raw in hands))
    assert await place.read() == names


async def test_who_is_killed_while_numbering_leaves_all_as_it_was(place: Place) -> None:
    await place.told("a", "b")
    one = await place.session()
    assert (await take(one)).ours
    await place.raws[0].execute(f"SELECT pg_terminate_backend({one.get_server_pid()}, 5000)")
    assert await place.read() == ["a", "b"]


@pytest.mark.parametrize(("rows_max", "bytes_max"), [(3, 10**6), (100, 150)])
async def test_a_part_at_a_time(place: Place, monkeypatch: pytest.MonkeyPatch, rows_max: int, bytes_max: int) -> None:
    monkeypatch.setattr(events, "NUMBERED_ROWS_MAX", rows_max)
    monkeypatch.setattr(events, "NUMBERED_BYTES_MAX", bytes_max)
    names = [f"{n:02}" + "x" * (n % 3 * 100) for n in range(20)]
    raw = place.raws[0]
    for name in names:
        async with raw.transaction():
            await tell(raw, name)
    assert await take(raw) == Numbered(ours=True, more=True)
    await raw.execute("COMMIT")
    settled, seen = await place.head()
    assert (settled, seen) == (0, 20)
    assert (await take(raw)).more
    await raw.execute("COMMIT")
    assert await place.head() == (0, 20), "not all of them are numbered"
    assert await place.read() == names
    await place.told("last")
    await place.read()
    assert (await place.head())[0] == 20


async def test_where_nothing_is_told_nothing_is_written(place: Place) -> None:
    await place.told("a")
    await place.read()
    next_id = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
    before = await place.raws[0].fetchval(next_id)
    for _ in range(5):
        assert not await place.database.number_events()
    assert await place.raws[0].fetchval(next_id) == before


@pytest.mark.parametrize("ids", ["3", "900000000000"])
async def test_what_was_restored_elsewhere_is_numbered_too(place: Place, ids: str) -> None:
    """In a database that a dump was put into, or that was put back, ids of transactions begin anew or are far on."""
    for name in "abc":
        await place.told(name)
        if name != "c":
            await place.read()
    await place.raws[0].execute(
        f"UPDATE event_inbox SET writer = '{ids}'; UPDATE event_head SET seen_before = '{ids}', settled = 1"
    )
    assert await place.read() == ["a", "b", "c"]
    held = await place.writer("held")
    for name in "de":
        await place.told(name)
        await place.read()
    await held.execute("COMMIT")
    assert await place.read() == ["a", "b", "c", "d", "e", "held"]
    assert (await place.head())[0] <= 6


async def test_the_upkeep_finds_what_nobody_looks_for(place: Place) -> None:
    """Where a table was put back without the numbers that it draws."""
    for name in "abcd":
        await place.told(name)
        await place.read()
    assert (await place.head())[0] > 1
    await place.raws[0].execute("ALTER TABLE event_inbox ALTER COLUMN number RESTART WITH 1")
    await place.told("e")
    assert await place.read() == [*"abcd"]
    await place.database.write(lambda tx: retention.remove_events(tx, -1, 1_000, 100))
    assert await place.numbered() == [*"abcde"]


async def test_the_next_number_follows_what_is_there(place: Place) -> None:
    await place.raws[0].execute("INSERT INTO events (sequence, at, upto, items) VALUES (7, 0, 1, '{}')")
    await place.told("a")
    await place.database.number_events()
    assert (await place.database.read(events.edges)).newest == 8


async def test_a_store_that_is_shut_is_not_written_to(place: Place) -> None:
    await place.told("a")
    (shut,) = dialect()["moving_shut"]
    await place.raws[0].execute(shut.text)
    with pytest.raises(StoreError):
        await place.database.number_events()
    assert await place.numbered() == []


async def test_purge_beside_numbering(place: Place) -> None:
    """What goes is what is oldest, whoever numbers meanwhile; numbers go on."""
    told = 0

    async def write() -> None:
        nonlocal told
        raw = await place.session()
        for nth in range(60):
            async with raw.transaction():
                await tell(raw, f"{nth}")
            told += 1

    async def purge() -> None:
        while told < 120:
            await place.database.write(lambda tx: retention.remove_events(tx, -1, 20, 7))

    async def number() -> None:
        while told < 120:
            await place.database.number_events()

    await asyncio.gather(write(), write(), purge(), number())
    while await place.database.write(lambda tx: retention.remove_events(tx, -1, 20, 7)):
        pass
    assert await place.database.read(events.edges) == Edges(101, 120)
    upto: Any = await place.raws[0].fetch("SELECT sequence, upto FROM events ORDER BY sequence")
    assert [tuple(row) for row in upto] == [(n, n) for n in range(101, 121)]


async def test_what_a_batch_tells_stays_a_batch(place: Place) -> None:
    raw = await place.session()
    async with raw.transaction():
        await tell(raw, "a", "b")
        await tell(raw, "c")
    await place.database.number_events()
    found = await place.database.read(lambda tx: events.page(tx, 1))
    assert [(row.sequence, [item.id for item in row.of(TENANT)]) for row in found] == [(1, ["a", "b"]), (2, ["c"])]
    assert msgspec.to_builtins(await place.database.read(events.edges)) == [1, 2]


@pytest.mark.slow
async def test_a_dump_that_is_restored_on_another_server(tmp_path: Path) -> None:
    """With numbers half given, and writers under way while it was taken."""
    source, target = min(postgres.installed()), max(postgres.installed())
    url, elsewhere = [await postgres.cluster(version).new_database() for version in (source, target)]
    for n in range(50):  # its ids are further on than those of the other will be
        await postgres.cluster(source).run(f"CREATE TABLE filler_{n} (n integer)")
    async with opened(PostgresAddress(url, "tests"), tmp_path / "one") as database:
        place = Place(url, database)
        for name in "abc":
            await place.told(name)
            await place.read()
        held = await place.writer("under way")
        await place.told("d", "e")
        dump = await asyncio.to_thread(_run, source, "pg_dump", "--no-owner", "--format=plain", url)
        await held.execute("ROLLBACK")
        head = await place.head()
        for raw in place.raws:
            await raw.close()
    assert head[0] > 0
    await asyncio.to_thread(_run, target, "psql", "--quiet", "--set=ON_ERROR_STOP=1", elsewhere, given=dump)
    async with opened(PostgresAddress(elsewhere, "tests"), tmp_path / "two") as database:
        place = Place(elsewhere, database)
        await place.told("f")
        assert await place.read() == [*"abcdef"]
        held = await place.writer("held")
        await place.told("g")
        assert await place.read() == [*"abcdefg"]
        await held.execute("COMMIT")
        assert await place.read() == [*"abcdefg", "held"]
        for raw in place.raws:
            await raw.close()


def _run(version: str, program: str, *arguments: str, given: bytes = b"") -> bytes:
    """What a program of that version's has said."""
    program = str(postgres.cluster(version)._programs / program)
    done = subprocess.run([program, *arguments], input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
