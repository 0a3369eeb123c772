"""What a daemon costs that has nothing to do: with nothing in its store, and with a million tasks for next year.

Processor time over half a minute, when it has come to rest.
"""

import time
from pathlib import Path

from bench.boot import FAR_SPAN_MS, stocked
from bench.daemon import Daemon, running
from bench.figures import Figure, at_most
from bench.tasks import NEXT_YEAR_MS, now_ms

ROUNDS = 3
REST_SECONDS = 5
SECONDS = 30
FAR_TASKS = 1_000_000


def share(daemon: Daemon, seconds: float) -> float:
    """Which part of a core it takes, in percent."""
    time.sleep(REST_SECONDS)
    spent, began = daemon.cpu_seconds, time.perf_counter()
    time.sleep(seconds)
    return (daemon.cpu_seconds - spent) / (time.perf_counter() - began) * 100


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question."""
    rounds, seconds, scale = (1, 5.0, 10) if quick else (ROUNDS, SECONDS, 1)
    count = FAR_TASKS // scale
    full = stocked(folder / "full", count, now_ms() + NEXT_YEAR_MS, FAR_SPAN_MS)
    shares: dict[str, list[float]] = {"empty": [], "full": []}
    for number in range(rounds):
        with running(folder / f"empty-{number}") as daemon:
            shares["empty"].append(share(daemon, seconds))
        with running(full) as daemon:
            shares["full"].append(share(daemon, seconds))
    return [
        Figure("of a core, empty store", "%", tuple(shares["empty"])),
        Figure(f"of a core, {count:,} due next year", "%", tuple(shares["full"]), at_most(0.5)),
    ]
