"""How often each ping id may be pinged, and how often an address may be wrong. In this process's memory, bounded."""

from collections import OrderedDict

from tasktick.api.rates import Allowance, Bucket, Rate
from tasktick.errors import Refused

PINGS = Rate(60, 60_000, "pings")
WRONG_PINGS = Rate(60, 60_000, "wrong-pings")
KEPT_MAX = 10_000


class Knocks:
    """Who is at the door: ping ids that are somebody's, and addresses that asked for nobody."""

    def __init__(self) -> None:
        self._pings: OrderedDict[str, Bucket] = OrderedDict()
        self._wrong: OrderedDict[str, Bucket] = OrderedDict()

    def hear(self, ping_hash: str, address: str, now: float) -> None:
        """Refuse what comes too often. An address that was wrong too often is heard for ids that were right before."""
        bucket = self._pings.get(ping_hash)
        if bucket is not None:
            self._pings.move_to_end(ping_hash)
            _granted(bucket.take(PINGS, 1, now), "This check is pinged too often.")
        elif address in self._wrong:
            _granted(self._wrong[address].ask(WRONG_PINGS, now), "Too many wrong pings came from this address.")

    def right(self, ping_hash: str, now: float) -> None:
        """This one is somebody's."""
        if ping_hash not in self._pings:
            _kept(self._pings, ping_hash).take(PINGS, 1, now)

    def wrong(self, ping_hash: str, address: str, now: float) -> None:
        """This one is nobody's, or no longer."""
        self._pings.pop(ping_hash, None)
        _kept(self._wrong, address).take(WRONG_PINGS, 1, now)


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
