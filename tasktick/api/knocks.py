"""How often each ping id may be pinged, and how often an address may be wrong. In this process's memory, bounded.

An address may be that of a proxy, behind which others ping: whoever is wrong too often there must not silence them. So
what is asked from such an address is still looked up, a few at a time, and told to wait only if it is nobody's.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from tasktick.api.rates import Allowance, Bucket, Rate
from tasktick.errors import Refused

PINGS = Rate(60, 60_000, "pings")
WRONG_PINGS = Rate(60, 60_000, "wrong-pings")
KEPT_MAX = 10_000
DOUBTED_MAX = 4
TOO_OFTEN = "This check is pinged too often."
TOO_WRONG = "Too many wrong pings came from this address."


class Knocks:
    """Who is at the door: ping ids that are somebody's, and addresses that asked for nobody."""

    def __init__(self) -> None:
        self._pings: OrderedDict[str, Bucket] = OrderedDict()
        self._wrong: OrderedDict[str, Bucket] = OrderedDict()
        self._doubted = 0

    @contextmanager
    def heard(self, ping_hash: str, address: str, now: float) -> Iterator[None]:
        """While it is looked up whose this is; refuse what comes too often."""
        bucket = self._pings.get(ping_hash)
        if bucket is not None:
            self._pings.move_to_end(ping_hash)
            _granted(bucket.take(PINGS, 1, now), TOO_OFTEN)
        doubted = self._doubts(address, now) if bucket is None else None
        if doubted is None:
            yield
            return
        if self._doubted >= DOUBTED_MAX:
            _granted(doubted, TOO_WRONG)
        self._doubted += 1
        try:
            yield
        finally:
            self._doubted -= 1

    def _doubts(self, address: str, now: float) -> Allowance | None:
        """That an address has to wait, if it was wrong too often."""
        bucket = self._wrong.get(address)
        allowance = None if bucket is None else bucket.ask(WRONG_PINGS, now)
        return None if allowance is None or allowance.granted else allowance

    def right(self, ping_hash: str, now: float) -> None:
        """This one is somebody's."""
        if ping_hash not in self._pings:
            _kept(self._pings, ping_hash).take(PINGS, 1, now)

    def wrong(self, ping_hash: str, address: str, now: float) -> None:
        """This one is nobody's, or no longer: refuse it as that, or for being one of too many."""
        self._pings.pop(ping_hash, None)
        _granted(_kept(self._wrong, address).take(WRONG_PINGS, 1, now), TOO_WRONG)


def _kept(buckets: OrderedDict[str, Bucket], name: str) -> Bucket:
    bucket = buckets.setdefault(name, Bucket())
    buckets.move_to_end(name)
    while len(buckets) > KEPT_MAX:
        buckets.popitem(last=False)
    return bucket


def _granted(allowance: Allowance, why: str) -> None:
    if not allowance.granted:
        raise Refused(
            "rate_limited", f"{why} Wait as long as Retry-After says.", retry_after_ms=allowance.retry_after_ms
        )
