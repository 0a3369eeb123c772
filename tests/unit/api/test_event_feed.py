"""Followers of a feed, whatever comes between two reads: each gets everything behind its place, once and in order."""

import asyncio
from random import Random

import msgspec
import pytest
import structlog

from tasktick.api import event_feed
from tasktick.api.event_feed import EventFeed, Follower
from tasktick.api.event_frames import GAP, TYPES, Position, frames, position_of, type_of
from tasktick.clock import SystemClock
from tasktick.errors import Refused, StoreError, StoreFull
from tasktick.model.ids import ID_CHARS
from tasktick.model.state import State
from tasktick.service import Services
from tasktick.settings import ServerConfig
from tasktick.store import events
from tasktick.store.counts import PURGED
from tasktick.store.events import UNBORN, EventRow, Item
from tasktick.store.protocol import Operation, T
from tests.fakes.sending import until
from tests.store.drivers import InlineDatabase

TENANTS = ("a", "b", "c")
BATCHES = 150


async def turns(random: Random) -> None:
    """Let the others go on for a while."""
    for _ in range(random.choice((0, 0, 1, 3, 10))):
        await asyncio.sleep(0)


def test_a_page_never_fills_what_may_wait_for_a_follower() -> None:
    """Else a single one would drop a follower that is quick."""
    assert 2 * (events.PAGE_CHARS_MAX // ID_CHARS) <= event_feed.WAITING_MAX


class SlowReader:
    """Reads a snapshot, and hands it over when other things have happened since."""

    def __init__(self, database: InlineDatabase, random: Random) -> None:
        self._database = database
        self._random = random

    async def read(self, operation: Operation[T]) -> T:
        await turns(self._random)
        result = await self._database.read(operation)
        await turns(self._random)
        return result

    async def number_events(self) -> bool:
        await turns(self._random)
        return False


class Recorder:
    """A follower, and the ids that it has taken, at its own pace."""

    def __init__(self, follower: Follower, after: Position, random: Random) -> None:
        self.follower = follower
        self.after = after
        self.seen: list[str] = []
        self._random = random

    async def run(self) -> None:
        while True:
            for frame in await self.follower.take(1):
                name = frame.text.split(b"\n")[1].removeprefix(b"id: ").decode()
                self.seen.append(f"gap {name}" if frame.type == GAP else name)
            await turns(self._random)


class World:
    """A store that is written to at random, and those who follow it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.database = InlineDatabase()
        self.feed = EventFeed(SystemClock(), SlowReader(self.database, Random(seed + 1)), ServerConfig())
        self.told: list[tuple[str, str]] = []
        self.batches = 0
        self.recorders: list[Recorder] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def write(self) -> None:
        """A batch of some tenants' events; the hint of it may be lost."""
        random = self.random
        sizes = {tenant: random.randint(1, 4) for tenant in random.sample(TENANTS, random.randint(1, 3))}
        items = {tenant: [(f"{n:032x}", 2, 4, 0, 1) for n in range(size)] for tenant, size in sizes.items()}
        await self.database.write(lambda tx: events.record(tx, items, 0))
        self.batches += 1
        self.told += [(one, f"{self.batches}-{n}") for one, size in sizes.items() for n in range(1, size + 1)]
        if random.random() < 0.8:
            self.feed.committed()

    async def follow(self) -> None:
        """One more, from anywhere that there is."""
        tenant = self.random.choice(TENANTS)
        after = Position(self.random.randint(1, self.batches + 1))
        if after.sequence <= self.batches:
            after = Position(after.sequence, self.random.randint(0, 4))
        follower = await self.feed.follow(tenant, after)
        self.recorders.append(Recorder(follower, after, Random(self.random.random())))
        self._tasks.append(asyncio.create_task(self.recorders[-1].run()))

    def leave(self) -> None:
        """One of them has had enough."""
        at = self.random.randrange(len(self.recorders))
        self._tasks.pop(at).cancel()
        self.recorders.pop(at).follower.close()

    def wanted(self, one: Recorder) -> list[str]:
        """Everything of its tenant behind its place."""
        named = [name for tenant, name in self.told if tenant == one.follower.tenant]
        return [name for name in named if position_of(name) > one.after]

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        while self.recorders:
            self.recorders.pop().follower.close()
        self.database.raw.close()


@pytest.mark.parametrize("seed", range(20))
async def test_everything_behind_a_place_once_and_in_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "POLL_MS", 2)
    monkeypatch.setattr(event_feed, "PACE_MS", seed % 2)
    monkeypatch.setattr(event_feed, "WAITING_MAX", 1 + seed % 5 * 4)
    monkeypatch.setattr(events, "PAGE_ROWS_MAX", 1 + seed % 7)
    world, services = World(seed), Services(SystemClock())
    services.run_loop(world.feed)
    try:
        for number in range(BATCHES):
            await world.write()
            if number % 10 == 0:
                await world.follow()
            if number % 35 == 34:
                world.leave()
            await turns(world.random)
        for one in world.recorders:
            wanted = world.wanted(one)
            await until(lambda one=one, wanted=wanted: len(one.seen) >= len(wanted))  # type: ignore[misc] # bound now
            assert one.seen == wanted
        assert len(world.feed) == len(world.recorders)
    finally:
        world.end()
        await services.stop()
    assert (len(world.feed), world.feed.head) == (0, 0)


async def test_what_is_removed_before_it_is_read_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PAGE_ROWS_MAX", 2)
    world = World(1)
    feed = world.feed
    try:
        for _ in range(6):
            await world.write()
        behind = await feed.follow("a", Position(1))
        live = await feed.follow("b", None)
        while not feed.head:
            assert await live.take(0) == []
        await behind.take(0)
        await world.write()
        await world.write()
        await world.database.write(lambda tx: tx.run("events_remove", sequence=7))
        await feed.step()
        for one in (behind, live):
            (told, *_) = await one.take(0)
            assert b'"reason":"forgotten"' in told.text
            assert b'"resumed":"8-0"' in told.text
    finally:
        world.end()


class HeldReader:
    """Reads at once; hands over when it is let."""

    def __init__(self, database: InlineDatabase) -> None:
        self._database = database
        self.may_go = asyncio.Event()
        self.may_go.set()
        self.reads = 0

    async def read(self, operation: Operation[T]) -> T:
        result = await self._database.read(operation)
        self.reads += 1
        await self.may_go.wait()
        return result

    async def number_events(self) -> bool:
        return False


async def _first_lives(world: World, feed: EventFeed) -> Follower:
    """The feed, with a follower that is handed what happens."""
    first = await feed.follow("a", None)
    while not feed.head:
        assert await first.take(0) == []
    assert await feed.step() == event_feed.POLL_MS, "there is nothing to read"
    return first


async def test_who_reads_an_old_snapshot_to_its_end_reads_again() -> None:
    world = World(1)
    feed, reader = _held(world)
    try:
        await _first_lives(world, feed)
        second = await feed.follow("a", None)
        reader.may_go.clear()
        reading = asyncio.create_task(second.take(0))
        await until(lambda: reader.reads == 5)
        while all(tenant != "a" for tenant, _ in world.told):
            await world.write()
        reader.may_go.set()
        await feed.step()  # hands over what the snapshot does not have, before it is looked at
        assert await reading == []
        found = await second.take(0)
        assert len(found) == sum(tenant == "a" for tenant, _ in world.told)
    finally:
        world.end()


async def test_a_hint_that_comes_while_it_reads_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    feed, reader = _held(world)
    try:
        first = await _first_lives(world, feed)
        reader.may_go.clear()
        reading = asyncio.create_task(feed.step())
        await until(lambda: reader.reads == 4)
        feed.committed()
        reader.may_go.set()
        assert await reading < event_feed.POLL_MS
        assert await feed.step() == event_feed.POLL_MS
        feed.wake.clear()
        feed.committed()
        assert feed.wake.is_set()
        assert await first.take(0) == []
    finally:
        world.end()


def _held(world: World) -> tuple[EventFeed, HeldReader]:
    reader = HeldReader(world.database)
    return EventFeed(SystemClock(), reader, ServerConfig()), reader


class Unnumbered(HeldReader):
    """Says what it is told to about what has no number yet."""

    def __init__(self, database: InlineDatabase) -> None:
        super().__init__(database)
        self.says: bool | StoreError = False
        self.asked = 0

    async def number_events(self) -> bool:
        self.asked += 1
        if isinstance(self.says, StoreError):
            raise self.says
        return self.says


async def test_what_cannot_be_numbered_comes_later_and_the_rest_now() -> None:
    world = World(1)
    store = Unnumbered(world.database)
    feed = EventFeed(SystemClock(), store, ServerConfig())
    try:
        first = await _first_lives(world, feed)
        store.says = StoreFull("The disk is full.")
        with structlog.testing.capture_logs() as logged:
            for _ in range(3):
                while all(tenant != "a" for tenant, _ in world.told):
                    await world.write()
                assert await feed.step() >= event_feed.PACE_MS
        assert len(await first.take(0)) == sum(tenant == "a" for tenant, _ in world.told)
        assert (await feed.follow("b", None)).position == Position(world.batches + 1)
        assert [one["event"] for one in logged] == ["events_late"], "it is said once"
        store.says = True
        assert await feed.step() < event_feed.POLL_MS, "another is at it: soon there will be something"
        store.says = False
        assert await feed.step() == event_feed.POLL_MS
    finally:
        world.end()


async def test_now_is_behind_all_that_was_told_before() -> None:
    world = World(1)
    store = Unnumbered(world.database)
    feed = EventFeed(SystemClock(), store, ServerConfig())
    try:
        for number, after in enumerate([None, Position(1), Position(900)], start=1):
            await feed.follow("a", after)
            assert store.asked == number
        await feed.step()
        assert store.asked == 3, "nobody is handed anything yet"
    finally:
        world.end()


async def test_nothing_is_read_for_nobody() -> None:
    world = World(1)
    reads = 0
    page = world.database.read

    async def counted(operation: Operation[T]) -> T:
        nonlocal reads
        reads += 1
        return await page(operation)

    world.database.read = counted  # type: ignore[method-assign] # only to count
    try:
        await world.write()
        assert await world.feed.step() == event_feed.POLL_MS
        assert not world.feed.wake.is_set()
        assert reads == 0
    finally:
        world.end()


@pytest.mark.parametrize("text", ["", "1", "1-", "-1", "a-1", "1-1 ", "1-1-1", "9" * 16 + "-1", "\u0661-1"])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(Refused) as refused:
        position_of(text)
    assert refused.value.code == "malformed"


def test_places_are_in_order() -> None:
    names = ["0-9", "1-1", "1-2", "2-0", "2-1", "10-0"]
    assert sorted(names, key=position_of, reverse=True) == names[::-1]
    assert position_of("0-9") == Position(1)


S = State


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (UNBORN, S.SCHEDULED, "task.created"),
        (UNBORN, S.PAUSED, "task.created"),
        (UNBORN, S.BLOCKED, "task.created"),
        (UNBORN, S.MISSED, "task.missed"),
        (S.PAUSED, S.SCHEDULED, "task.scheduled"),
        (S.RUNNING, S.DEAD, "task.dead"),
        (S.DEAD, PURGED, "task.deleted"),
    ],
)
def test_an_event_is_called_by_what_a_task_is_since(before: int, after: int, name: str) -> None:
    assert type_of(Item("x", before, after, 0)) == name
    assert name in TYPES


def test_other_things_say_what_they_are() -> None:
    item = ["sch_1", 0, 0, 1_000, None, "schedule.paused", {"by": "hand", "note": "line\nbreak"}]
    row = EventRow(7, {"a": msgspec.Raw(msgspec.json.encode([item]))})
    (frame,) = frames(row, "a")
    assert frame.type == "schedule.paused"
    assert frame.text == (
        b'event: schedule.paused\nid: 7-1\ndata: {"type":"schedule.paused","id":"sch_1","tenant":"a",'
        b'"at":"1970-01-01T00:00:01.000Z","by":"hand","note":"line\\nbreak"}\n\n'
    )
