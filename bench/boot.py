"""How long a start takes with many tasks pending: a million within the horizon, ten million far ahead.

From the start of the process until it says that it is ready, imports and all; on SQLite and on PostgreSQL. Beside it,
in the same round: a start with an empty store, and a raw scan of the index that the million is read from.
(`python -m bench.boot SQLite --far 100000` asks one of them, with less far ahead: to make ten million takes minutes.)
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bench.daemon import Daemon, running
from bench.figures import Figure, at_most, ratio, table
from bench.places import KINDS, TARGET_URL, Place, Places, kinds, places
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


def near(made: Places, name: str, count: int) -> Place:
    """A store with so many tasks within the horizon, which they are only for some minutes."""
    place = made.new(name)
    place.fill(TARGET_URL, count, now_ms() + NEAR_FIRST_MS, NEAR_SPAN_MS)
    return place


def begun(made: Places) -> Place:
    """A store that has been served, and is empty."""
    place = made.new("empty")
    with running(place.data, place.store):
        pass
    return place


def boot(data: Path, count: int, store: str | None = None) -> tuple[float, float]:
    """Seconds until it is ready, and MB resident then; that it has its tasks is checked."""
    daemon = Daemon(data, store)
    try:
        seconds, memory_mb = daemon.wait_until_ready(), daemon.resident_mb
        if (there := daemon.scheduled()) != count:
            raise RuntimeError(f"of {count} tasks {there} are there")
    finally:
        daemon.stop()
    return seconds, memory_mb


def scan(place: Place, count: int) -> float:
    """Seconds to read what waits off its index."""
    store = ("--store", place.store) if place.store is not None else ()
    said = ask("bench.limit_scan", "--folder", str(place.data), *store)
    if said["rows"] != count:
        raise RuntimeError(f"of {count} tasks {said['rows']} wait")
    return float(said["seconds"])


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, beside a start with nothing pending and a scan."""
    rounds, scale = (1, 10) if quick else (ROUNDS, 1)
    counts = FAR_TASKS // scale, NEAR_TASKS // scale
    return [figure for kind in kinds() for figure in _on(kind, folder, rounds, *counts)]


def _on(kind: str, folder: Path, rounds: int, far_count: int, near_count: int) -> list[Figure]:
    found: dict[str, list[float]] = {"empty": [], "far": [], "near": [], "scan": []}
    with places(kind, folder) as made:
        empty, far = begun(made), made.new("far")
        far.fill(TARGET_URL, far_count, now_ms() + NEXT_YEAR_MS, FAR_SPAN_MS)
        for number in range(rounds):
            found["empty"].append(boot(empty.data, 0, empty.store)[0])
            found["far"].append(boot(far.data, far_count, far.store)[0])
            soon = near(made, f"near-{number}", near_count)
            found["scan"].append(scan(soon, near_count))
            found["near"].append(boot(soon.data, near_count, soon.store)[0])
            made.drop(soon)
    titles = {
        "empty": "limit: ready, empty store",
        "far": f"ready, {far_count:,} due next year",
        "scan": f"limit: raw scan of the index, {near_count:,}",
        "near": f"ready, {near_count:,} within the horizon",
    }
    figures = {name: Figure(f"{kind}: {title}", "s", tuple(found[name])) for name, title in titles.items()}
    to_empty, to_scan = (
        f"{kind}: {far_count:,} due next year to empty",
        f"{kind}: {near_count:,} within the horizon to the scan",
    )
    return [
        *figures.values(),
        ratio(to_empty, figures["far"], figures["empty"], at_most(EMPTIES_MOST)),
        ratio(to_scan, figures["near"], figures["scan"], at_most(SCANS_MOST)),
    ]


def main() -> int:
    """Measure one kind of store, or at another size."""
    arguments = argparse.ArgumentParser(prog="bench.boot", description=__doc__)
    arguments.add_argument("stores", nargs="+", choices=KINDS)
    arguments.add_argument("--rounds", type=int, default=ROUNDS)
    arguments.add_argument("--far", type=int, default=FAR_TASKS)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="tasktick-bench-boot-") as folder:
        for kind in given.stores:
            figures = _on(kind, Path(folder), given.rounds, given.far, NEAR_TASKS)
            sys.stdout.write(table("boot", figures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
