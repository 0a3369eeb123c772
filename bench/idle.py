"""What a daemon costs that has nothing to do: with nothing in its store, and with a million tasks for next year.

Processor time over half a minute, when it has come to rest; and what 100,000 tasks within the horizon hold in memory.
"""

import time
from pathlib import Path

from bench.boot import FAR_SPAN_MS, FAR_TASKS, TARGET_URL
from bench.daemon import Daemon, running
from bench.figures import Figure, at_most, ratio
from bench.stock import fill
from bench.tasks import NEXT_YEAR_MS, now_ms

ROUNDS = 3
REST_SECONDS = 5
SECONDS = 30
NEAR_TASKS = 100_000
# Due after the measurement, and well within the horizon of ten minutes.
NEAR_FIRST_MS, NEAR_SPAN_MS = 180_000, 360_000


def share(daemon: Daemon, seconds: float) -> float:
    """Which part of a core it takes, in percent."""
    time.sleep(REST_SECONDS)
    spent, began = daemon.cpu_seconds, time.perf_counter()
    time.sleep(seconds)
    return (daemon.cpu_seconds - spent) / (time.perf_counter() - began) * 100


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question."""
    rounds, seconds, scale = (1, 5.0, 10) if quick else (ROUNDS, SECONDS, 1)
    full = folder / "full"
    with running(full) as daemon:
        daemon.create(TARGET_URL, [now_ms() + NEXT_YEAR_MS])
    fill(full, FAR_TASKS // scale, now_ms() + NEXT_YEAR_MS, FAR_SPAN_MS)
    shares: dict[str, list[float]] = {"empty": [], "full": []}
    memory: dict[str, list[float]] = {"empty": [], "near": []}
    for number in range(rounds):
        with running(folder / f"empty-{number}") as daemon:
            shares["empty"].append(share(daemon, seconds))
            memory["empty"].append(daemon.resident_mb)
        with running(full) as daemon:
            shares["full"].append(share(daemon, seconds))
        near = folder / f"near-{number}"
        with running(near) as daemon:
            daemon.create(TARGET_URL, [now_ms() + NEXT_YEAR_MS])
        fill(near, NEAR_TASKS // scale, now_ms() + NEAR_FIRST_MS, NEAR_SPAN_MS)
        with running(near) as daemon:
            memory["near"].append(daemon.resident_mb)
    empty = Figure("memory, empty store", "MB", tuple(memory["empty"]))
    held = Figure(f"memory, {NEAR_TASKS // scale:,} due within the horizon", "MB", tuple(memory["near"]))
    by_timer = tuple(
        (one - other) * 1e6 / (NEAR_TASKS // scale) for one, other in zip(memory["near"], memory["empty"], strict=True)
    )
    return [
        Figure("of a core, empty store", "%", tuple(shares["empty"])),
        Figure(f"of a core, {FAR_TASKS // scale:,} due next year", "%", tuple(shares["full"]), at_most(0.5)),
        empty,
        held,
        ratio("memory with them to an empty store", held, empty, at_most(1.3)),
        Figure("memory for each of them", "B", by_timer, at_most(120)),
    ]
