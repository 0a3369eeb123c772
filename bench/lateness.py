"""How late a task reaches its receiver: at 100, 1,000 and 5,000 a second, and one at a time in an idle daemon.

Late is from the instant at which the task was due, as the request itself says it, until the receiver has the
whole request. Tasks are created well before, so that the daemon is quiet but for its fires. Where a bare timer
is later than a target itself, its lateness is the target.
"""

import time
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import median

from bench.daemon import Daemon, running
from bench.figures import Figure, Target, at_most, percentile
from bench.places import kinds, places
from bench.processes import ask, child
from bench.receiver import ask_receiver
from bench.tasks import now_ms

ROUNDS = 3
SECONDS = 10
# Time to create them all, and to come to rest.
AHEAD_MS, CREATED_PER_MS = 3_500, 6
RATES = (100, 1_000, 5_000)
PARTS = ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"))
SHOTS = 30
SHOT_AHEAD_MS = 2_000
SETTLE_SECONDS_MAX = 15
LOOK_SECONDS = 0.05
LIMIT = "limit, a bare timer"

TARGETS: dict[tuple[int, str], Target] = {
    (100, "p50"): at_most(0.6),
    (100, "p99"): at_most(2),
    (1_000, "p99"): at_most(3),
    (5_000, "p99"): at_most(8),
}


def late_ms(port: int, count: int) -> list[float]:
    """How late each hit was, when all are there."""
    until = time.perf_counter() + SETTLE_SECONDS_MAX
    while ask_receiver(port, "/count") < count and time.perf_counter() < until:
        time.sleep(LOOK_SECONDS)
    stamps = [late_us / 1_000 for late_us in ask_receiver(port, "/stamps")]
    if len(stamps) != count:
        raise RuntimeError(f"of {count} tasks {len(stamps)} arrived")
    return stamps


def steady(daemon: Daemon, port: int, per_second: int, seconds: int) -> list[float]:
    """Lateness of tasks that are due evenly."""
    ask_receiver(port, "/reset")
    count = per_second * seconds
    first_ms = now_ms() + AHEAD_MS + count // CREATED_PER_MS
    daemon.create(f"http://127.0.0.1:{port}/late", [first_ms + n * 1_000 // per_second for n in range(count)])
    if now_ms() > first_ms - 1_000:
        raise RuntimeError("creating the tasks took so long that the first are due")
    time.sleep((first_ms - now_ms()) / 1_000 + seconds)
    return late_ms(port, count)


def bare(port: int, per_second: int, seconds: int) -> list[float]:
    """The same of the limit."""
    ask_receiver(port, "/reset")
    ask(
        "bench.limit_timer",
        *("--url", f"http://127.0.0.1:{port}/late"),
        *("--per-second", str(per_second), "--seconds", str(seconds), "--ahead-ms", "500"),
    )
    return late_ms(port, per_second * seconds)


def shots(daemon: Daemon, port: int, count: int) -> list[float]:
    """Lateness of single tasks, each alone and due two seconds after it was created."""
    ask_receiver(port, "/reset")
    for number in range(count):
        due_ms = now_ms() + SHOT_AHEAD_MS
        daemon.create(f"http://127.0.0.1:{port}/late", [due_ms])
        time.sleep((due_ms - now_ms()) / 1_000)
        late_ms(port, number + 1)
    return late_ms(port, count)


def within(target: Target, limit_ms: float) -> Target:
    """What can be asked for here: nobody is earlier than a bare timer on the same machine."""
    return at_most(max(target.value, limit_ms))


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, of both stores beside bare timers."""
    seconds, rounds, count = (2, 1, 3) if quick else (SECONDS, ROUNDS, SHOTS)
    found: dict[tuple[str, int], list[list[float]]] = {}
    single: dict[str, list[float]] = {}
    with child("bench.receiver") as receiver, ExitStack() as stack:
        port = receiver["port"]
        daemons: dict[str, Daemon] = {}
        for kind in kinds():
            place = stack.enter_context(places(kind, folder)).new("late")
            daemons[kind] = stack.enter_context(running(place.data, place.store))
        for _ in range(rounds):
            for rate in RATES:
                found.setdefault((LIMIT, rate), []).append(bare(port, rate, seconds))
                for kind, daemon in daemons.items():
                    found.setdefault((kind, rate), []).append(steady(daemon, port, rate, seconds))
        for kind, daemon in daemons.items():
            single[kind] = shots(daemon, port, count)
    return _figures(found) + [figure for kind, late in single.items() for figure in _of_shots(kind, late, found, count)]


def _figures(found: dict[tuple[str, int], list[list[float]]]) -> list[Figure]:
    figures = []
    for (who, rate), part in product(found, PARTS):
        values = tuple(percentile(one, part[0]) for one in found[who, rate])
        target = TARGETS.get((rate, part[1])) if who != LIMIT else None
        if target is not None:
            target = within(target, median(percentile(one, part[0]) for one in found[LIMIT, rate]))
        figures.append(Figure(f"{who}: late at {rate:,}/s, {part[1]}", "ms", values, target))
    return figures


def _of_shots(
    kind: str, late: list[float], found: dict[tuple[str, int], list[list[float]]], count: int
) -> list[Figure]:
    """Single shots; and whether anything of this store was ever early."""
    steadily = [one for (who, _), rounds in found.items() if who == kind for part in rounds for one in part]
    return [
        Figure(f"{kind}: late, {count} single shots, p50", "ms", (percentile(late, 0.5),), at_most(3)),
        Figure(f"{kind}: late, {count} single shots, latest", "ms", (max(late),)),
        Figure(f"{kind}: fired early", "", (sum(one < 0 for one in [*steadily, *late]),), at_most(0)),
    ]
