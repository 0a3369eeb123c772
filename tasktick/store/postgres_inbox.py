"""Numbers what has been told on a PostgreSQL, for a node that reads it: on a connection of its own, which is made when
somebody first listens, so that neither writes nor upkeep stand before it.

A try that fails leaves everything as it was, and so does one that is cut off: the row that is locked meanwhile is free
with the end of its transaction. It may be run again whatever has become of it.
"""

import asyncio

from tasktick.errors import StoreUnavailable
from tasktick.store import events
from tasktick.store.events import Numbered
from tasktick.store.postgres import BEGIN_WRITE, write_unmarked
from tasktick.store.postgres_links import PostgresLink
from tasktick.store.protocol import Transaction

# Transactions of one call: far more than the others can write meanwhile.
AT_ONCE_MAX = 100
TRIES = 2


class PostgresInbox:
    """The way from the inbox into the order of events."""

    def __init__(self, link: PostgresLink, name: str) -> None:
        self._link = link
        self._name = name
        self._turn = asyncio.Lock()

    async def number(self) -> bool:
        """Number what is committed by now; whether there is more, because another is at it."""
        async with self._turn:
            for _ in range(AT_ONCE_MAX):
                numbered = await self._once()
                if not (numbered.ours and numbered.more):
                    return numbered.more
        return True

    async def _once(self) -> Numbered:
        for tries_left in range(TRIES - 1, -1, -1):
            was_open = self._link.is_open
            try:
                return await write_unmarked(await self._link.raw(), self._some, BEGIN_WRITE)
            except StoreUnavailable:
                # The connection may have been dead for long, and the server be there.
                if not was_open or not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _some(self, tx: Transaction) -> Numbered:
        numbered = await events.number(tx, fresh=True)
        if numbered.ours:
            # Whoever slept while the store moved away finds here that it is shut.
            await tx.run("mark_set", writer=self._name, mark=0)
        return numbered

    async def close(self) -> None:
        """End its connection."""
        await self._link.close()
