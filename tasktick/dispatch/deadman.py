"""The dead-man ping: tells a monitor elsewhere that TaskTick does its work, and is silent when it does not.

Silence is the alarm. So a ping goes out only after a write has been committed, while the loops that find due work have
come round lately, and no schedule of the whole store waits to be decided about for too long. Of a ring one node pings,
by a lease; when it ends, another takes over within two intervals.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from tasktick import __version__, logs
from tasktick.clock import Clock
from tasktick.dispatch.attempt import AwaitedSender
from tasktick.dispatch.outcome import Request
from tasktick.errors import StoreError
from tasktick.metrics import Metrics
from tasktick.outage import Outage
from tasktick.settings import DeadmanConfig
from tasktick.store import due
from tasktick.store.protocol import Lane, Transaction, Writer
from tasktick.store.singletons import DEADMAN, hold

log = logs.get("deadman")

NEVER_MS = 86_400_000.0
# Whoever does not ping looks so often within an interval whether it is to.
LOOKS = 2
SUCCESS = range(200, 300)


class Deadman:
    """The loop that pings. `unhealthy` names what is wrong with this node; nothing, if nothing is."""

    name = "deadman"

    def __init__(
        self,
        config: DeadmanConfig,
        clock: Clock,
        writer: Writer,
        sender: AwaitedSender,
        metrics: Metrics,
        *,
        unhealthy: Callable[[], list[str]],
        incarnation: Callable[[], str],
    ) -> None:
        self.wake = asyncio.Event()
        self._config = config
        self._clock = clock
        self._writer = writer
        self._sender = sender
        self._metrics = metrics
        self._unhealthy = unhealthy
        self._incarnation = incarnation
        self._outage = Outage(
            clock, partial(log.warning, "deadman_ping_failed"), partial(log.info, "deadman_pings_again")
        )
        self.last_success_at: int | None = None
        self.last_error: str | None = None
        self.withheld: list[str] = []
        self.is_ours = False

    async def step(self) -> float:
        """Ping, if all is well and it is for this node to do."""
        if self._config.url is None:
            return NEVER_MS
        began_ms = self._clock.monotonic_ms()
        self.withheld = await self._reasons()
        if self.withheld:
            self._metrics.events["deadman_withheld"] += 1
            self._outage.failed(f"withheld: {', '.join(self.withheld)}", state=tuple(self.withheld))
        elif self.is_ours:
            await self._ping(self._config.url)
        interval_ms = self._config.interval_ms
        rest_ms = interval_ms if self.is_ours and not self.withheld else interval_ms / LOOKS
        return max(1.0, rest_ms - (self._clock.monotonic_ms() - began_ms))

    async def _reasons(self) -> list[str]:
        """What keeps the ping back: faults of this node, or of the store as a whole."""
        now, held_ms = self._clock.now_ms(), 2 * self._config.interval_ms + self._config.timeout_ms
        self.is_ours = False
        reasons = self._unhealthy()
        if reasons:  # another node may be well: the lease is let go by not being prolonged
            return reasons

        async def operation(tx: Transaction) -> tuple[bool, int | None]:
            is_ours = await hold(tx, DEADMAN, self._incarnation(), now, held_ms)
            return is_ours, await due.oldest_undecided(tx)

        try:
            self.is_ours, oldest = await self._writer.write(operation, Lane.UPKEEP)
        except StoreError as error:
            return [f"store: {type(error).__name__}"]
        is_behind = oldest is not None and oldest < now - self._config.lateness_max_ms
        return ["schedules_overdue"] if is_behind else []

    async def _ping(self, url: str) -> None:
        deadline_ms = self._clock.monotonic_ms() + self._config.timeout_ms
        headers = [("User-Agent", f"TaskTick/{__version__}")]
        outcome = await self._sender.send(Request("GET", url, headers, b"", deadline_ms))
        if outcome.status in SUCCESS and outcome.error_code is None:
            self._metrics.events["deadman_sent"] += 1
            self.last_success_at, self.last_error = self._clock.now_ms(), None
            self._outage.over()
            return
        error = outcome.error_code or f"status {outcome.status}"
        self._metrics.events["deadman_failed"] += 1
        self.last_error = error
        self._outage.failed(error, state=error)

    def stats(self) -> dict[str, Any] | None:
        """How it goes, for `GET /v1/stats`; None if nobody is pinged."""
        if self._config.url is None:
            return None
        return {
            "pings": self.is_ours,
            "last_success_at": self.last_success_at,
            "last_error": self.last_error,
            "withheld": list(self.withheld),
        }
