"""What clients of suite `ledger` wish for times that have passed: backfills, and runs of what did not run."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import aiohttp

# How long ago a backfill ends, and how long a stretch it is about.
BACK_MS = (0, 0, 3_000, 3_600_000)
LONG_MS = (2_000, 6_000, 12_000)
Call = Callable[..., Awaitable[dict[str, Any] | None]]


class Wishes:
    """What is asked for, and is not yet known to be done."""

    def __init__(self, call: Call, counters: Counter[str]) -> None:
        self._call = call
        self._counters = counters
        self._fills: dict[str, tuple[str, dict[str, Any]]] = {}

    def wish(self, random: Random, path: str, wall: int) -> None:
        """A stretch of the past, to be filled from now on."""
        to_at = wall - random.choice(BACK_MS) - 500
        overlap = random.choice(("allow", "buffer_all"))
        stretch = {"from": (to_at - random.choice(LONG_MS)) / 1_000, "to": to_at / 1_000, "overlap": overlap}
        self._fills[f"fill-{len(self._fills)}-{random.random()}"] = (path, stretch)

    async def fill(self, session: aiohttp.ClientSession) -> None:
        """A backfill that nobody knows the end of is sent again, as it was: what it has done stays done."""
        for key, (path, stretch) in sorted(self._fills.items()):
            done = await self._call(session, "POST", f"{path}/backfill", stretch, {"Idempotency-Key": key})
            if done is not None:
                self._counters["backfilled"] += done["fires"]
                del self._fills[key]

    async def run_later(self, session: aiohttp.ClientSession, path: str, random: Random) -> None:
        """A few times that did not run are run, each once, however often that is asked."""
        query = "outcome=missed&outcome=skipped&limit=20"
        found = await self._call(session, "GET", f"{path}/fires?{query}", None)
        ids = [row["task_id"] for row in (found or {"data": []})["data"] if row["task_id"] is not None]
        if not ids:
            return
        body = {"ids": random.sample(ids, min(3, len(ids))), "filter": {"state": ["missed", "skipped"]}}
        answers = await asyncio.gather(*(self._call(session, "POST", "/v1/tasks/run", body) for _ in range(2)))
        self._counters["ran later"] += sum(answer["changed"] for answer in answers if answer is not None)
