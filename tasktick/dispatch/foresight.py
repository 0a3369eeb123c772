"""Reads before anything is due what would be one more wait when it is: what tenants sign with, and of fires that come
in a crowd what is sent.

Most schedules fire on the minute. Then the store has their claims and ends to write, and the next ones of all of them,
at once; so what they send is read in the two seconds before, while it rests. It does so for plain tasks too where it is
a server, with a processor to rest. Of what comes one after the other nothing is read ahead, nor while there is much to
send: a claim brings it too, and to read it apart costs more.

Nobody waits for this. What it could not load is loaded where it is wanted, and what is wrong with it is seen there.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import groupby, islice

from tasktick.clock import Clock
from tasktick.dispatch.provisions import CHARS_MAX, Provisions
from tasktick.dispatch.tools import Signing, foresee
from tasktick.errors import TaskTickError
from tasktick.model.task import Due
from tasktick.store import claims
from tasktick.store.protocol import Database

# Tenants whose secrets are opened between two turns of the loop: some two milliseconds.
AT_ONCE = 500
# Tasks that are read at once. What comes is made into what a claim brings: half a millisecond.
ROWS_AT_ONCE = 250
# So many that are due in the same 64 ms are a crowd. Who has as many in hand does not rest.
CROWD = 500
SLOT_BITS = 6
IDLE_MS = 1_000


class Foresight:
    """The loop that loads ahead."""

    name = "foresight"

    def __init__(self, clock: Clock, signing: Signing, database: Database, in_hand: Callable[[], int]) -> None:
        self.wake = asyncio.Event()
        self.provisions = Provisions()
        self._clock = clock
        self._signing = signing
        self._database = database
        self._in_hand = in_hand
        self._soon: dict[str, None] = {}
        # What is due in each slot to come, as long as it is no crowd; then None.
        self._slots: dict[int, list[str] | None] = {}
        self._crowd: deque[str] = deque()

    def expect(self, rows: Iterable[Due]) -> None:
        """These are due soon."""
        for slot, together in groupby(rows, _slot):
            due = list(together)
            self._soon.update(dict.fromkeys(row.tenant for row in due))
            ids = [row.id for row in due if row.is_fire or self._database.shared]
            sparse = self._slots.setdefault(slot, [])
            if sparse is not None and len(sparse) + len(ids) < CROWD:
                sparse += ids
                continue
            self._crowd += ids if sparse is None else (*sparse, *ids)
            self._slots[slot] = None
        self.wake.set()

    async def step(self) -> float:
        """Load some of it."""
        now = self._clock.now_ms()
        self.provisions.drop_old(self._clock.monotonic_ms())
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
                rows = await self._database.near.read(lambda tx: claims.read_ahead(tx, ids, CHARS_MAX))
                self.provisions.add(rows, self._clock.monotonic_ms())


def _slot(row: Due) -> int:
    return row.wake_at >> SLOT_BITS
