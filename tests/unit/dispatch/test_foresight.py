"""What is read before anything is due: secrets of all tenants, and of a crowd what is sent."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import pytest

from tasktick.dispatch import foresight, provisions
from tasktick.dispatch.foresight import CROWD, Foresight
from tasktick.dispatch.provisions import KEPT_MS, Provisions
from tasktick.errors import StoreUnavailable
from tasktick.model.task import Due, Foreseen, Taken
from tasktick.store import claims
from tasktick.store.protocol import Database
from tests.fakes.clock import StandingClock

NOW = 1_800_000_000_000
SOON = NOW + 1_024
ME = "incarnation-1"


class Secrets:
    """Knows whom it has loaded."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.loads = 0

    def knows(self, tenants: Iterable[str]) -> bool:
        return set(tenants) <= self.known

    async def load(self, tenants: Iterable[str]) -> None:
        self.loads += 1
        self.known |= set(tenants)

    def of(self, tenant: str) -> Sequence[bytes]:
        return [tenant.encode()]


class Near:
    """A store of all tasks that it is asked for, unless it is away."""

    def __init__(self) -> None:
        self.pages: list[list[str]] = []
        self.is_away = False
        self.shared = False

    @property
    def near(self) -> "Near":
        return self

    async def read(self, operation: Callable[[Any], Any]) -> Any:
        return await operation(None)

    async def read_ahead(self, tx: object, ids: list[str], chars_max: int) -> list[Foreseen]:
        del tx, chars_max
        if self.is_away:
            raise StoreUnavailable("The store cannot be reached.")
        self.pages.append(ids)
        return [seen(one) for one in ids]


def seen(task_id: str, wake_at: int = SOON) -> Foreseen:
    return Foreseen(task_id, 1, 2, wake_at, None, cast(Taken, None))


def due(number: int, wake_at: int = SOON, tenant: str = "ada", *, is_fire: bool = True) -> Due:
    return Due(f"{number:032x}", tenant, "default", "h:80", 5, wake_at, wake_at, is_fire)


class Ahead:
    """A foresight, and all that it touches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = StandingClock(NOW)
        self.secrets = Secrets()
        self.near = Near()
        self.in_hand = 0
        monkeypatch.setattr(claims, "read_ahead", self.near.read_ahead)
        store = cast(Database, self.near)
        self.loop = Foresight(self.clock, self.secrets, store, lambda: self.in_hand)
        self.kept = self.loop.provisions

    async def run(self) -> None:
        """Until there is nothing to do."""
        while not await self.loop.step():
            pass


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    return Ahead(monkeypatch)


async def test_secrets_are_loaded_in_their_order_and_once(ahead: Ahead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foresight, "AT_ONCE", 2)
    assert await ahead.loop.step() == foresight.IDLE_MS
    assert ahead.secrets.loads == 0
    ahead.loop.expect([due(1, tenant="ada"), due(2, tenant="bob"), due(3, tenant="ada")])
    ahead.loop.expect([due(4, tenant="cyd")])
    assert ahead.loop.wake.is_set()
    assert await ahead.loop.step() == 0
    assert ahead.secrets.known == {"ada", "bob"}
    assert await ahead.loop.step() == foresight.IDLE_MS
    assert (ahead.secrets.known, ahead.secrets.loads) == ({"ada", "bob", "cyd"}, 2)


async def test_of_a_crowd_everything_is_read_once_in_pages(ahead: Ahead) -> None:
    rows = [due(number) for number in range(CROWD + 150)]
    ahead.loop.expect(rows[: CROWD - 1])
    await ahead.run()
    assert not ahead.near.pages, "one fewer is none"
    ahead.loop.expect(rows[CROWD - 1 :])
    await ahead.run()
    read = [one for page in ahead.near.pages for one in page]
    assert sorted(read) == [row.id for row in rows]
    assert max(map(len, ahead.near.pages)) == foresight.ROWS_AT_ONCE
    assert set(ahead.kept.take(read, ME)) == set(read)
    assert not ahead.kept.take(read, ME), "what was taken is kept no more"


async def test_what_comes_one_after_the_other_is_left_to_its_claim(ahead: Ahead) -> None:
    ahead.loop.expect(due(number, NOW + 64 * (number % 8)) for number in range(8 * (CROWD - 1)))
    await ahead.run()
    assert not ahead.near.pages


@pytest.mark.parametrize("shared", [False, True])
async def test_plain_tasks_are_read_ahead_from_a_server_alone(ahead: Ahead, shared: bool) -> None:
    ahead.near.shared = shared
    ahead.loop.expect(due(number, is_fire=False) for number in range(CROWD))
    await ahead.run()
    assert len(ahead.kept) == (CROWD if shared else 0)


async def test_who_has_much_in_hand_reads_nothing_ahead(ahead: Ahead) -> None:
    ahead.in_hand = CROWD
    ahead.loop.expect(due(number) for number in range(2 * CROWD))
    await ahead.run()
    assert not ahead.near.pages
    ahead.in_hand = CROWD - 1
    ahead.loop.expect([due(10_000)])
    await ahead.run()
    assert ahead.near.pages == [[due(10_000).id]], "of the same crowd, when there is time again"


async def test_there_is_never_more_of_it_than_there_may_be(ahead: Ahead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provisions, "ROWS_MAX", 250)
    ahead.loop.expect(due(number) for number in range(CROWD))
    await ahead.run()
    assert (len(ahead.kept), ahead.kept.room) == (250, 0)


async def test_what_nobody_claims_is_let_go_whenever_it_is_due(ahead: Ahead) -> None:
    ahead.kept.add([seen("a", NOW + 3_600_000)], NOW)
    ahead.kept.add([seen("b", NOW)], NOW + 1)
    ahead.clock.now += KEPT_MS + 1
    await ahead.loop.step()
    assert set(ahead.kept.take(["a", "b"], ME)) == {"b"}


def test_another_incarnation_knows_nothing_of_what_the_last_one_read() -> None:
    kept = Provisions()
    kept.add([seen("a"), seen("b")], NOW)
    assert set(kept.take(["a"], ME)) == {"a"}
    assert kept.take(["b"], "another") == {}
    kept.add([seen("c")], NOW)
    assert set(kept.take(["c"], "another")) == {"c"}


async def test_a_store_that_is_away_is_for_who_needs_it(ahead: Ahead) -> None:
    ahead.near.is_away = True
    ahead.loop.expect(due(number) for number in range(CROWD))
    await ahead.run()
    assert len(ahead.kept) == 0
