"""One, two and four nodes on one database, under the same load: tasks that are due evenly, and a burst at once.

All of them, the server and the receiver share this machine's cores, so more nodes are not more machine here. What is
asked is whether they share the work in equal parts, whether each task goes out once, and what that costs: the daemons
together, and the server.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench import processes
from bench.daemon import Daemon, ServerLedger
from bench.figures import Figure, at_most, per_second, percentile, ratio
from bench.lateness import late_ms
from bench.places import Place, places
from bench.processes import child, cpu_seconds_of_all
from bench.receiver import ask_receiver
from bench.tasks import now_ms
from tasktick.model.ids import PARTITIONS

ROUNDS = 3
COUNTS = (1, 2, 4)
EVEN_PER_SECOND, EVEN_SECONDS = 200, 8
BURST = 20_000
AHEAD_MS = 4_000
SETTLE_SECONDS_MAX = 90
LOOK_SECONDS = 0.1
SHARED = ("vault.key", "operator.key")


@contextmanager
def ring(folder: Path, store: str, count: int) -> Iterator[list[Daemon]]:
    """So many nodes, each with its share of the partitions."""
    daemons: list[Daemon] = []
    try:
        for number in range(count):
            data = folder / f"node-{number}"
            data.mkdir(parents=True, mode=0o700)
            for name in SHARED if daemons else ():
                shutil.copy(daemons[0].data / name, data / name)
            daemons.append(Daemon(data, store, "--node", f"node-{number}"))
            daemons[-1].wait_until_ready()
        _until_shared(daemons[0], count)
        yield daemons
    finally:
        for one in daemons:
            processes.end(one.process)


def shares(daemon: Daemon) -> list[int]:
    """How many partitions each node owns."""
    status, answer = daemon.call("GET", "/v1/cluster")
    if status != 200:
        raise RuntimeError(f"the cluster was not told of: {status} {answer[:300]!r}")
    return [one["partitions"] for one in msgspec.json.decode(answer)["nodes"] if one["state"] == "live"]


def _until_shared(daemon: Daemon, count: int) -> None:
    """Wait until every partition is owned, and each node has its part, give or take a third."""
    until = time.perf_counter() + SETTLE_SECONDS_MAX
    while True:
        found = shares(daemon)
        if len(found) == count and sum(found) == PARTITIONS and min(found) > PARTITIONS / count * 0.66:
            return
        if time.perf_counter() > until:
            raise RuntimeError(f"{count} nodes have {found} partitions")
        time.sleep(LOOK_SECONDS)


def _even(daemon: Daemon, port: int, seconds: int) -> list[float]:
    """How late tasks are that are due evenly, in ms."""
    ask_receiver(port, "/reset")
    count = EVEN_PER_SECOND * seconds
    first_ms = now_ms() + AHEAD_MS
    daemon.create(f"http://127.0.0.1:{port}/even", [first_ms + n * 1_000 // EVEN_PER_SECOND for n in range(count)])
    time.sleep(max(0, first_ms - now_ms()) / 1_000 + seconds)
    return late_ms(port, count)


def _burst(
    daemon: Daemon, store: str, port: int, count: int, cost: Callable[[], tuple[float, float]]
) -> tuple[float, float, float]:
    """Tasks a second when all are due at once, until the last is recorded; and what each cost (µs), as is told."""
    ask_receiver(port, "/reset")
    ledger = ServerLedger(store)
    try:
        before = ledger.succeeded()
        due_ms = now_ms() + AHEAD_MS + count // 4
        daemon.create(f"http://127.0.0.1:{port}/burst", [due_ms] * count)
        if now_ms() > due_ms - 500:
            raise RuntimeError("creating the tasks took so long that they are due: give them more time")
        time.sleep((due_ms - now_ms()) / 1_000 - 0.05)
        spent = cost()
        while ledger.succeeded() < before + count:
            if now_ms() > due_ms + SETTLE_SECONDS_MAX * 1_000:
                raise RuntimeError(f"of {count} tasks {ledger.succeeded() - before} are recorded")
            time.sleep(LOOK_SECONDS / 5)
        took = (now_ms() - due_ms) / 1_000
        daemons, server = ((after - before) / count * 1e6 for after, before in zip(cost(), spent, strict=True))
        said = ask_receiver(port, "/hits")
        if (said["hits"], said["distinct"]) != (count, count):
            raise RuntimeError(f"of {count} tasks there were {said}")
        return per_second(count, took), daemons, server
    finally:
        ledger.close()


def _round(place: Place, port: int, count: int, seconds: int, burst: int) -> dict[str, float]:
    assert place.store is not None
    assert place.server_pid is not None
    server_pid = place.server_pid
    with ring(place.data, place.store, count) as daemons:
        late = _even(daemons[0], port, seconds)

        def cost() -> tuple[float, float]:
            return sum(one.cpu_seconds for one in daemons), cpu_seconds_of_all(server_pid)

        rate, of_daemons, of_server = _burst(daemons[0], place.store, port, burst, cost)
        parts = shares(daemons[0])
    return {
        "rate": rate,
        "p50": percentile(late, 0.5),
        "p99": percentile(late, 0.99),
        "daemons": of_daemons,
        "server": of_server,
        "largest": max(parts) / PARTITIONS * count,
    }


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, with so many nodes in turn."""
    rounds, seconds, burst = (1, 3, BURST // 5) if quick else (ROUNDS, EVEN_SECONDS, BURST)
    found: dict[int, list[dict[str, float]]] = {count: [] for count in COUNTS}
    with child("bench.receiver") as receiver:
        for number in range(rounds):
            for count in COUNTS:
                with places("PostgreSQL", folder / f"{number}-{count}") as made:
                    found[count].append(_round(made.new("nodes"), receiver["port"], count, seconds, burst))

    def of(key: str, count: int) -> tuple[float, ...]:
        return tuple(one[key] for one in found[count])

    rates = [Figure(f"{burst:,} due at once, {count} node(s)", "/s", of("rate", count)) for count in COUNTS]
    figures = [*rates, *(ratio(f"{figure.name} to one", figure, rates[0]) for figure in rates[1:])]
    for key, part in (("p50", "p50"), ("p99", "p99")):
        for count in COUNTS:
            title = f"late at {EVEN_PER_SECOND}/s, {part}, {count} node(s)"
            figures.append(Figure(title, "ms", of(key, count), at_most(1_000) if part == "p99" else None))
    for who, title in (("daemons", "all daemons"), ("server", "the database")):
        figures += [Figure(f"processor per fire, {title}, {count} node(s)", "µs", of(who, count)) for count in COUNTS]
    figures += [
        Figure(f"largest share to an equal one, {count} nodes", "×", of("largest", count), at_most(1.34))
        for count in COUNTS[1:]
    ]
    return figures
