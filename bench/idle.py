"""What a daemon costs that has nothing to do: with nothing in its store, and with a million tasks for next year.

Processor time over half a minute, when it has come to rest; on SQLite and on PostgreSQL, whose own is said beside it.
"""

import time
from pathlib import Path

from bench.boot import FAR_SPAN_MS, begun
from bench.daemon import running
from bench.figures import Figure, at_most
from bench.places import TARGET_URL, Place, kinds, places
from bench.processes import cpu_seconds_of_all
from bench.tasks import NEXT_YEAR_MS, now_ms

ROUNDS = 3
REST_SECONDS = 5
SECONDS = 30
FAR_TASKS = 1_000_000
SHARE_MOST = 0.5


def shares(place: Place, seconds: float) -> tuple[float, float]:
    """Which part of a core a daemon on it takes, and the database's server, in percent."""
    with running(place.data, place.store) as daemon:
        time.sleep(REST_SECONDS)
        spent, of_server, began = daemon.cpu_seconds, _of_server(place), time.perf_counter()
        time.sleep(seconds)
        passed = time.perf_counter() - began
        return (daemon.cpu_seconds - spent) / passed * 100, (_of_server(place) - of_server) / passed * 100


def _of_server(place: Place) -> float:
    return 0.0 if place.server_pid is None else cpu_seconds_of_all(place.server_pid)


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question."""
    rounds, seconds, scale = (1, 5.0, 10) if quick else (ROUNDS, SECONDS, 1)
    return [figure for kind in kinds() for figure in _on(kind, folder, rounds, seconds, FAR_TASKS // scale)]


def _on(kind: str, folder: Path, rounds: int, seconds: float, count: int) -> list[Figure]:
    found: dict[str, list[tuple[float, float]]] = {"empty store": [], f"{count:,} due next year": []}
    with places(kind, folder) as made:
        full = made.new("full")
        full.fill(TARGET_URL, count, now_ms() + NEXT_YEAR_MS, FAR_SPAN_MS)
        stores = begun(made), full
        for _ in range(rounds):
            for place, measured in zip(stores, found.values(), strict=True):
                measured.append(shares(place, seconds))
    figures: list[Figure] = []
    for title, measured in found.items():
        target = None if title == "empty store" else at_most(SHARE_MOST)
        ours, of_server = zip(*measured, strict=True)
        figures.append(Figure(f"{kind}: of a core, {title}", "%", ours, target))
        if any(of_server):
            figures.append(Figure(f"{kind}: of a core for the server, {title}", "%", of_server))
    return figures
