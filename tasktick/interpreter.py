"""How the interpreter runs in a daemon: what its collector passes over, and how soon threads take turns."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# How long a thread that is at work may keep the interpreter from another that waits for it.
SWITCH_SECONDS = 0.0005
QUICK_SWITCH_SECONDS = 0.0001

# Who wants it sooner now.
_in_a_hurry: list[object] = []


def tune() -> None:
    """What is imported stays: the collector walking it again and again would be a third of the time under load. And the
    store's threads get the interpreter soon: each statement waits for it, under load as long as this says."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    sys.setswitchinterval(SWITCH_SECONDS)


def keep() -> None:
    """What a start has read stays too: the collector passes it over from now on."""
    gc.collect()
    gc.freeze()


@contextmanager
def in_quick_turns() -> Iterator[None]:
    """Sooner, for who keeps the event loop at work while a thread writes what it makes. For who does not, it costs more
    than it gives: the loop is interrupted where it would have waited in a moment."""
    me = object()
    _in_a_hurry.append(me)
    sys.setswitchinterval(QUICK_SWITCH_SECONDS)
    try:
        yield
    finally:
        _in_a_hurry.remove(me)
        if not _in_a_hurry:
            # Not what it was: that is told in whole microseconds, rounded down each time that it is asked and set.
            sys.setswitchinterval(SWITCH_SECONDS)
