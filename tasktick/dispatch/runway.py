"""Claimed attempts on their way out: no more calls at once to a host than it answers well. Pure.

A host that answers at once is served best by few calls that follow one another: more of them only make the event loop
late for everybody. What is claimed beyond these waits here, in the order in which it came, and the next one leaves when
a call has ended; so claims can be large, and few, while calls are few. For a host that is not known to be quick
everything leaves that was claimed: `Limits` lets less of it be.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator

from tasktick.dispatch.flight import Flight


class _Strip:
    """One host's: how many calls are under way, and what waits for one of them to end."""

    __slots__ = ("calls", "waiting")

    def __init__(self) -> None:
        self.calls = 0
        self.waiting: deque[Flight] = deque()


class Runway:
    """Starts flights, so many at once to a host as `at_once` says."""

    def __init__(self, at_once: Callable[[str], int], start: Callable[[Flight], None]) -> None:
        self._at_once = at_once
        self._start = start
        self._strips: dict[str, _Strip] = {}

    def leave(self, flight: Flight) -> bool:
        """Start this one, or let it wait for its turn; whether it was started."""
        host = flight.claimed.host
        strip = self._strips.get(host)
        if strip is None:
            strip = self._strips[host] = _Strip()
        if strip.waiting or strip.calls >= self._at_once(host):
            flight.in_line = True
            strip.waiting.append(flight)
            return False
        strip.calls += 1
        self._start(flight)
        return True

    def ended(self, host: str, claimed_before_ms: float = -math.inf) -> list[Flight]:
        """A call to the host has ended, or was not made: whoever waits there may go, unless it was claimed before that.

        Those wait here no more, and are returned.
        """
        strip = self._strips[host]
        strip.calls -= 1
        late = list(_late(strip, claimed_before_ms))
        if strip.waiting:
            # One more than has ended, where the host is allowed more by now.
            for _ in range(min(2, len(strip.waiting), self._at_once(host) - strip.calls)):
                strip.calls += 1
                self._start(_called(strip))
        elif not strip.calls:
            del self._strips[host]
        return late

    def late(self, claimed_before_ms: float) -> Iterator[Flight]:
        """What waits and was claimed before that, so that it may start no more; it waits here no more."""
        for strip in self._strips.values():
            yield from _late(strip, claimed_before_ms)

    def clear(self) -> Iterator[Flight]:
        """All that waits; it waits here no more."""
        return self.late(math.inf)


def _late(strip: _Strip, claimed_before_ms: float) -> Iterator[Flight]:
    while strip.waiting and strip.waiting[0].claimed_monotonic_ms < claimed_before_ms:
        yield _called(strip)


def _called(strip: _Strip) -> Flight:
    flight = strip.waiting.popleft()
    flight.in_line = False
    return flight
