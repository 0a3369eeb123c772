"""How long a start takes, and what it holds in memory, with many tasks pending: far ahead, and within the horizon."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from bench.daemon import Daemon, running
from bench.figures import Figure, at_most
from bench.stock import fill
from bench.tasks import NEXT_YEAR_MS, now_ms

ROUNDS = 3
FAR_TASKS = 1_000_000
NEAR_TASKS = 100_000
# Due after the measurement and well within the horizon of ten minutes.
NEAR_FIRST_MS, NEAR_SPAN_MS = 120_000, 420_000
FAR_SPAN_MS = 30 * 86_400_000
TARGET_URL = "http://127.0.0.1:9/never"


def stocked(folder: Path, count: int, first_ms: int, span_ms: int) -> Path:
    """A store with so many tasks, made in a moment."""
    with running(folder) as daemon:
        daemon.create(TARGET_URL, [first_ms])
    fill(folder, count, first_ms, span_ms)
    return folder


def boot(data: Path, count: int) -> tuple[float, float]:
    """Seconds until it is ready, and MB resident then; that it has its tasks is checked."""
    daemon = Daemon(data)
    try:
        seconds, memory_mb = daemon.wait_until_ready(), daemon.resident_mb
        if (there := daemon.scheduled()) != count:
            raise RuntimeError(f"of {count} tasks {there} are there")
    finally:
        daemon.stop()
    return seconds, memory_mb


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, beside a start with nothing pending."""
    rounds = 1 if quick else ROUNDS
    scale = 10 if quick else 1
    empty, far, near = folder / "empty", folder / "far", folder / "near"
    with running(empty):
        pass
    stocked(far, FAR_TASKS // scale, now_ms() + NEXT_YEAR_MS, FAR_SPAN_MS)
    pairs: dict[str, list[tuple[float, float]]] = {"empty": [], "far": [], "near": []}
    for _ in range(rounds):
        pairs["empty"].append(boot(empty, 0))
        pairs["far"].append(boot(far, FAR_TASKS // scale))
        shutil.rmtree(near, ignore_errors=True)
        stocked(near, NEAR_TASKS // scale, now_ms() + NEAR_FIRST_MS, NEAR_SPAN_MS)
        pairs["near"].append(boot(near, NEAR_TASKS // scale))
    return [
        _seconds("limit: ready, empty store", pairs["empty"]),
        _seconds(f"ready, {FAR_TASKS // scale:,} due next year", pairs["far"], 3),
        _seconds(f"ready, {NEAR_TASKS // scale:,} within the horizon", pairs["near"], 3),
        _memory("limit: memory, empty store", pairs["empty"]),
        _memory(f"memory, {FAR_TASKS // scale:,} due next year", pairs["far"], 150),
        _memory(f"memory, {NEAR_TASKS // scale:,} within the horizon", pairs["near"], 200),
    ]


def _seconds(name: str, pairs: Sequence[tuple[float, float]], most: float | None = None) -> Figure:
    return Figure(name, "s", tuple(one[0] for one in pairs), at_most(most) if most is not None else None)


def _memory(name: str, pairs: Sequence[tuple[float, float]], most: float | None = None) -> Figure:
    return Figure(name, "MB", tuple(one[1] for one in pairs), at_most(most) if most is not None else None)
