"""Whether a fire costs the same beside much else: tasks that are pending or have finished, and many tenants.

Each is measured beside a store with next to nothing in it, the two alternating: how many go out a second when many are
due at once, what each costs the daemon's processor, and how late they are at a steady pace.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.boot import FAR_SPAN_MS, TARGET_URL
from bench.daemon import Ledger, running
from bench.figures import Figure, at_least, at_most, per_second, percentile, ratio
from bench.fire import LOOK_SECONDS, SECONDS_MAX, fire
from bench.lateness import steady
from bench.processes import child
from bench.receiver import ask_receiver
from bench.stock import fill, finish
from bench.tasks import NEXT_YEAR_MS, now_ms

ROUNDS = 3
FIRES = 10_000
FEW, MANY = 10_000, 1_000_000
TENANTS = 10_000
PER_SECOND, SECONDS = 200, 5
WITHIN = 0.8
# Time for a start of the daemon before what is due at once.
AHEAD_MS = 8_000


def stocked(folder: Path, count: int, *, finished: bool = False) -> Path:
    """A store with so many tasks due next year, or finished."""
    with running(folder) as daemon:
        daemon.create(TARGET_URL, [now_ms() + NEXT_YEAR_MS])
    fill(folder, count, now_ms() + NEXT_YEAR_MS, FAR_SPAN_MS)
    if finished:
        finish(folder)
    return folder


def fire_of_tenants(folder: Path, port: int, count: int, tenants: int) -> tuple[float, float]:
    """Seconds and processor seconds until tasks of so many tenants, all due at once, have gone out.

    Every tenant has had a task before: with its first one it is given a secret to sign with.
    """
    _due(folder, port, tenants, tenants, ahead_ms=0)
    with running(folder):
        _until(folder, tenants)
    ask_receiver(port, "/reset")
    due_ms = _due(folder, port, count, tenants, AHEAD_MS)
    with running(folder) as daemon:
        left_ms = due_ms - now_ms()
        if left_ms < 500:
            raise RuntimeError("the start took so long that the tasks are due: give them more time")
        time.sleep(left_ms / 1_000 - 0.05)
        spent = daemon.cpu_seconds
        _until(folder, tenants + count)
        seconds, cpu_seconds = (now_ms() - due_ms) / 1_000, daemon.cpu_seconds - spent
    if ask_receiver(port, "/hits")["distinct"] != count:
        raise RuntimeError("not every task has arrived")
    return seconds, cpu_seconds


def _due(folder: Path, port: int, count: int, tenants: int, ahead_ms: int) -> int:
    """So many tasks that are due then."""
    with running(folder) as daemon:
        daemon.create(f"http://127.0.0.1:{port}/fire", [now_ms() + NEXT_YEAR_MS])
    due_ms = now_ms() + ahead_ms
    fill(folder, count, due_ms, 0, tenants)
    return due_ms


def _until(folder: Path, count: int) -> None:
    """Wait until so many have succeeded."""
    ledger, give_up_ms = Ledger(folder), now_ms() + SECONDS_MAX * 1_000
    try:
        while ledger.succeeded() < count:
            if now_ms() > give_up_ms:
                raise RuntimeError(f"of {count:,} tasks {ledger.succeeded():,} have succeeded")
            time.sleep(LOOK_SECONDS)
    finally:
        ledger.close()


class _Beside:
    """What was measured of one kind of store."""

    def __init__(self, name: str, once: Callable[[int], tuple[float, float, float]]) -> None:
        self.name = name
        self._once = once
        self.rates: list[float] = []
        self.cpu_us: list[float] = []
        self.late_ms: list[float] = []

    def round(self, number: int) -> None:
        """Measure once."""
        rate, cpu_us, late_ms = self._once(number)
        self.rates.append(rate)
        self.cpu_us.append(cpu_us)
        self.late_ms.append(late_ms)


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, each kind beside the smallest."""
    rounds, scale = (1, 10) if quick else (ROUNDS, 1)
    fires, many, tenants = FIRES // scale, MANY // scale, TENANTS // scale
    with child("bench.receiver") as receiver:
        port = receiver["port"]

        def beside(stock: Path) -> Callable[[int], tuple[float, float, float]]:
            def once(number: int) -> tuple[float, float, float]:
                place = folder / f"{stock.name}-{number}"
                shutil.copytree(stock, place)
                seconds, cpu_seconds = fire(place, port, fires)
                with running(place) as daemon:
                    late = percentile(steady(daemon, port, PER_SECOND, SECONDS // (2 if quick else 1)), 0.99)
                shutil.rmtree(place)
                return per_second(fires, seconds), cpu_seconds / fires * 1e6, late

            return once

        def of_tenants(count: int) -> Callable[[int], tuple[float, float, float]]:
            def once(number: int) -> tuple[float, float, float]:
                place = folder / f"tenants-{count}-{number}"
                seconds, cpu_seconds = fire_of_tenants(place, port, fires, count)
                shutil.rmtree(place)
                return per_second(fires, seconds), cpu_seconds / fires * 1e6, 0.0

            return once

        few = _Beside(f"{FEW // scale:,} pending", beside(stocked(folder / "few", FEW // scale)))
        kinds = [
            _Beside(f"{many:,} pending", beside(stocked(folder / "many", many))),
            _Beside(f"{many:,} finished", beside(stocked(folder / "finished", many, finished=True))),
        ]
        one = _Beside("one tenant", of_tenants(1))
        all_of_them = _Beside(f"{tenants:,} tenants", of_tenants(tenants))
        for number in range(rounds):
            for kind in (few, *kinds, one, all_of_them):
                kind.round(number)
    return [
        *_figures(few, kinds, with_lateness=True),
        *_figures(one, [all_of_them], with_lateness=False),
    ]


def _figures(base: _Beside, others: list[_Beside], *, with_lateness: bool) -> list[Figure]:
    found: list[Figure] = []
    limit = Figure(f"fires beside {base.name}", "/s", tuple(base.rates))
    found += [limit, Figure(f"processor per fire beside {base.name}", "µs", tuple(base.cpu_us))]
    late = Figure(f"late at {PER_SECOND}/s beside {base.name}, p99", "ms", tuple(base.late_ms))
    if with_lateness:
        found.append(late)
    for other in others:
        ours = Figure(f"fires beside {other.name}", "/s", tuple(other.rates))
        found += [ours, ratio(f"{ours.name} to those beside {base.name}", ours, limit, at_least(WITHIN))]
        found.append(Figure(f"processor per fire beside {other.name}", "µs", tuple(other.cpu_us)))
        if with_lateness:
            most = at_most(max(median(base.late_ms) / WITHIN, median(base.late_ms) + 1))
            found.append(Figure(f"late at {PER_SECOND}/s beside {other.name}, p99", "ms", tuple(other.late_ms), most))
    return found
