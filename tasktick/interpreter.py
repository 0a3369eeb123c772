"""How the interpreter runs in a daemon: what its collector passes over, and how soon threads take turns."""

import gc
import sys

# How long a thread that is at work may keep the interpreter from another that waits for it.
SWITCH_SECONDS = 0.0005


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
