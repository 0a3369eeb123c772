"""The signing secrets that are in use, in memory: read for every attempt, loaded from the store once.

A tenant gets its first secret when something of it is about to be sent for the first time.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from tasktick.access import signing_secrets
from tasktick.access.vault import Vault
from tasktick.clock import Clock
from tasktick.model.ids import IdMaker
from tasktick.store.protocol import Database

# What another node has changed is signed with no later than this.
FRESH_MS = 4_000


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
        # The number of the last change that nobody has read yet.
        self._changed: dict[str, int] = {}
        self._changes = 0
        # When the next one of a tenant's secrets signs no more.
        self._until: dict[str, int] = {}
        # When what is known was asked for, and as which reading: one that ends late takes nothing back.
        self._read_ms: dict[str, float] = {}
        self._read_as: dict[str, int] = {}
        self._readings = 0

    def knows(self, tenants: Iterable[str]) -> bool:
        """Whether there is nothing to load."""
        return not any(self._lacking(tenants))

    async def load(self, tenants: Iterable[str]) -> None:
        """Make sure that `of` knows what these tenants sign with now: one reading for all of them."""
        unknown, old = self._lacking(tenants)
        if unknown:
            await self.reload(*unknown)
        if old:
            await self._read(old)
            # Another node has retired the last one of these.
            bare = [tenant for tenant in old if not self._by_tenant[tenant]]
            if bare:
                await self.reload(*bare)

    def _lacking(self, tenants: Iterable[str]) -> tuple[list[str], list[str]]:
        """Those of which nothing is known, and those of which it may have changed elsewhere."""
        known, changed, until = self._by_tenant, self._changed, self._until
        unknown: list[str] = []
        old: list[str] = []
        fresh_ms = self._clock.monotonic_ms() - FRESH_MS if self._database.shared else None
        for tenant in tenants:
            # Of who is bare nothing is known: its first one is being made, or could not be. That nothing has changed
            # is asked of all at once: each look is a miss of the caches where there are many tenants.
            if not known.get(tenant) or (changed and tenant in changed) or (until and self._is_over(tenant)):
                unknown.append(tenant)
            elif fresh_ms is not None and self._read_ms[tenant] < fresh_ms:
                old.append(tenant)
        return unknown, old

    def _is_over(self, tenant: str) -> bool:
        until = self._until.get(tenant)
        return until is not None and until <= self._clock.now_ms()

    async def reload(self, *tenants: str) -> None:
        """Read these tenants' secrets again; make the first one of who has none."""
        seen = {tenant: self._changed.get(tenant) for tenant in tenants}
        await self._read(tenants)
        bare = [tenant for tenant in tenants if not self._by_tenant[tenant]]
        if bare:
            now_ms = self._clock.now_ms()
            await signing_secrets.ensure(self._database, bare, self._vault, self._ids, now_ms, self._make)
            await self._read(bare)
        for tenant, change in seen.items():  # what has changed while it was read is read once more
            if change is not None and self._changed.get(tenant) == change:
                del self._changed[tenant]

    async def _read(self, tenants: Collection[str]) -> None:
        asked_ms = self._clock.monotonic_ms()
        self._readings += 1
        reading = self._readings
        found = await signing_secrets.active(self._database, tenants, self._vault, self._clock.now_ms())
        for tenant, secrets in found.items():
            if self._read_as.get(tenant, 0) > reading:
                continue
            self._read_as[tenant] = reading
            self._read_ms[tenant] = asked_ms
            self._by_tenant[tenant] = [self._parse(one.text) for one in secrets]
            ends = [one.retired_at for one in secrets if one.retired_at is not None]
            if ends:
                self._until[tenant] = min(ends)
            else:
                self._until.pop(tenant, None)

    def of(self, tenant: str) -> Sequence[bytes]:
        """The secrets of a tenant that was loaded, newest first."""
        return self._by_tenant[tenant]

    def changed(self, tenant: str) -> None:
        """A tenant's secrets have changed: they are read again before the next batch of its tasks."""
        self._changes += 1
        self._changed[tenant] = self._changes
