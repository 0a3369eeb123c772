"""How late the fires of one second are, by how many schedules fire in it: 1, 100 and 10,000; on SQLite and PostgreSQL.

Several such seconds a round, some seconds apart; each schedule fires in one of them. What a fire costs the daemon, with
its next one's rows and its line in the ledger, is told of the most, and on PostgreSQL what it costs the server.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.daemon import running
from bench.figures import Figure, at_most, percentile
from bench.places import Place, kinds, places
from bench.processes import child, cpu_seconds_of_all
from bench.receiver import ask_receiver
from bench.tasks import now_ms

ROUNDS = 3
COUNTS = (1, 100, 10_000)
GROUPS, GROUP_MS = 5, 4_000
# Time to make them, and for a start of the daemon.
AHEAD_MS, MADE_PER_MS = 10_000, 8
SETTLE_SECONDS = 4
WITHIN, LATE_MORE_MS = 0.8, 1.0


class Second(msgspec.Struct, frozen=True):
    """What was seen of such seconds."""

    late_ms: list[float]
    """Of each fire."""
    cpu_us: float
    """A fire, of the daemon."""
    server_us: float
    """A fire, of the database's processes."""


def late_in_one_second(place: Place, port: int, count: int, groups: int) -> Second:
    """How late each fire was, and what it cost."""
    schedule = {"every": "1d", "task": {"target": {"url": f"http://127.0.0.1:{port}/fire"}}}
    first_ms = now_ms() + AHEAD_MS + count * groups // MADE_PER_MS
    place.fill_schedules(msgspec.json.encode(schedule), count * groups, first_ms, 1_000, groups, GROUP_MS)
    ask_receiver(port, "/reset")
    with running(place.data, place.store) as daemon:
        if now_ms() > first_ms - 1_000:
            raise RuntimeError("the start took so long that the first are due: give them more time")
        time.sleep((first_ms - now_ms()) / 1_000 - 0.5)
        spent, of_server = daemon.cpu_seconds, _of_server(place)
        time.sleep((first_ms + groups * GROUP_MS - now_ms()) / 1_000)
        cost, server_cost = (
            seconds / (count * groups) * 1e6 for seconds in (daemon.cpu_seconds - spent, _of_server(place) - of_server)
        )
        time.sleep(SETTLE_SECONDS)
        fires = ask_receiver(port, "/fires")
    if len({schedule for schedule, _, _ in fires}) != len(fires) or len(fires) != count * groups:
        raise RuntimeError(f"of {count * groups} fires {len(fires)} came")
    return Second([at_us / 1_000 - due for _, due, at_us in fires], cost, server_cost)


def _of_server(place: Place) -> float:
    return 0.0 if place.server_pid is None else cpu_seconds_of_all(place.server_pid)


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question."""
    rounds, scale, groups = (1, 10, 2) if quick else (ROUNDS, 1, GROUPS)
    return asked(folder, kinds(), [max(count // scale, 1) for count in COUNTS], rounds, groups)


def asked(folder: Path, stores: Sequence[str], counts: Sequence[int], rounds: int, groups: int) -> list[Figure]:
    """The question, of these kinds of stores."""
    figures: list[Figure] = []
    with child("bench.receiver") as receiver:
        for kind in stores:
            found: dict[int, list[Second]] = {count: [] for count in counts}
            with places(kind, folder) as made:
                for number in range(rounds):
                    for count in counts:
                        place = made.new(f"{count}-{number}")
                        found[count].append(late_in_one_second(place, receiver["port"], count, groups))
                        made.drop(place)
            figures += _figures(kind, found)
    return figures


def _figures(kind: str, found: dict[int, list[Second]]) -> list[Figure]:
    figures: list[Figure] = []
    for part, name in ((0.5, "p50"), (0.99, "p99")):
        base: float | None = None
        for count, seconds in found.items():
            title = f"{kind}: late, {count:,} schedules due in one second, {name}"
            target = None if base is None else at_most(max(base / WITHIN, base + LATE_MORE_MS))
            figures.append(Figure(title, "ms", tuple(percentile(one.late_ms, part) for one in seconds), target))
            base = figures[-1].value if base is None else base
    most = max(found)
    title = f"{kind}: processor per fire, {most:,} schedules due in one second"
    figures.append(Figure(title, "µs", tuple(one.cpu_us for one in found[most])))
    if any(one.server_us for one in found[most]):
        title = f"{kind}: of the database, {most:,} schedules due in one second"
        figures.append(Figure(title, "µs", tuple(one.server_us for one in found[most])))
    return figures
