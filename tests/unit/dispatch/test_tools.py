"""What attempts are given beforehand."""

from collections.abc import Iterable, Sequence

import pytest

from tasktick.dispatch import foresight
from tasktick.dispatch.tools import foresee
from tasktick.errors import StoreUnavailable


class Secrets:
    """Knows whom it has loaded; a store that is away is told of by `load` alone."""

    def __init__(self, *, is_away: bool = False) -> None:
        self.known: set[str] = set()
        self.loads = 0
        self._is_away = is_away

    def knows(self, tenants: Iterable[str]) -> bool:
        return set(tenants) <= self.known

    async def load(self, tenants: Iterable[str]) -> None:
        self.loads += 1
        if self._is_away:
            raise StoreUnavailable("The store cannot be reached.")
        self.known |= set(tenants)

    def of(self, tenant: str) -> Sequence[bytes]:
        return [tenant.encode()]


async def test_what_is_foreseen_is_loaded_once() -> None:
    secrets = Secrets()
    await foresee(secrets, {"ada", "bob"})
    await foresee(secrets, {"ada"})
    assert (secrets.known, secrets.loads) == ({"ada", "bob"}, 1)


async def test_what_is_expected_is_loaded_in_its_order_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foresight, "AT_ONCE", 2)
    secrets = Secrets()
    ahead = foresight.Foresight(secrets)
    assert await ahead.step() == foresight.IDLE_MS
    assert secrets.loads == 0
    ahead.expect(["ada", "bob", "ada"])
    ahead.expect(["cyd"])
    assert ahead.wake.is_set()
    assert await ahead.step() == 0
    assert secrets.known == {"ada", "bob"}
    assert await ahead.step() == foresight.IDLE_MS
    assert (secrets.known, secrets.loads) == ({"ada", "bob", "cyd"}, 2)


async def test_a_store_that_is_away_is_for_who_needs_it() -> None:
    secrets = Secrets(is_away=True)
    await foresee(secrets, {"ada"})
    with pytest.raises(StoreUnavailable):
        await secrets.load({"ada"})
