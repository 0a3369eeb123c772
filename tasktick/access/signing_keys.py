"""The signing secrets that are in use, in memory: read for every attempt, loaded from the store once.

A tenant gets its first secret when something of it is sent for the first time.
"""

from collections.abc import Callable, Iterable, Sequence

from tasktick.access import signing_secrets
from tasktick.access.vault import Vault
from tasktick.clock import Clock
from tasktick.model.ids import IdMaker
from tasktick.store.protocol import Database


class SigningKeys:
    """Secrets by tenant, as bytes."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        ids: IdMaker,
        clock: Clock,
        make: Callable[[], str],
        parse: Callable[[str], bytes],
    ) -> None:
        self._database = database
        self._vault = vault
        self._ids = ids
        self._clock = clock
        self._make = make
        self._parse = parse
        self._by_tenant: dict[str, list[bytes]] = {}
        self._changed: set[str] = set()

    async def load(self, tenants: Iterable[str]) -> None:
        """Make sure that `of` knows these tenants."""
        for tenant in tenants:
            if tenant not in self._by_tenant or tenant in self._changed:
                await self.reload(tenant)

    async def reload(self, tenant: str) -> None:
        """Read a tenant's secrets again; make the first one if there is none."""
        self._changed.discard(tenant)  # first: what changes while it is read is read once more
        try:
            await signing_secrets.ensure(
                self._database, tenant, self._vault, self._ids, self._clock.now_ms(), self._make
            )
            texts = await signing_secrets.active(self._database, tenant, self._vault)
        except BaseException:
            self._changed.add(tenant)
            raise
        self._by_tenant[tenant] = [self._parse(text) for text in texts]

    def of(self, tenant: str) -> Sequence[bytes]:
        """The secrets of a tenant that was loaded, newest first."""
        return self._by_tenant[tenant]

    def changed(self, tenant: str) -> None:
        """A tenant's secrets have changed: they are read again before the next batch of its tasks."""
        self._changed.add(tenant)
