"""Whether a fire costs the same beside much else: what is pending, has finished, tenants, schedules of one second.

Each is measured beside the smallest of its kind, all of them in each round: how many go out a second when many are due
at once, what each costs the daemon's processor, and how late they are at a steady pace. On SQLite and on PostgreSQL
(`python -m bench.flat SQLite` asks one of them). With that of schedules: how late they are, by how many are due in one
second (`flat_schedules`; `--schedules` asks that alone).
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from bench import flat_schedules
from bench.boot import FAR_SPAN_MS
from bench.daemon import Ledger, ServerLedger, running
from bench.figures import Figure, Target, at_least, at_most, per_second, percentile, ratio, table
from bench.fire import LOOK_SECONDS, SECONDS_MAX, fire
from bench.lateness import late_ms, steady
from bench.places import KINDS, TARGET_URL, Place, Places, kinds, places
from bench.processes import child
from bench.receiver import ask_receiver
from bench.tasks import NEXT_YEAR_MS, now_ms

WITHIN = 0.8
LATE_MORE_MS = 1.0


class Size(msgspec.Struct, frozen=True):
    """How much is measured."""

    rounds: int = 3
    fires: int = 10_000
    pending: tuple[int, ...] = (10_000, 1_000_000, 10_000_000)
    finished: int = 10_000_000
    tenants: int = 10_000
    per_second: int = 500
    seconds: int = 5
    ahead_ms: int = 15_000
    """Time for a start of the daemon."""
    apart_ms: int = 8_000
    """What is due at once is to have gone out before what is due evenly."""


QUICK = Size(1, 2_000, (1_000, 50_000), 50_000, 1_000, 200, 2, 12_000, 4_000)


class Once(msgspec.Struct, frozen=True):
    """What one measurement gave."""

    rate: float
    cpu_us: float
    late_ms: list[float]
    server_us: float = 0.0
    """Of the database's processes, a fire."""


class Beside:
    """What was measured beside one thing."""

    def __init__(self, name: str, once: Callable[[int], Once]) -> None:
        self.name = name
        self._once = once
        self.found: list[Once] = []

    def round(self, number: int) -> None:
        """Measure once."""
        self.found.append(self._once(number))

    def late(self, part: float) -> tuple[float, ...]:
        """How late, by round."""
        return tuple(percentile(one.late_ms, part) for one in self.found)


def in_place(place: Place, port: int, size: Size) -> Callable[[int], Once]:
    """Measured in a store that is there; what has fired stays, and is little beside it."""

    def once(number: int) -> Once:
        del number
        fired = fire(place, port, size.fires)
        with running(place.data, place.store) as daemon:
            late = steady(daemon, port, size.per_second, size.seconds)
        daemon_us, server_us = (spent / size.fires * 1e6 for spent in (fired.cpu_seconds, fired.server_seconds))
        return Once(per_second(size.fires, fired.seconds), daemon_us, late, server_us)

    return once


def of_tenants(made: Places, port: int, tenants: int, size: Size) -> Callable[[int], Once]:
    """Measured in a new store, with tasks of so many tenants."""

    def once(number: int) -> Once:
        place = made.new(f"tenants-{tenants}-{number}")
        found = _once_of_tenants(place, f"http://127.0.0.1:{port}/fire", port, tenants, size)
        shutil.rmtree(place.data)
        return found

    return once


def _once_of_tenants(place: Place, url: str, port: int, tenants: int, size: Size) -> Once:
    """Every tenant has had a task before: with its first one it is given a secret to sign with."""
    place.fill(url, tenants, now_ms(), 0, tenants)
    with running(place.data, place.store):
        _until(place, lambda ledger: ledger.succeeded() == tenants)
    due_ms = now_ms() + size.ahead_ms
    place.fill(url, size.fires, due_ms, 0, tenants)
    count = size.per_second * size.seconds
    evenly_ms = due_ms + size.apart_ms
    place.fill(url, count, evenly_ms, size.seconds * 1_000, tenants)
    with running(place.data, place.store) as daemon:
        if now_ms() > due_ms - 500:
            raise RuntimeError("the start took so long that the tasks are due: give them more time")
        ask_receiver(port, "/reset")
        time.sleep((due_ms - now_ms()) / 1_000 - 0.05)
        spent = daemon.cpu_seconds
        _until_sent(port, size.fires)
        _until(place, lambda ledger: not ledger.running())
        took, cpu_seconds = (now_ms() - due_ms) / 1_000, daemon.cpu_seconds - spent
        _until(place, lambda ledger: ledger.succeeded() == tenants + size.fires)
        if ask_receiver(port, "/hits")["distinct"] != size.fires or now_ms() > evenly_ms - 500:
            raise RuntimeError("not every task has arrived, or not in time")
        ask_receiver(port, "/reset")
        time.sleep((evenly_ms - now_ms()) / 1_000 + size.seconds)
        return Once(per_second(size.fires, took), cpu_seconds / size.fires * 1e6, late_ms(port, count))


def _until_sent(port: int, count: int) -> None:
    """Wait until so many have arrived: to add up the counts of 10,000 tenants all the time is work."""
    give_up_ms = now_ms() + SECONDS_MAX * 1_000
    while ask_receiver(port, "/hits")["distinct"] < count:
        if now_ms() > give_up_ms:
            raise RuntimeError(f"not all of {count:,} tasks have arrived")
        time.sleep(LOOK_SECONDS)


def _until(place: Place, is_so: Callable[[Ledger | ServerLedger], bool]) -> None:
    """Wait until the store says so."""
    ledger, give_up_ms = place.ledger(), now_ms() + SECONDS_MAX * 1_000
    try:
        while not is_so(ledger):
            if now_ms() > give_up_ms:
                raise RuntimeError(f"{ledger.running():,} tasks run, and {ledger.succeeded():,} have succeeded")
            time.sleep(LOOK_SECONDS)
    finally:
        ledger.close()


def on(kind: str, folder: Path, port: int, size: Size) -> list[Figure]:
    """Asked of one kind of store."""
    with places(kind, folder) as made:
        pending = []
        for count in size.pending:
            place = made.new(f"pending-{count}")
            place.fill(TARGET_URL, count, now_ms() + NEXT_YEAR_MS, FAR_SPAN_MS)
            pending.append(Beside(f"{count:,} pending", in_place(place, port, size)))
        place = made.new("finished")
        place.fill_finished(size.finished)
        finished = Beside(f"{size.finished:,} finished", in_place(place, port, size))
        one = Beside("one tenant", of_tenants(made, port, 1, size))
        many = Beside(f"{size.tenants:,} tenants", of_tenants(made, port, size.tenants, size))
        for number in range(size.rounds):
            for beside in (*pending, finished, one, many):
                beside.round(number)
    return [*_figures(kind, pending[0], [*pending[1:], finished], size), *_figures(kind, one, [many], size)]


def _figures(kind: str, base: Beside, others: list[Beside], size: Size) -> list[Figure]:
    figures: list[Figure] = []
    limit = Figure(f"{kind}: fires beside {base.name}", "/s", tuple(one.rate for one in base.found))
    for beside in (base, *others):
        ours = Figure(f"{kind}: fires beside {beside.name}", "/s", tuple(one.rate for one in beside.found))
        figures.append(ours)
        if beside is not base:
            figures.append(ratio(f"{ours.name} to {base.name}", ours, limit, at_least(WITHIN)))
        cost = tuple(one.cpu_us for one in beside.found)
        figures.append(Figure(f"{kind}: processor per fire beside {beside.name}", "µs", cost))
        if any(one.server_us for one in beside.found):
            cost = tuple(one.server_us for one in beside.found)
            figures.append(Figure(f"{kind}: of the database, beside {beside.name}", "µs", cost))
        for part, name in ((0.5, "p50"), (0.99, "p99")):
            target = None if beside is base else no_later_than(base.late(part))
            title = f"{kind}: late at {size.per_second}/s beside {beside.name}, {name}"
            figures.append(Figure(title, "ms", beside.late(part), target))
    return figures


def no_later_than(base_ms: tuple[float, ...]) -> Target:
    """Within so much of the base's; of what is under a few milliseconds a part would be noise."""
    return at_most(max(median(base_ms) / WITHIN, median(base_ms) + LATE_MORE_MS))


def asked(folder: Path, size: Size, stores: list[str]) -> list[Figure]:
    """The question, of these kinds of stores."""
    with child("bench.receiver") as receiver:
        port = receiver["port"]
        return [figure for kind in stores for figure in on(kind, folder, port, size)]


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, and that about schedules."""
    figures = asked(folder, QUICK if quick else Size(), kinds())
    return [*figures, *flat_schedules.measure(folder / "schedules", quick)]


def main() -> int:
    """Measure one kind of store, or at another size."""
    whole = Size()
    arguments = argparse.ArgumentParser(prog="bench.flat", description=__doc__)
    arguments.add_argument("stores", nargs="+", choices=KINDS)
    arguments.add_argument("--rounds", type=int, default=whole.rounds)
    arguments.add_argument("--pending", type=int, nargs="+", default=list(whole.pending))
    arguments.add_argument("--finished", type=int, default=whole.finished)
    arguments.add_argument(
        "--schedules", action="store_true", help="those that are due in one second, and nothing else"
    )
    given = arguments.parse_args()
    size = Size(rounds=given.rounds, pending=tuple(given.pending), finished=given.finished)
    with tempfile.TemporaryDirectory(prefix="tasktick-bench-flat-") as folder:
        if given.schedules:
            counts, groups = flat_schedules.COUNTS, flat_schedules.GROUPS
            figures = flat_schedules.asked(Path(folder), given.stores, counts, given.rounds, groups)
        else:
            figures = asked(Path(folder), size, given.stores)
        sys.stdout.write(table("flat", figures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
