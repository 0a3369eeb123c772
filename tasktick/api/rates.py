"""Rates, and how fast a tenant may make tasks: GCRA, in this process's memory.

`100/1m` lets a hundred through at once, and from then on one each 600 ms. What a tenant has used is forgotten
with the process; a rate that another process has set is heard of within four seconds.
"""

import re
from collections import OrderedDict
from math import ceil

import msgspec

from tasktick.api.times import duration_ms, seconds
from tasktick.clock import Clock
from tasktick.errors import Refused
from tasktick.store import tenants
from tasktick.store.protocol import Reader

CACHED_MS = 4_000
TENANTS_MAX = 4_096
COUNT_MAX = 1_000_000
WINDOW_MIN_MS = 1_000
WINDOW_MAX_MS = 86_400_000
RATE_HELP = 'A rate is a number and a time from 1s to 1d, such as "100/1m".'
# What a sum of intervals may be off by, as a part of one.
SLACK = 1e-6

_NOTHING_TO_TELL: dict[str, str] = {}
_RATE = re.compile(r"(\d{1,7})/(\w{1,20})", re.ASCII)


class Rate(msgspec.Struct, frozen=True):
    """So many in so long, and what clients know it by."""

    count: int
    window_ms: int
    name: str = "create"

    @property
    def interval_ms(self) -> float:
        return self.window_ms / self.count


def rate_of(text: str) -> Rate:
    """The rate that is written so; raises ValueError with a sentence."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError(RATE_HELP)
    try:
        window_ms = duration_ms(match[2])
    except ValueError:
        raise ValueError(RATE_HELP) from None
    if not (1 <= int(match[1]) <= COUNT_MAX and WINDOW_MIN_MS <= window_ms <= WINDOW_MAX_MS):
        raise ValueError(f"{RATE_HELP} The number is from 1 to {COUNT_MAX}.")
    return Rate(int(match[1]), window_ms)


class Allowance(msgspec.Struct, frozen=True):
    """How many of those that were asked for may go, and what the client is told about it."""

    granted: int
    retry_after_ms: int
    headers: dict[str, str]


class RateRefused(Refused):
    """Too many, too fast."""

    def __init__(self, allowance: Allowance) -> None:
        seconds = ceil(allowance.retry_after_ms / 1_000)  # in a batch there is no header for each
        detail = f"The tenant makes tasks faster than it may. Wait {seconds:,} s."
        super().__init__("rate_limited", detail, retry_after_ms=allowance.retry_after_ms)


class Bucket(msgspec.Struct):
    """What is used of a rate: `full_at` is when all of it is free again."""

    full_at: float = 0.0

    def take(self, rate: Rate, wanted: int, now: float) -> Allowance:
        """Take as many of these as may go now."""
        self.full_at = min(max(self.full_at, now), now + rate.window_ms)
        free = int((now + rate.window_ms - self.full_at) / rate.interval_ms + SLACK)
        granted = min(free, wanted)
        self.full_at += granted * rate.interval_ms
        wait_ms = ceil(self.full_at + rate.interval_ms - now - rate.window_ms) if granted < wanted else 0
        headers = {
            "RateLimit-Policy": f'"{rate.name}";q={rate.count};w={ceil(seconds(rate.window_ms))}',
            "RateLimit": f'"{rate.name}";r={free - granted};t={ceil((self.full_at - now) / 1_000)}',
        }
        return Allowance(granted, max(1, wait_ms) if granted < wanted else 0, headers)

    def ask(self, rate: Rate, now: float) -> Allowance:
        """What would come of taking one now. Nothing is taken."""
        return Bucket(self.full_at).take(rate, 1, now)


class Known(msgspec.Struct):
    """A tenant's rate as it was read, and what is used of it."""

    rate: Rate | None
    checked_at: float
    bucket: Bucket


class Rates:
    """The rates of the tenants that were asked about lately."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._known: OrderedDict[str, Known] = OrderedDict()

    def is_unlimited(self, tenant: str) -> bool:
        """Whether it is known that this tenant may make any number of tasks."""
        known = self._known.get(tenant)
        return known is not None and known.rate is None and not self._is_old(known)

    def _is_old(self, known: Known) -> bool:
        return self._clock.monotonic_ms() - known.checked_at > CACHED_MS

    async def take(self, tenant: str, wanted: int) -> Allowance:
        """How many of so many tasks this tenant may make now."""
        known = self._known.get(tenant)
        if known is None or self._is_old(known):
            known = await self._read(tenant)
        if known.rate is None:
            return Allowance(wanted, 0, _NOTHING_TO_TELL)
        return known.bucket.take(known.rate, wanted, self._clock.monotonic_ms())

    async def _read(self, tenant: str) -> Known:
        text = await self._reader.read(lambda tx: tenants.create_rate(tx, tenant))
        before = self._known.get(tenant)
        bucket = Bucket() if before is None else before.bucket
        known = Known(None if text is None else rate_of(text), self._clock.monotonic_ms(), bucket)
        self._known[tenant] = known
        self._known.move_to_end(tenant)
        while len(self._known) > TENANTS_MAX:
            self._known.popitem(last=False)
        return known

    def changed(self, tenant: str) -> None:
        """The tenant's rate was set here: it is read again at once."""
        known = self._known.get(tenant)
        if known is not None:
            known.checked_at = float("-inf")
