"""How far back the sweeper looks: little each second, all of it now and then."""

from random import Random
from typing import Any

import pytest

from tasktick.errors import StoreUnavailable
from tasktick.metrics import Metrics
from tasktick.scheduler.sweeper import ALL_EVERY_MS, LOOK_BACK_MS, ROWS_MAX, Rescue, Sweeper
from tasktick.store.due import BEGINNING
from tasktick.store.protocol import Batch, Lane

NOW = 1_800_000_000_000


class HandClock:
    """Stands where it is put."""

    def __init__(self) -> None:
        self.now = NOW
        self.monotonic = 5_000.0

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> float:
        return self.monotonic

    def on(self, ms: int) -> None:
        self.now += ms
        self.monotonic += ms


class Nothing:
    """A store in which nothing is late; it notes from where it was looked at."""

    def __init__(self) -> None:
        self.looks: list[tuple[str, int]] = []
        self.is_away = False

    @property
    def near(self) -> "Nothing":
        return self

    async def read(self, operation: Any) -> Any:
        if self.is_away:
            raise StoreUnavailable("away")
        return await operation(self)

    async def rows(self, query: str, kind: Any, /, **parameters: Any) -> list[Any]:
        del kind
        if "since" in parameters:
            self.looks.append((query, parameters["since"]))
        return []

    def taken(self) -> list[int]:
        """From where the last look was taken: both of its statements alike."""
        looks, self.looks = self.looks, []
        assert [query for query, _ in looks] == ["task_expired_leases", "task_expired"][: len(looks)]
        return sorted({since for _, since in looks})


class Scene:
    """A sweeper, its clock and its store."""

    def __init__(self) -> None:
        self.clock, self.store, self.is_settled = HandClock(), Nothing(), True
        batch: Any = Batch("end", Lane.FIRE, _refuse)
        rescue = Rescue(batch, "node", Random(1), list, is_time_settled=lambda: self.is_settled)
        intake: Any = None
        clock: Any = self.clock
        store: Any = self.store
        self.sweeper = Sweeper(clock, store, intake, Metrics(), rescue, 1_000)

    async def look(self, after_ms: int = 1_000) -> list[int]:
        """Some time later, a step; from where it looked."""
        self.clock.on(after_ms)
        await self.sweeper.step()
        return self.store.taken()


async def _refuse(tx: Any, items: list[Any]) -> list[Any]:
    raise AssertionError("there was nothing to end")


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_the_first_look_takes_all_and_the_next_what_has_passed_since(scene: Scene) -> None:
    assert await scene.look() == [BEGINNING]
    looked_at = scene.clock.now
    assert await scene.look() == [looked_at - LOOK_BACK_MS]
    assert await scene.look() == [looked_at + 1_000 - LOOK_BACK_MS]


async def test_all_is_looked_at_again_before_long(scene: Scene) -> None:
    await scene.look()
    looks = [(await scene.look())[0] for _ in range(3 * ALL_EVERY_MS // 1_000)]
    assert looks.count(BEGINNING) == 3


async def test_what_passed_while_the_store_was_away_is_not_passed_over(scene: Scene) -> None:
    await scene.look()
    looked_at = scene.clock.now
    scene.store.is_away = True
    assert await scene.look(4_000) == []
    scene.store.is_away = False
    assert await scene.look(4_000) == [looked_at - LOOK_BACK_MS]


async def test_a_clock_that_was_set_back_is_followed(scene: Scene) -> None:
    await scene.look()
    scene.clock.now -= 3_600_000
    assert await scene.look() == [scene.clock.now - LOOK_BACK_MS]


async def test_partitions_that_have_come_are_looked_at_from_the_beginning(scene: Scene) -> None:
    await scene.look()
    scene.sweeper.look_for_orphans()
    assert await scene.look() == [BEGINNING]


async def test_a_look_under_a_time_that_is_not_believed_in_was_none(scene: Scene) -> None:
    await scene.look()
    scene.is_settled = False
    scene.clock.on(1_000)
    await scene.sweeper.step()
    assert [query for query, _ in scene.store.looks] == ["task_expired"]
    scene.store.looks.clear()
    scene.is_settled = True
    assert await scene.look() == [BEGINNING]


class Full(Nothing):
    """A store in which a page is full, and all of it stale by the time that it is written."""

    async def rows(self, query: str, kind: Any, /, **parameters: Any) -> list[Any]:
        if query == "fires_late":  # found, and begun when they are to be told of
            return ["0" * 32] * ROWS_MAX
        return await super().rows(query, kind, **parameters)

    async def write(self, operation: Any, lane: Lane) -> Any:
        del lane
        return await operation(self)


async def test_a_look_that_found_a_page_full_has_not_come_to_its_end(scene: Scene) -> None:
    """One of a page that is stale by now does not put off what is behind it until all is looked at again."""
    full: Any = Full()
    scene.store = full
    scene.sweeper._database = full

    assert await scene.sweeper.step() > 0, "nothing of it could be done: it is not tried without a rest"
    scene.store.looks.clear()
    await scene.sweeper.step()
    assert {since for _, since in scene.store.looks} == {BEGINNING}
