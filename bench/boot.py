"""How long a start takes with many tasks pending: a million within the horizon, ten million far ahead.

From the start of the process until it says that it is ready, imports and all. Beside it, in the same round: a start
with an empty store, and a raw scan of the index that the million is read from.
"""

import shutil
from pathlib import Path

from bench.daemon import Daemon, running
from bench.figures import Figure, at_most, ratio
from bench.places import TARGET_URL
from bench.processes import ask
from bench.stock import fill
from bench.tasks import NEXT_YEAR_MS, now_ms

ROUNDS = 3
FAR_TASKS = 10_000_000
NEAR_TASKS = 1_000_000
# Due after the measurement and well within the horizon of ten minutes.
NEAR_FIRST_MS, NEAR_SPAN_MS = 180_000, 360_000
FAR_SPAN_MS = 30 * 86_400_000
SCANS_MOST, EMPTIES_MOST = 3, 1.15


def stocked(folder: Path, count: int, first_ms: int, span_ms: int) -> Path:
    """A store with so many tasks, made in a moment."""
    with running(folder) as daemon:
        daemon.create(TARGET_URL, [first_ms])
    fill(folder, count, first_ms, span_ms)
    return folder


def stocked_near(folder: Path, count: int) -> Path:
    """A store with so many tasks within the horizon, which it is only for some minutes."""
    shutil.rmtree(folder, ignore_errors=True)
    return stocked(folder, count, now_ms() + NEAR_FIRST_MS, NEAR_SPAN_MS)


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


def scan(data: Path, count: int) -> float:
    """Seconds to read what waits off its index."""
    said = ask("bench.limit_scan", "--folder", str(data))
    if said["rows"] != count:
        raise RuntimeError(f"of {count} tasks {said['rows']} wait")
    return float(said["seconds"])


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, beside a start with nothing pending and a scan."""
    rounds, scale = (1, 10) if quick else (ROUNDS, 1)
    far_count, near_count = FAR_TASKS // scale, NEAR_TASKS // scale
    empty = folder / "empty"
    with running(empty):
        pass
    far = stocked(folder / "far", far_count, now_ms() + NEXT_YEAR_MS, FAR_SPAN_MS)
    found: dict[str, list[float]] = {"empty": [], "far": [], "near": [], "scan": []}
    for _ in range(rounds):
        found["empty"].append(boot(empty, 0)[0])
        found["far"].append(boot(far, far_count)[0])
        near = stocked_near(folder / "near", near_count)
        found["scan"].append(scan(near, near_count))
        found["near"].append(boot(near, near_count)[0])
    titles = {
        "empty": "limit: ready, empty store",
        "far": f"ready, {far_count:,} due next year",
        "scan": f"limit: raw scan of the index, {near_count:,}",
        "near": f"ready, {near_count:,} within the horizon",
    }
    figures = {kind: Figure(title, "s", tuple(found[kind])) for kind, title in titles.items()}
    return [
        *figures.values(),
        ratio(f"{far_count:,} due next year to empty", figures["far"], figures["empty"], at_most(EMPTIES_MOST)),
        ratio(f"{near_count:,} within the horizon to the scan", figures["near"], figures["scan"], at_most(SCANS_MOST)),
    ]
