"""What the dispatcher is given: who it is, and what its attempts need."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import Protocol

import msgspec

from tasktick.clock import Clock
from tasktick.cluster.ownership import Ownership
from tasktick.dispatch.attempt import Sender, Unseal
from tasktick.dispatch.deadlines import Deadlines
from tasktick.dispatch.provisions import Provisions
from tasktick.errors import TaskTickError
from tasktick.metrics import Metrics
from tasktick.service import Spawner


class Identity(msgspec.Struct, frozen=True):
    """Who claims: the node, and what it owns, as which start of it."""

    node: str
    ownership: Ownership


class Signing(Protocol):
    """The signing secrets of tenants: loaded by the batch, read by the attempt."""

    def knows(self, tenants: Iterable[str]) -> bool: ...

    async def load(self, tenants: Iterable[str]) -> None: ...

    def of(self, tenant: str) -> Sequence[bytes]: ...


async def foresee(signing: Signing, tenants: Collection[str]) -> None:
    """Load what these tenants will sign with; what goes wrong is seen where it is wanted."""
    if not signing.knows(tenants):
        with suppress(TaskTickError):
            await signing.load(tenants)


class Tools(msgspec.Struct, frozen=True):
    """What an attempt needs besides its claim."""

    clock: Clock
    metrics: Metrics
    sender: Sender
    deadlines: Deadlines
    unseal: Unseal
    signing: Signing
    provisions: Provisions
    random: Random
    spawn: Spawner
    early_ms: int
    # What becomes of a failure that nobody waits for.
    crash: Callable[[str, BaseException], None]
    # Told when nothing that is ready may go: a loader that had to stop can go on.
    room_came_up: Callable[[], None]
