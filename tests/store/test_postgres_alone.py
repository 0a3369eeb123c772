"""Creates that are a single statement: as durable as a transaction, and found out about when their answer is lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tasktick.errors import Refused, StoreUnavailable
from tasktick.store import postgres_links, postgres_writer, tenants
from tasktick.store.connect import PostgresConnection, connect_postgres
from tasktick.store.postgres import LIMITS, write_alone
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.protocol import Alone
from tasktick.store.tasks import CREATE, Create, create_alone
from tests import postgres
from tests.store.drivers import opened
from tests.store.world import World

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]
LATE_S = 0.2
NAME = "tests of statements by themselves"


async def _at_once() -> None: ...


class Wire:
    """What becomes of the next single statements, and what the server said to those that came late."""

    def __init__(self) -> None:
        self.fates: list[str] = []
        self.late: list[asyncio.Task[Any]] = []
        self.late_s = LATE_S
        self.begun: Callable[[], Awaitable[None]] = _at_once
        self.alone: list[str] = []


class Cut:
    """A connection that loses the answer to a single statement, or brings it when its sender has given it up."""

    def __init__(self, raw: PostgresConnection, wire: Wire) -> None:
        self._raw = raw
        self._wire = wire

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    async def fetchval(self, text: str, *arguments: Any) -> Any:
        if "marked AS (" not in text or not self._wire.fates:
            return await self._raw.fetchval(text, *arguments)
        fate = self._wire.fates.pop(0)
        if fate == "after":
            await self._raw.fetchval(text, *arguments)
        elif fate == "late":
            self.terminate = lambda: None
            self.is_closed = lambda: True
            self._wire.late.append(asyncio.create_task(self._late(text, *arguments)))
            await self._wire.begun()
        raise ConnectionResetError("cut on purpose")

    async def _late(self, text: str, *arguments: Any) -> Any:
        await asyncio.sleep(self._wire.late_s)
        try:
            return await self._raw.fetchval(text, *arguments)
        finally:
            self._raw.terminate()


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Of all connections that are made from now on."""
    wire = Wire()
    connect = connect_postgres

    async def cutting(url: str, **options: Any) -> Any:
        return Cut(await connect(url, **options), wire)

    async def noting(raw: Any, alone: Alone, *rest: Any) -> bool:
        wire.alone.append(alone.query)
        return await write_alone(raw, alone, *rest)

    monkeypatch.setattr(postgres_links, "connect_postgres", cutting)
    monkeypatch.setattr(postgres_writer, "write_alone", noting)
    return wire


@asynccontextmanager
async def world_on(url: str, folder: Path, **options: Any) -> AsyncIterator[World]:
    async with opened(PostgresAddress(url, NAME, **options), folder) as database:
        world = World(database)
        await world.start()
        yield world
        await world.check_counts()


@pytest.fixture
async def world(wire: Wire, url: str, tmp_path: Path) -> AsyncIterator[World]:
    async with world_on(url, tmp_path) as world:
        wire.alone.clear()
        yield world


async def _values(url: str, query: str) -> list[Any]:
    raw = await asyncpg.connect(url)
    try:
        return [row[0] for row in await raw.fetch(query)]
    finally:
        await raw.close()


async def _waiting(url: str, count: int) -> None:
    """Until so many statements wait for a lock."""
    waiting = f"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = '{NAME}'"
    async with asyncio.timeout(10):
        while await _values(url, waiting) != [count]:
            pass


async def test_tasks_of_one_shape_and_of_several_are_a_statement_each(wire: Wire, world: World, url: str) -> None:
    assert await world.create_all([Create(world.task()) for _ in range(3)]) == [None] * 3
    mixed = [Create(world.task(tenant=name, host=host)) for name in ("a", "b") for host in ("x", "y")]
    assert await world.create_all(mixed) == [None] * 4
    assert wire.alone == ["task_create_alike", "task_create"]
    for create in mixed:
        assert await world.state(create.task.state.id) == create.task.state
    assert sum(await _values(url, "SELECT events FROM event_inbox")) == 7
    assert sum(await _values(url, "SELECT tasks FROM state_counts WHERE state = 2")) == 7


async def test_what_must_be_asked_about_before_goes_the_long_way(wire: Wire, world: World) -> None:
    assert await world.create_all([Create(world.task(key="k")), Create(world.task())]) == [None, None]
    assert await world.create_all([world.idempotent(world.task(), "name")]) == [None]
    assert wire.alone == []


async def test_a_quota_is_judged_and_for_a_while_nobody_asks_in_vain(wire: Wire, world: World) -> None:
    await world.database.write(lambda tx: tenants.put(tx, "a", max_pending=2, create_rate=None, now=world.now))
    outcomes = [(await world.create_all([Create(world.task(tenant="a"))]))[0] for _ in range(3)]
    assert outcomes[:2] == [None, None]
    assert isinstance(outcomes[2], Refused)
    assert wire.alone == ["task_create_alike"]
    # Nothing of a statement that wrote nothing is left, and others of the batch are in.
    both = await world.create_all([Create(world.task(tenant="a")), Create(world.task(tenant="b"))])
    assert [type(one) for one in both] == [Refused, type(None)]


@pytest.mark.parametrize("fates", [["after"], ["lost"], ["late"], ["late", "after"], ["late", "late"]], ids="-".join)
async def test_whatever_becomes_of_the_answer_a_task_is_made_once(
    wire: Wire, world: World, url: str, fates: list[str]
) -> None:
    wire.fates += fates
    task = world.task()
    assert await world.create_all([Create(task)]) == [None]
    assert wire.fates == []
    # What comes late finds its mark passed over: it writes nothing, and is no error.
    assert await asyncio.gather(*wire.late) == ["[0]"] * fates.count("late")
    assert await _values(url, "SELECT count(*) FROM tasks") == [1]
    assert sum(await _values(url, "SELECT events FROM event_inbox")) == 1
    assert await world.create_all([Create(world.task())]) == [None]  # its marks go on from there


@pytest.mark.parametrize("fates", [["after"], ["lost"], ["late"]], ids="-".join)
async def test_an_answer_that_is_lost_says_nothing_of_what_a_quota_kept_out(
    wire: Wire, world: World, url: str, fates: list[str]
) -> None:
    """The statement wrote nothing: its mark is not there, and all are asked the long way."""
    await world.database.write(lambda tx: tenants.put(tx, "a", max_pending=1, create_rate=None, now=world.now))
    wire.fates += fates
    creates = [Create(world.task(tenant=name)) for name in ("a", "a", "b")]
    outcomes = await world.create_all(creates)
    assert wire.fates == []
    assert [type(one) for one in outcomes] == [type(None), Refused, type(None)]
    await asyncio.gather(*wire.late)
    assert await _values(url, "SELECT count(*) FROM tasks") == [2]


async def test_who_finds_out_waits_for_a_statement_that_is_under_way(wire: Wire, world: World, url: str) -> None:
    assert await world.create_all([Create(world.task())]) == [None]
    holding = await asyncpg.connect(url)
    try:
        await holding.execute(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END $$; "
            "CREATE TRIGGER wait BEFORE INSERT ON event_inbox FOR EACH ROW EXECUTE FUNCTION wait(); "
            "SELECT pg_advisory_lock(7)"
        )
        wire.fates.append("late")
        wire.late_s, wire.begun = 0.0, lambda: _waiting(url, 1)
        creating = asyncio.ensure_future(world.create_all([Create(world.task())]))
        await _waiting(url, 2)  # the statement, and who asks for its mark
        await holding.execute("SELECT pg_advisory_unlock(7)")
        assert await creating == [None]
        await asyncio.gather(*wire.late)
    finally:
        await holding.close()
    assert await _values(url, "SELECT count(*) FROM tasks") == [2]


async def test_what_a_server_refuses_is_not_asked_for_ever(wire: Wire, world: World, url: str) -> None:
    """It says that it did not do it: that is no lost answer."""
    raw = await asyncpg.connect(url)
    try:
        await raw.execute(
            "CREATE FUNCTION full_up() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'no memory' USING ERRCODE = '53200'; END $$; "
            "CREATE TRIGGER full_up BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION full_up()"
        )
        with pytest.raises(StoreUnavailable):
            await world.create_all([Create(world.task())])
        assert len(wire.alone) < 20
        await raw.execute("DROP TRIGGER full_up ON tasks")
    finally:
        await raw.close()
    assert await world.create_all([Create(world.task())]) == [None]


async def test_a_statement_by_itself_is_ended_by_the_server_too(url: str) -> None:
    """Else one that its sender has given up would stay, and with each try another."""
    raw = await asyncpg.connect(url)
    try:
        assert await postgres_links.allow_alone(raw)
        for name, value in LIMITS.items():
            found = await raw.fetchval("SELECT setting FROM pg_settings WHERE name = $1", name)
            assert found == value
    finally:
        await raw.close()


class Between:
    """A connection as a pooler shows it: under a number of its own."""

    def __init__(self, raw: PostgresConnection) -> None:
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def get_server_pid(self) -> int:
        return 7


async def test_through_a_pooler_nothing_is_set_that_would_stay(url: str) -> None:
    raw = await asyncpg.connect(url)
    try:
        assert not await postgres_links.allow_alone(Between(raw))
        assert await raw.fetchval("SHOW statement_timeout") == "0"
    finally:
        await raw.close()


async def test_a_row_that_cannot_be_written_is_told_alone(wire: Wire, world: World) -> None:
    known = world.task()
    assert await world.create_all([Create(known)]) == [None]
    again, fresh = await asyncio.gather(
        *(world.database.write_batch(CREATE, [Create(one)]) for one in (known, world.task()))
    )
    assert [type(one) for one in again] == [asyncpg.UniqueViolationError]
    assert fresh == [None]
    assert len(wire.alone) >= 3


async def test_where_a_statement_would_run_under_other_rules_none_is_alone(
    wire: Wire, url: str, tmp_path: Path
) -> None:
    strict = f"{url}&options=-c%20default_transaction_isolation=serializable"
    async with world_on(strict, tmp_path) as world:
        assert await world.create_all([Create(world.task())]) == [None]
        assert wire.alone == []


async def test_behind_a_pooler_that_keeps_no_statements_none_is_alone(wire: Wire, url: str, tmp_path: Path) -> None:
    async with world_on(url, tmp_path, keep_statements=False) as world:
        assert await world.create_all([Create(world.task())]) == [None]
        assert wire.alone == []


async def test_what_others_contend_for_is_written_last_of_all(world: World, url: str) -> None:
    """Its rows are held, and its number in the order of events is drawn, no longer than until the commit."""
    raw = await asyncpg.connect(url)
    said: list[str] = []
    try:
        for table in ("marks", "tasks", "task_details", "counts", "event_inbox"):
            await raw.execute(
                f"CREATE FUNCTION say_{table}() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN RAISE NOTICE '{table}'; RETURN NEW; END $$; "
                f"CREATE TRIGGER say BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION say_{table}()"
            )
        raw.add_log_listener(lambda _, message: said.append(message.message))
        for mark, shapes in ((2, ["a"]), (4, ["a", "b"])):
            said.clear()
            alone = create_alone([Create(world.task(tenant=name)) for name in shapes])
            assert alone is not None
            assert await write_alone(raw, alone, None, "w", mark)
            assert said[0] == "marks"
            assert said[-len(shapes) - 1 :] == ["counts"] * len(shapes) + ["event_inbox"]
    finally:
        await raw.close()
