"""Reads before anything is due what would be one more wait when it is: what tenants sign with, and of tasks that come
in a crowd what is sent.

Most schedules fire on the minute. Then the store has claims and ends of all of them to write at once, and what they
send is read in the two seconds before, while it rests. Of tasks that come one after the other nothing is, nor while
there is much to send: a claim brings it too, and to read it apart costs more.

Nobody waits for this. What it could not load is loaded where it is wanted, and what is wrong with it is seen there.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice

from tasktick.clock import Clock
from tasktick.dispatch.provisions import CHARS_MAX, KEPT_MS, Provisions
from tasktick.dispatch.tools import Signing, foresee
from tasktick.errors import TaskTickError
from tasktick.model.task import Due
from tasktick.store import claims
from tasktick.store.protocol import Reader

# Tenants whose secrets are opened between two turns of the loop: some two milliseconds.
AT_ONCE = 500
# Tasks that are read between two turns: half of one.
ROWS_AT_ONCE = 100
# So many that are due in the same 64 ms are a crowd. Who has as many in hand does not rest.
CROWD = 500
SLOT_BITS = 6
IDLE_MS = 1_000


class Foresight:
    """The loop that loads ahead."""

    name = "foresight"

    def __init__(self, clock: Clock, signing: Signing, near: Reader, in_hand: Callable[[], int]) -> None:
        self.wake = asyncio.Event()
        self.provisions = Provisions()
        self._clock = clock
        self._signing = signing
        self._near = near
        self._in_hand = in_hand
        self._soon: dict[str, None] = {}
        # What is due in each slot to come, as long as it is no crowd; then None.
        self._slots: dict[int, list[str] | None] = {}
        self._crowd: deque[str] = deque()

    def expect(self, rows: Iterable[Due]) -> None:
        """These are due soon."""
        for row in rows:
            self._soon[row.tenant] = None
            slot = row.wake_at >> SLOT_BITS
            sparse = self._slots.setdefault(slot, [])
            if sparse is None:
                self._crowd.append(row.id)
            elif len(sparse) < CROWD - 1:
                sparse.append(row.id)
            else:
                self._crowd += (*sparse, row.id)
                self._slots[slot] = None
        self.wake.set()

    async def step(self) -> float:
        """Load some of it."""
        now = self._clock.now_ms()
        self.provisions.drop_before(now - KEPT_MS)
        for slot in [slot for slot in self._slots if slot < now >> SLOT_BITS]:
            del self._slots[slot]
        tenants = list(islice(self._soon, AT_ONCE))
        for tenant in tenants:
            del self._soon[tenant]
        await foresee(self._signing, tenants)
        await self._read_ahead()
        return 0 if self._soon or self._crowd else IDLE_MS

    async def _read_ahead(self) -> None:
        if self._in_hand() >= CROWD or not self.provisions.room:
            self._crowd.clear()
        ids = [self._crowd.popleft() for _ in range(min(ROWS_AT_ONCE, len(self._crowd)))]
        if ids:
            with suppress(TaskTickError):
                self.provisions.add(await self._near.read(lambda tx: claims.foresee(tx, ids, CHARS_MAX)))
