"""Loads what tenants sign with before anything of theirs is due: in a crowd of them it would be one more wait.

Nobody waits for this. What it could not load is loaded where it is wanted, and what is wrong with it is seen there.
"""

import asyncio
from collections.abc import Iterable
from itertools import islice

from tasktick.dispatch.tools import Signing, foresee

# Tenants whose secrets are opened between two turns of the loop: some two milliseconds.
AT_ONCE = 500
IDLE_MS = 1_000


class Foresight:
    """The loop that loads ahead."""

    name = "foresight"

    def __init__(self, signing: Signing) -> None:
        self.wake = asyncio.Event()
        self._signing = signing
        self._soon: dict[str, None] = {}

    def expect(self, tenants: Iterable[str]) -> None:
        """Something of these is due soon."""
        self._soon.update(dict.fromkeys(tenants))
        self.wake.set()

    async def step(self) -> float:
        """Load for some of them."""
        tenants = list(islice(self._soon, AT_ONCE))
        for tenant in tenants:
            del self._soon[tenant]
        await foresee(self._signing, tenants)
        return 0 if self._soon else IDLE_MS
