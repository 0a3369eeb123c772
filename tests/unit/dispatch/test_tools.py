"""What attempts are given beforehand."""

from collections.abc import Iterable, Sequence

import pytest

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


async def test_a_store_that_is_away_is_for_who_needs_it() -> None:
    secrets = Secrets(is_away=True)
    await foresee(secrets, {"ada"})
    with pytest.raises(StoreUnavailable):
        await secrets.load({"ada"})
