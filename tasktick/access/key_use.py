"""When keys were last used: noted in memory with each look at a key, written together once a minute.

What was noted since is lost with the process: it tells an operator which keys are forgotten, nothing more.
"""

import asyncio

from tasktick import logs
from tasktick.errors import StoreUnavailable
from tasktick.store import secrets as stored
from tasktick.store.protocol import Lane, Writer

log = logs.get("access")

WRITE_EVERY_MS = 60_000
NOTED_MAX = 10_000


class KeyUse:
    """The loop that writes down which keys were used."""

    name = "key_use"

    def __init__(self, writer: Writer) -> None:
        self.wake = asyncio.Event()
        self._writer = writer
        self._noted: dict[str, int] = {}

    def note(self, key_id: str, now_ms: int) -> None:
        """This key was used."""
        if key_id in self._noted or len(self._noted) < NOTED_MAX:
            self._noted[key_id] = now_ms

    async def step(self) -> float:
        """Write what was noted; rest for a minute."""
        used = sorted(self._noted.items())
        if used:
            try:
                await self._writer.write(lambda tx: stored.note_use(tx, used), Lane.UPKEEP)
            except StoreUnavailable as error:
                log.warning("key_use_not_written", error=str(error))
            else:
                written = dict(used)
                self._noted = {key: at for key, at in self._noted.items() if written.get(key) != at}
        return WRITE_EVERY_MS
