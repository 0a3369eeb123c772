"""The dead-man ping: sent while all is well, by one node at a time, and never else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasktick.dispatch.deadman import NEVER_MS, Deadman
from tasktick.dispatch.outcome import FORBIDDEN_ADDRESS, Outcome, Request
from tasktick.errors import StoreUnavailable
from tasktick.metrics import Metrics
from tasktick.scheduler.rounds import STUCK_MS, Rounds
from tasktick.settings import DeadmanConfig
from tests.store.calendar import Calendar
from tests.store.drivers import sqlite
from tests.store.world import World

URL = "https://monitor.example/ping/secret"
INTERVAL_MS = 60_000


class Hands:
    """A clock that the test moves, and a sender that answers as it is told."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sent: list[Request] = []
        self.status: int | None = 200
        self.failure: Any = None
        self.in_flight = 0

    def now_ms(self) -> int:
        return self.world.now

    def monotonic_ms(self) -> float:
        return float(self.world.now)

    async def sleep_ms(self, ms: float) -> None:
        raise AssertionError("nobody sleeps here")

    def sweep(self, monotonic_ms: float) -> int:
        return 0

    async def send(self, request: Request) -> Outcome:
        self.sent.append(request)
        code = None if self.failure is None else self.failure.code
        return Outcome(self.status, [], b"", False, code, None, "", True, 0.0, 1.0)


class Away:
    """A store that does not answer."""

    async def write(self, *_: object) -> Any:
        raise StoreUnavailable("gone")

    async def write_batch(self, *_: object) -> Any:
        raise StoreUnavailable("gone")


def deadman(hands: Hands, name: str = "a", faults: Callable[[], list[str]] = list, **config: Any) -> Deadman:
    settings = DeadmanConfig(**{"url": URL, "interval_ms": INTERVAL_MS, **config})
    return Deadman(settings, hands, hands.world.database, hands, Metrics(), unhealthy=faults, incarnation=lambda: name)


async def test_it_is_pinged_each_interval_and_never_raises(tmp_path: Path) -> None:
    async with sqlite(tmp_path) as database:
        hands = Hands(World(database))
        one = deadman(hands)
        assert await one.step() == INTERVAL_MS
        assert [(request.method, request.url) for request in hands.sent] == [("GET", URL)]
        assert one.stats() == {
            "pings": True,
            "last_success_at": hands.world.now,
            "last_error": None,
            "withheld": [],
        }
        hands.status, hands.failure = None, FORBIDDEN_ADDRESS
        assert await one.step() == INTERVAL_MS
        assert one.last_error == "forbidden_address"
        hands.status, hands.failure = 500, None
        await one.step()
        assert one.last_error == "status 500"


async def test_without_an_address_nobody_is_pinged(tmp_path: Path) -> None:
    async with sqlite(tmp_path) as database:
        hands = Hands(World(database))
        one = deadman(hands, url=None)
        assert await one.step() == NEVER_MS
        assert (hands.sent, one.stats()) == ([], None)


async def test_one_node_pings_and_another_takes_over(tmp_path: Path) -> None:
    async with sqlite(tmp_path) as database:
        hands = Hands(World(database))
        first, second = deadman(hands, "a"), deadman(hands, "b")
        await first.step()
        await second.step()
        assert (len(hands.sent), first.is_ours, second.is_ours) == (1, True, False)
        hands.world.now += 2 * INTERVAL_MS + 10_000
        await second.step()
        await first.step()
        assert (len(hands.sent), first.is_ours, second.is_ours) == (2, False, True)


async def test_it_is_silent_while_anything_is_wrong(tmp_path: Path) -> None:
    async with sqlite(tmp_path) as database:
        world = World(database)
        await world.start()
        hands = Hands(world)
        wrong = ["loading"]
        one = deadman(hands, faults=lambda: wrong)
        assert await one.step() == INTERVAL_MS / 2
        assert (hands.sent, one.withheld) == ([], ["loading"])
        wrong.clear()
        calendar = Calendar(world)
        await calendar.create()
        world.now += 60_000 + 300_001
        await one.step()
        assert (hands.sent, one.withheld) == ([], ["schedules_overdue"])
        await calendar.settle()
        await one.step()
        assert (len(hands.sent), one.withheld) == (1, [])
        gone: Any = Away()
        one._writer = gone
        await one.step()
        assert (len(hands.sent), one.withheld) == (1, ["store: StoreUnavailable"])


@pytest.mark.parametrize(
    ("round_at", "oldest", "begun", "busy", "faults"),
    [
        (0.0, None, 5, 0, []),
        (-STUCK_MS - 1.0, None, 5, 0, ["stuck: loader"]),
        (0.0, -300_001, 5, 0, ["nothing_begins"]),
        (0.0, -300_001, 5, 1, []),
        (0.0, -300_001, 6, 0, []),
        (0.0, -299_999, 5, 0, []),
    ],
)
def test_what_does_not_move_is_named(
    round_at: float, oldest: int | None, begun: int, busy: int, faults: list[str]
) -> None:
    counts = iter([5, begun])
    rounds = Rounds({"loader": round_at}, lambda: 0.0, lambda: oldest, lambda: next(counts), lambda: busy)
    rounds.faults(0, 1 << 40)
    assert rounds.faults(0, 300_000) == faults
