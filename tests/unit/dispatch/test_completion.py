"""How ends are written by two hands: each once, no more than two batches at a time, a schedule's in their order."""

import asyncio
from collections.abc import Callable
from itertools import chain
from random import Random
from typing import Any

import pytest

from tasktick.clock import SystemClock, turns
from tasktick.dispatch import completion
from tasktick.dispatch.completion import BATCH_ROWS_MAX, Completion, SecondHand
from tasktick.dispatch.flight import Hands
from tasktick.errors import StoreUnavailable
from tasktick.metrics import Metrics
from tasktick.model.attempt import Answer, End, conclude
from tasktick.model.state import State
from tasktick.model.task import Claimed, Payload, Target
from tasktick.service import Services
from tasktick.store.endings import Ended

PAYLOAD = Payload(Target("https://app.example/hook"))


class Store:
    """Writes batches when it is told to, and fails those that it is told to fail."""

    def __init__(self, is_free: Callable[[int], bool] = lambda number: True) -> None:
        self.batches: list[list[str]] = []
        self.at_once = self.most_at_once = 0
        self.go_on = asyncio.Event()
        self._is_free = is_free

    async def write(self, ends: list[End]) -> list[Any]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.batches.append([one.claimed.id for one in ends])
        number = len(self.batches)
        try:
            await self.go_on.wait()
            if not self._is_free(number):
                raise StoreUnavailable("The disk is full.")
            return [Ended(one.claimed.id, State.SUCCEEDED) for one in ends]
        finally:
            self.at_once -= 1


def ends(first: int, count: int, schedule_id: str | None = None) -> list[End]:
    """As many plain successes, of a schedule if there is one."""
    blank: dict[str, Any] = dict.fromkeys(Claimed.__struct_fields__, 1)
    blank |= {"tenant": "t", "queue": "q", "host": "h", "expires_at": None, "template_id": None, "late_at": None}
    made = [Claimed(**blank | {"id": f"{one:032x}", "schedule_id": schedule_id}) for one in range(first, first + count)]
    return [conclude(one, PAYLOAD, Answer(1, 2, 200), "node", Random(7)) for one in made]


class Both:
    """A completion and its second hand at work."""

    def __init__(self, store: Store) -> None:
        clock = SystemClock()
        self.completion = Completion(clock, store, Hands(), Metrics(), retry_due=lambda due: None)  # type: ignore[arg-type]
        self._services = Services(clock)
        self._loops = (self.completion, SecondHand(self.completion))

    async def __aenter__(self) -> Completion:
        for loop in self._loops:
            self._services.run_loop(loop)
        return self.completion

    async def __aexit__(self, *_: object) -> None:
        await self._services.stop()


async def until(is_so: Callable[[], bool]) -> None:
    """As long as it takes, and no longer than a test may."""
    async with asyncio.timeout(10):
        while not is_so():
            await turns(1)


async def written(store: Store, given: list[End]) -> None:
    """Write these, once all that can be under way is."""
    async with Both(store) as completion:
        for one in given:
            completion.add(one)
        await until(lambda: bool(store.batches))
        await turns(20)
        store.go_on.set()
        await completion.flush()


async def test_a_second_hand_helps_where_more_waits_than_a_batch_takes() -> None:
    store = Store()
    given = ends(0, 3 * BATCH_ROWS_MAX + 7)
    await written(store, given)
    assert store.most_at_once == 2
    assert sorted([*chain(*store.batches)]) == [one.claimed.id for one in given]
    assert [len(one) for one in store.batches[:2]] == [BATCH_ROWS_MAX] * 2


async def test_for_one_batch_there_is_one_hand() -> None:
    store = Store()
    await written(store, ends(0, BATCH_ROWS_MAX))
    assert store.most_at_once == 1


async def test_what_a_schedule_waits_for_is_never_written_beside_another_of_it() -> None:
    store = Store()
    given = ends(0, 3 * BATCH_ROWS_MAX, "schedule")
    await written(store, given)
    assert store.most_at_once == 1
    assert [*chain(*store.batches)] == [one.claimed.id for one in given]


@pytest.mark.parametrize("failing", [{1}, {2}, {1, 2}], ids=str)
async def test_what_could_not_be_written_is_written_later_once(
    failing: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "FULL_REST_MS", 1)
    store = Store(lambda number: number not in failing)
    given = ends(0, 2 * BATCH_ROWS_MAX + 5)
    await written(store, given)
    kept = [batch for number, batch in enumerate(store.batches, 1) if number not in failing]
    assert sorted([*chain(*kept)]) == [one.claimed.id for one in given]
