"""How many tasks that are due at once go out a second: claimed, signed, delivered and recorded, durably.

The clock runs from the instant at which they are due until the last one is recorded in the store; the limit's
from its first request to its last answer. On SQLite and on PostgreSQL, which shares the machine's cores with the
daemon: what each fire costs is told by the daemon's threads, and of the server's processes. Then what each stage of it
costs by itself (`fire_stages`).
"""

import time
from collections import defaultdict
from pathlib import Path

import msgspec

from bench import fire_stages, processes
from bench.daemon import Daemon, running
from bench.figures import Figure, at_least, at_most, per_second, ratio
from bench.places import Place, kinds, places
from bench.processes import ask, child
from bench.receiver import ask_receiver
from bench.tasks import now_ms

TASKS = 20_000
# Time to create them all.
AHEAD_MS, CREATED_PER_MS = 3_000, 4
ROUNDS = 3
WIDE, NARROW = 256, 64
SECONDS_MAX = 60
LOOK_SECONDS, NEAR_LOOK_SECONDS = 0.02, 0.005
# What is read before anything is due counts too.
AHEAD_SECONDS = 2.5
# A rate and a price are those of a machine: what they should come to is asked of their ratios to the bare client's in
# the same run. On the machine of the targets it did 26,000 posts a second at 38 µs of processor; we may take 40 there.
CPU_RATIO = 40 / 38
LIMIT = "bare aiohttp client"


class Fired(msgspec.Struct, frozen=True):
    """What it took until all were recorded."""

    seconds: float
    loop_seconds: float
    """Processor time of the daemon's event loop."""
    other_seconds: float
    """Of its other threads: of a file, those of the store."""
    server_seconds: float
    """Of the database's processes."""

    @property
    def cpu_seconds(self) -> float:
        """Of the daemon."""
        return self.loop_seconds + self.other_seconds


def _spent(place: Place, daemon: Daemon) -> tuple[float, float, float]:
    server = 0.0 if place.server_pid is None else processes.cpu_seconds_of_all(place.server_pid)
    return (*processes.thread_seconds(daemon.process.pid), server)


def fire(place: Place, port: int, count: int) -> Fired:
    """Let so many be due at once; everything is checked."""
    ask_receiver(port, "/reset")
    with running(place.data, place.store) as daemon:
        ledger = place.ledger()
        try:
            before = ledger.succeeded(), *ledger.rows()
            due_ms = now_ms() + AHEAD_MS + count // CREATED_PER_MS
            daemon.create(f"http://127.0.0.1:{port}/fire", [due_ms] * count)
            left = (due_ms - now_ms()) / 1_000
            if left < AHEAD_SECONDS:
                raise RuntimeError("creating the tasks took so long that they are nearly due: give them more time")
            time.sleep(left - AHEAD_SECONDS)
            spent = _spent(place, daemon)
            wait_for_hits(port, due_ms, count)
            while (recorded := ledger.succeeded() - before[0]) < count and now_ms() < due_ms + SECONDS_MAX * 1_000:
                time.sleep(NEAR_LOOK_SECONDS)
            seconds = (now_ms() - due_ms) / 1_000
            costs = [after - earlier for after, earlier in zip(_spent(place, daemon), spent, strict=True)]
            said = ask_receiver(port, "/hits")
            tasks, attempts = ledger.rows()
            seen = (recorded, tasks - before[1], attempts - before[2], said["hits"], said["distinct"])
            if seen != (count,) * len(seen):
                raise RuntimeError(f"of {count}, counted, rows, attempts, hits, distinct hits are {seen}")
            return Fired(seconds, *costs)
        finally:
            ledger.close()


def wait_for_hits(port: int, due_ms: int, count: int) -> None:
    """Wait for so many, who are due then, asking little: what asks takes from what is measured."""
    time.sleep(max(0.0, (due_ms - now_ms()) / 1_000))
    give_up_ms = due_ms + SECONDS_MAX * 1_000
    while (hits := ask_receiver(port, "/count")) < count and now_ms() < give_up_ms:
        time.sleep(LOOK_SECONDS if hits < count * 0.9 else NEAR_LOOK_SECONDS)


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, beside the bare client."""
    count = TASKS // 4 if quick else TASKS
    limits: defaultdict[int, list[float]] = defaultdict(list)
    limit_cpu: list[float] = []
    found: defaultdict[str, list[Fired]] = defaultdict(list)
    with child("bench.receiver") as receiver:
        port = receiver["port"]
        for number in range(1 if quick else ROUNDS):
            for connections in (WIDE, NARROW):
                said = ask(
                    "bench.limit_client",
                    *("--url", f"http://127.0.0.1:{port}/fire"),
                    *("--count", str(count), "--connections", str(connections)),
                )
                limits[connections].append(per_second(count, said["seconds"]))
                if connections == NARROW:
                    limit_cpu.append(said["cpu_seconds"] / count * 1e6)
            for kind in kinds():
                with places(kind, folder / str(number)) as made:
                    found[kind].append(fire(made.new("fire"), port, count))
    best = Figure(f"limit: {LIMIT}, the better of both", "/s", tuple(map(max, *limits.values())))
    wide, narrow = (
        Figure(f"limit: {LIMIT}, {connections} connections", "/s", tuple(limits[connections]))
        for connections in (WIDE, NARROW)
    )
    post = Figure(f"processor per post, {LIMIT}", "µs", tuple(limit_cpu))
    figures = [wide, narrow, best, post]
    for kind, fires in found.items():
        figures += _figures(kind, count, fires, best, post)
    return figures + [
        msgspec.structs.replace(figure, name=f"SQLite, by stage: {figure.name}")
        for figure in fire_stages.measure(folder / "stages", quick)
    ]


def _figures(kind: str, count: int, fires: list[Fired], limit: Figure, post: Figure) -> list[Figure]:
    rates = tuple(per_second(count, one.seconds) for one in fires)
    ours = Figure(f"{kind}: fires, all recorded", "/s", rates)
    costs = {
        "all of the daemon": tuple(one.cpu_seconds for one in fires),
        "the event loop": tuple(one.loop_seconds for one in fires),
        "other threads": tuple(one.other_seconds for one in fires),
    }
    if kind != "SQLite":
        costs["the database"] = tuple(one.server_seconds for one in fires)
    priced = {
        who: Figure(f"{kind}: processor per fire, {who}", "µs", tuple(one / count * 1e6 for one in seconds))
        for who, seconds in costs.items()
    }
    return [
        ours,
        ratio(f"{kind}: fires to the bare client", ours, limit, at_least(0.9)),
        ratio(f"{kind}: processor per fire to a bare post's", priced["all of the daemon"], post, at_most(CPU_RATIO)),
        *priced.values(),
    ]
