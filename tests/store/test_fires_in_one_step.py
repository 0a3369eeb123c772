"""Claims, ends and creates that wait together are one step of a file, and come to what they do one by one."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tasktick.model.state import State
from tasktick.store import claims, events
from tasktick.store.connect import raw_connection
from tasktick.store.database import SqliteDatabase
from tasktick.store.protocol import Transaction
from tasktick.store.tasks import Create
from tests.store import drivers
from tests.store.world import World

TABLES = ("tasks", "task_details", "counts", "attempts", "names", "dead_letters")
FOR_LONG = 1_000_000


def steps_of(database: SqliteDatabase) -> set[frozenset[str]]:
    """Which queries went together in one step."""
    return {frozenset(queries) for queries in database.writer._one_step._there}


async def rows_of(tx: Transaction, table: str) -> list[tuple[Any, ...]]:
    """All that is in a table."""
    return sorted(tx._raw.execute(f"SELECT * FROM {table}").fetchall(), key=repr)  # type: ignore[attr-defined] # a file's


async def played(database: SqliteDatabase) -> dict[str, list[Any]]:
    """Tasks of all kinds are made, claimed, succeed and fail, some of it in one commit; what is in the tables then."""
    world = World(database)
    await world.start()
    ids = [await world.create(tenant=f't"{n % 3}', partition=n, key=f"k{n}" if n % 2 else None) for n in range(12)]
    foreseen = {one.id: one for one in await database.read(lambda tx: claims.read_ahead(tx, ids[4:8], 1_024))}
    failed = await world.claim(*ids[10:])
    world.now += 10
    await world.end(*[await world.answered(one, 500) for one in failed])
    first = await world.claim(*ids[:4])
    world.now = max([(await world.state(one.id)).wake_at for one in failed])
    ends = [await world.answered(one) for one in first]
    asked = claims.Asked(ids[3:], world.request(), foreseen)
    made = Create(world.task(tenant="t9"))
    (taken,), ended, created = await asyncio.gather(
        database.write_batch(claims.CLAIM, [asked]), world.end(*ends), world.create_all([made])
    )
    assert {one.claimed.id for one in taken} == set(ids[4:])
    assert [one.state for one in ended] == [State.SUCCEEDED] * len(first)
    assert created == [None]
    await world.check_counts()
    page = await database.read(lambda tx: events.page(tx, 1))
    told = [(row.sequence, {tenant: sorted(row.of(tenant), key=_task) for tenant in row.tenants}) for row in page]
    return {"events": told, **{table: await database.read(partial(rows_of, table=table)) for table in TABLES}}


def _task(item: events.Item) -> str:
    return item.id


async def test_it_comes_to_what_its_parts_come_to(tmp_path: Path) -> None:
    found = []
    for name in ("steps", "parts"):
        async with drivers.sqlite(tmp_path / name) as database:
            if name == "parts":
                database.writer._in_parts = dict.fromkeys(("claim", "succeed", "create"), FOR_LONG)
            found.append(await played(database))
            together = frozenset({"task_claim_told", "task_succeed_told", "task_create_alike"})
            assert steps_of(database) >= {together} if name == "steps" else not steps_of(database)
    steps, parts = found
    assert steps == parts
    assert (len(steps["tasks"]), len(steps["attempts"])) == (13, 6)


async def test_an_end_that_is_stale_takes_nothing_from_the_others(tmp_path: Path) -> None:
    async with drivers.sqlite(tmp_path) as database:
        world = World(database)
        await world.start()
        one, other, third = [await world.claimed(partition=n) for n in range(3)]
        assert await world.give_back(other, sent=True) is not None
        ends = [await world.answered(claimed) for claimed in (one, other, third)]
        waits = await world.create()
        ended, claimed = await asyncio.gather(world.end(*ends), world.claim(waits))
        assert [end.state for end in ended] == [State.SUCCEEDED, None, State.SUCCEEDED]
        assert [one.id for one in claimed] == [waits]
        assert database.writer._in_parts["succeed"] > 0, "more of them are on their way"
        await world.check_counts()


async def test_what_it_answers_is_on_disk(tmp_path: Path) -> None:
    """A row that is returned comes before the commit: it is not told before that."""
    async with drivers.sqlite(tmp_path) as database:
        world = World(database)
        await world.start()
        task_id = await world.create()
        other = raw_connection(tmp_path / "tasktick.db")
        assert [one.id for one in await world.claim(task_id)] == [task_id]
        assert other.execute("SELECT state FROM tasks").fetchall() == [(State.RUNNING,)]
        other.close()
        assert steps_of(database) >= {frozenset({"task_claim_told"})}


async def test_an_answer_that_cannot_be_read_is_nobody_elses(tmp_path: Path) -> None:
    """All of it is on disk then: whoever came along is told what has become of his, and nothing is tried again."""
    async with drivers.sqlite(tmp_path) as database:
        world = World(database)
        await world.start()
        claimed = await world.claimed()
        bad = await world.create()
        raw = raw_connection(tmp_path / "tasktick.db")
        raw.execute("UPDATE task_details SET payload = '{\"target\": 5}' WHERE id = ?", (bad,))
        raw.close()
        end, made = await world.answered(claimed), Create(world.task())
        asked = claims.Asked([bad], world.request(), {})
        (taken,), ended, created = await asyncio.gather(
            database.write_batch(claims.CLAIM, [asked]), world.end(end), world.create_all([made])
        )
        assert isinstance(taken, msgspec.ValidationError)
        assert ([one.state for one in ended], created) == ([State.SUCCEEDED], [None])
        assert (await world.state(bad)).state is State.RUNNING, "until its lease has passed"
        await world.check_counts()
