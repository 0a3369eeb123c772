"""How long a start takes, and what it holds in memory, with many schedules: 100,000 and 1,000,000, each with its one
fire ahead. They fire once a day, tomorrow or later, so that nothing comes due while it is measured.
"""

from pathlib import Path

import msgspec

from bench.boot import boot
from bench.daemon import running
from bench.figures import Figure, at_most
from bench.stock import fill_schedules
from bench.tasks import now_ms

ROUNDS = 3
COUNTS = (100_000, 1_000_000)
DAY_MS = 86_400_000
SECONDS_MAX, MEMORY_MB_MAX = 3, 150


def stocked(folder: Path, count: int) -> Path:
    """A store with so many schedules, made in a moment."""
    schedule = {"every": "1d", "task": {"target": {"url": "http://127.0.0.1:9/never"}}}
    with running(folder) as daemon:
        status, answer = daemon.call("POST", "/v1/schedules", msgspec.json.encode(schedule))
        if status != 201:
            raise RuntimeError(f"the daemon refused a schedule: {status} {answer[:500]!r}")
    fill_schedules(folder, count, now_ms() + DAY_MS, DAY_MS)
    return folder


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, beside a start with nothing to do."""
    rounds, scale = (1, 100) if quick else (ROUNDS, 1)
    counts = [count // scale for count in COUNTS]
    empty = folder / "empty"
    with running(empty):
        pass
    stores = {0: empty, **{count: stocked(folder / f"with-{count}", count) for count in counts}}
    found: dict[int, list[tuple[float, float]]] = {count: [] for count in stores}
    for _ in range(rounds):
        for count, data in stores.items():
            found[count].append(boot(data, count))
    names = {0: "limit: {}, empty store", **{count: f"{{}}, {count:,} schedules" for count in counts}}
    return [
        *(
            Figure(
                names[count].format("ready"),
                "s",
                tuple(one[0] for one in pairs),
                at_most(SECONDS_MAX) if count else None,
            )
            for count, pairs in found.items()
        ),
        *(
            Figure(
                names[count].format("memory"),
                "MB",
                tuple(one[1] for one in pairs),
                at_most(MEMORY_MB_MAX) if count else None,
            )
            for count, pairs in found.items()
        ),
    ]
