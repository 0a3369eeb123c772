"""Many schedules in one process: 102,000 `every 1m`, spread over the minute, are 1,700 fires a second without end.

They are created over the API, as a client would. When each has fired once, fires are counted for so many minutes: at
the receiver, each schedule once for each of its nominal times, how late after the instant that its spread gives it.
Lateness is told by minute: it must not grow. Beside it, in the same run, single tasks at the same rate (what a fire
costs that nobody has planned), and a bare timer at that rate. So the cost of a fire is told in two stages: that of any
task, and what comes on top of it, which is deciding, the ledger and the next fire's rows; and by each stage's own
processor time on the store alone (`schedule_stages`).

`python -m bench.run schedules`; with other sizes, `python -m bench.schedules --help`.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import msgspec

from bench.daemon import Daemon, running
from bench.figures import Figure, at_least, at_most, per_second, percentile, table
from bench.lateness import late_ms
from bench.processes import ask, child
from bench.receiver import ask_receiver
from bench.tasks import now_ms
from tasktick.model.ids import parse
from tasktick.model.schedule import Rule
from tasktick.timetable.policy import due_at

CONNECTIONS = 64
# When the first fires, after creating has begun: so long, and what creating them all will take.
START_AHEAD_MS = 3_000
CREATES_PER_SECOND = 2_000
SETTLE_SECONDS = 5
TARGET_LATE_MS = 100
RATE_SHARE_MIN = 0.995
STAGED = 20_000


class Size(msgspec.Struct, frozen=True):
    """How much is measured."""

    schedules: int = 102_000
    every_ms: int = 60_000
    rounds: int = 3
    """How many intervals, after the first."""
    control_seconds: int = 20
    """How long single tasks, and a bare timer, at the same rate."""

    @property
    def rate(self) -> float:
        """Fires a second."""
        return self.schedules * 1_000 / self.every_ms


QUICK = Size(schedules=1_000, every_ms=5_000, rounds=2, control_seconds=3)


class Measured(msgspec.Struct):
    """What came of it."""

    creates_per_second: float
    late_ms: list[list[float]]
    """By interval."""
    cpu_us: list[float]
    """Of the daemon, for each fire, by interval."""
    resident_mb: list[float]


def fired(size: Size, port: int, daemon: Daemon) -> Measured:
    """Create them, let them fire, and see to it that each time came once."""
    ask_receiver(port, "/reset")
    creating_ms = size.schedules * 1_000 // CREATES_PER_SECOND
    start_ms = -(-(now_ms() + START_AHEAD_MS + creating_ms) // size.every_ms) * size.every_ms
    said = ask(
        "bench.schedule_callers",
        *("--key", daemon.key, "--url", f"http://127.0.0.1:{port}/fire", "--port", str(daemon.port)),
        *("--connections", str(CONNECTIONS), "--count", str(size.schedules)),
        *("--every-ms", str(size.every_ms), "--start-ms", str(start_ms)),
        seconds_max=900,
    )
    if said["refused"] or said["answers"] != size.schedules:
        raise RuntimeError(f"of {size.schedules} schedules {said['answers']} were made: {said['refused']}")
    # If creating took longer, what fires meanwhile is not measured.
    first_ms = start_ms
    while first_ms < now_ms():
        first_ms += size.every_ms
    first_ms += size.every_ms
    cpu: list[float] = []
    resident: list[float] = []
    for number in range(size.rounds + 1):
        time.sleep(max(0, first_ms + number * size.every_ms - now_ms()) / 1_000)
        cpu.append(daemon.cpu_seconds)
        resident.append(daemon.resident_mb)
    time.sleep(SETTLE_SECONDS)
    nominals = [first_ms + number * size.every_ms for number in range(size.rounds)]
    late = lateness(ask_receiver(port, "/fires"), nominals, size)
    per_fire = [(after - before) * 1e6 / size.schedules for before, after in pairwise(cpu)]
    return Measured(per_second(size.schedules, said["seconds"]), late, per_fire, resident)


def lateness(fires: list[tuple[str, int, int]], nominals: list[int], size: Size) -> list[list[float]]:
    """How late each fire of these nominal times was (ms); it is an error if one came twice.

    One that did not come is missing from the rate: the one before it was still under way.
    """
    rule = Rule(every_ms=size.every_ms)
    seen: Counter[tuple[str, int]] = Counter()
    found: defaultdict[int, list[float]] = defaultdict(list)
    for schedule, nominal_at, at_us in fires:
        seen[schedule, nominal_at] += 1
        due = due_at(rule, parse("sch", schedule), nominal_at, size.every_ms)
        found[nominal_at].append(at_us / 1_000 - due)
    twice = [one for one, times in seen.items() if times > 1]
    if twice:
        raise RuntimeError(f"{len(twice)} fires came twice, the first of them {twice[0]}")
    return [found[at] for at in nominals]


def single(size: Size, port: int, daemon: Daemon) -> tuple[list[float], float]:
    """How late single tasks are at the same rate, and what each costs the daemon (µs)."""
    ask_receiver(port, "/reset")
    count = int(size.rate * size.control_seconds)
    first_ms = now_ms() + 4_000 + count // 5
    daemon.create(f"http://127.0.0.1:{port}/late", [first_ms + int(n * 1_000 / size.rate) for n in range(count)])
    if now_ms() > first_ms - 500:
        raise RuntimeError("creating the tasks took so long that the first are due")
    time.sleep(max(0, first_ms - now_ms()) / 1_000)
    spent = daemon.cpu_seconds
    time.sleep(size.control_seconds)
    late = late_ms(port, count)
    return late, (daemon.cpu_seconds - spent) * 1e6 / count


def bare(size: Size, port: int) -> list[float]:
    """How late a bare timer is at the same rate."""
    ask_receiver(port, "/reset")
    rate = int(size.rate)
    ask(
        "bench.limit_timer",
        *("--url", f"http://127.0.0.1:{port}/late", "--ahead-ms", "1000"),
        *("--per-second", str(rate), "--seconds", str(size.control_seconds)),
        seconds_max=size.control_seconds + 60,
    )
    return late_ms(port, rate * size.control_seconds)


def stages(folder: Path, size: Size) -> list[Figure]:
    """Processor time of each stage by itself, on a store of its own."""
    count = min(size.schedules, STAGED)
    folder.mkdir()
    said = ask(
        "bench.schedule_stages",
        *("--folder", str(folder), "--schedules", str(count), "--fires", str(count)),
        seconds_max=300,
    )
    return [Figure(f"processor of the store alone: {stage}", "µs", (spent,)) for stage, spent in said.items()]


def asked(folder: Path, size: Size, store: str | None = None) -> list[Figure]:
    """The question, at a size."""
    with child("bench.receiver") as receiver:
        port = receiver["port"]
        with running(folder / "many", store) as daemon:
            measured = fired(size, port, daemon)
        with running(folder / "single") as daemon:
            late_single, cpu_single = single(size, port, daemon)
        late_bare = bare(size, port)
    figures = _figures(size, measured)
    figures += [
        _late("single tasks at the same rate", late_single),
        _late("limit: bare timer at the same rate", late_bare),
        Figure("processor per fire, single tasks", "µs", (cpu_single,)),
    ]
    ours = figures[1]
    shares = tuple(one / cpu_single for one in ours.rounds)
    figures.append(Figure("processor, a schedule's fire to a single task", "×", shares))
    return figures + stages(folder / "stages", size)


def _late(name: str, late: list[float]) -> Figure:
    return Figure(f"late p99, {name}", "ms", (percentile(late, 0.99),))


def _figures(size: Size, measured: Measured) -> list[Figure]:
    seconds = size.every_ms / 1_000
    rates = tuple(len(one) / seconds for one in measured.late_ms)
    medians, tails = ([percentile(one, part) for one in measured.late_ms] for part in (0.5, 0.99))
    return [
        Figure(f"fires, {size.schedules:,} schedules, by interval", "/s", rates, at_least(size.rate * RATE_SHARE_MIN)),
        Figure("processor per fire, all of the daemon", "µs", tuple(measured.cpu_us)),
        Figure("late p50, by interval", "ms", tuple(medians)),
        Figure("late p99, by interval", "ms", tuple(tails), at_most(TARGET_LATE_MS)),
        Figure("late at most, by interval", "ms", tuple(max(one) for one in measured.late_ms)),
        Figure("early, of all", "", (float(sum(late < 0 for one in measured.late_ms for late in one)),), at_most(0)),
        Figure("late p99, the last interval to the first", "×", (tails[-1] / tails[0],)),
        Figure("memory, by interval", "MB", tuple(measured.resident_mb)),
        Figure("schedules created, one a call", "/s", (measured.creates_per_second,)),
    ]


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, on SQLite."""
    return asked(folder, QUICK if quick else Size())


def main() -> int:
    """Measure at another size, or on a PostgreSQL."""
    whole = Size()
    arguments = argparse.ArgumentParser(prog="bench.schedules", description=__doc__)
    arguments.add_argument("--schedules", type=int, default=whole.schedules)
    arguments.add_argument("--every-ms", type=int, default=whole.every_ms)
    arguments.add_argument("--rounds", type=int, default=whole.rounds, help="intervals measured, after the first")
    arguments.add_argument("--control-seconds", type=int, default=whole.control_seconds)
    arguments.add_argument("--store", metavar="URL", help="an empty database of a PostgreSQL; without it, SQLite")
    given = arguments.parse_args()
    size = Size(given.schedules, given.every_ms, given.rounds, given.control_seconds)
    with tempfile.TemporaryDirectory(prefix="tasktick-bench-schedules-") as folder:
        sys.stdout.write(table("schedules", asked(Path(folder), size, given.store)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
