"""How many tasks are accepted a second, each durable before its answer: one a call by few and by many callers, and in
bulk; on SQLite and on the newest PostgreSQL, each beside a bare handler in the same round."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.daemon import Daemon, running
from bench.figures import Figure, Target, at_least, at_most, per_second, ratio
from bench.processes import ask, child
from tests.postgres import installed, own_cluster

ROUNDS = 3
SECONDS = 4.0
WARM_SECONDS = 0.5
CALLERS = 32
CALLERS_MANY = 256
BULK_CALLERS = 2
BULK_TASKS = 1_000
STORES = ("SQLite", "PostgreSQL")
Rounds = dict[str, list[float]]


def call(port: int, key: str, seconds: float, *, bulk: bool = False, callers: int = CALLERS) -> dict[str, Any]:
    """What callers get done."""
    said = ask(
        "bench.callers",
        *("--port", str(port), "--key", key, "--seconds", str(seconds)),
        *("--path", "/v1/tasks/batch" if bulk else "/v1/tasks"),
        *("--connections", str(BULK_CALLERS if bulk else callers)),
        *("--tasks", str(BULK_TASKS if bulk else 1)),
    )
    if said["refused"]:
        raise RuntimeError(f"calls were refused: {said['refused']}")
    return said


def store(folder: Path, seconds: float, *, bulk: bool = False) -> float:
    """Rows a second of the SQLite store by itself."""
    said = ask(
        "bench.limit_store",
        *("--folder", str(folder), "--seconds", str(seconds)),
        *("--creators", str(BULK_CALLERS if bulk else CALLERS)),
        *("--per-call", str(BULK_TASKS if bulk else 1)),
    )
    return per_second(said["rows"], said["seconds"])


@contextmanager
def served(kind: str, folder: Path) -> Iterator[Daemon]:
    """A daemon on a store of this kind."""
    if kind == "SQLite":
        with running(folder) as daemon:
            yield daemon
        return
    with own_cluster(max(installed())) as server, running(folder, asyncio.run(server.new_database())) as daemon:
        yield daemon


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question; without a PostgreSQL on this machine, on SQLite alone."""
    seconds, rounds = (1.0, 1) if quick else (SECONDS, ROUNDS)
    kinds = [kind for kind in STORES if kind == "SQLite" or installed()]
    found: Rounds = {}
    with child("bench.limit_server") as server:
        for number in range(rounds):
            note(found, "store", store(folder / f"store-{number}", seconds))
            note(found, "bulk store", store(folder / f"bulk-{number}", seconds, bulk=True))
            for kind in kinds:
                for callers in (CALLERS, CALLERS_MANY):
                    bare = call(server["port"], "none", seconds, callers=callers)
                    note(found, f"{kind} handler {callers}", per_second(bare["answers"], bare["seconds"]))
                with served(kind, folder / f"{kind}-{number}") as daemon:
                    _round(kind, daemon, seconds, found)
    return [*_limits(found), *(figure for kind in kinds for figure in _figures(kind, found))]


def note(found: Rounds, name: str, value: float) -> None:
    """One round's figure."""
    found.setdefault(name, []).append(value)


def _round(kind: str, daemon: Daemon, seconds: float, found: Rounds) -> None:
    made = call(daemon.port, daemon.key, WARM_SECONDS)["answers"]
    for callers in (CALLERS, CALLERS_MANY):
        spent = daemon.cpu_seconds
        said = call(daemon.port, daemon.key, seconds, callers=callers)
        note(found, f"{kind} cpu {callers}", (daemon.cpu_seconds - spent) / said["answers"] * 1e6)
        note(found, f"{kind} single {callers}", per_second(said["answers"], said["seconds"]))
        note(found, f"{kind} p99 {callers}", said["p99_ms"])
        made += said["answers"]
    spent = daemon.cpu_seconds
    bulk = call(daemon.port, daemon.key, seconds, bulk=True)
    count = bulk["answers"] * BULK_TASKS
    note(found, f"{kind} cpu bulk", (daemon.cpu_seconds - spent) / count * 1e6)
    note(found, f"{kind} bulk", per_second(count, bulk["seconds"]))
    if (there := daemon.scheduled()) != made + count:
        raise RuntimeError(f"{made + count} tasks were acknowledged, {there} are there")


def _limits(found: Rounds) -> list[Figure]:
    return [
        Figure(f"limit: bare group commit of SQLite, {CALLERS} creators", "/s", tuple(found["store"])),
        Figure(f"limit: bare store on SQLite, {BULK_TASKS:,} a call", "/s", tuple(found["bulk store"])),
    ]


def _figures(kind: str, found: Rounds) -> list[Figure]:
    figures = []
    for callers, target in ((CALLERS, at_least(0.45)), (CALLERS_MANY, None)):
        figures += _singles(kind, callers, found, target)
    bulk = Figure(f"{kind}: created {BULK_TASKS:,} a call, {BULK_CALLERS} callers", "/s", tuple(found[f"{kind} bulk"]))
    cost = Figure(f"{kind}: in bulk, processor of the daemon a task", "µs", tuple(found[f"{kind} cpu bulk"]))
    return [*figures, bulk, cost]


def _singles(kind: str, callers: int, found: Rounds, target: Target | None) -> list[Figure]:
    single = Figure(f"{kind}: created one a call, {callers} callers", "/s", tuple(found[f"{kind} single {callers}"]))
    handler = Figure(
        f"limit: bare aiohttp.web handler, {callers} callers", "/s", tuple(found[f"{kind} handler {callers}"])
    )
    return [
        single,
        handler,
        ratio(f"{kind}: one a call to the bare handler, {callers} callers", single, handler, target),
        Figure(
            f"{kind}: p99 of the answer, {callers} callers",
            "ms",
            tuple(found[f"{kind} p99 {callers}"]),
            at_most(50) if callers == CALLERS else None,
        ),
        Figure(f"{kind}: processor of the daemon, {callers} callers", "µs", tuple(found[f"{kind} cpu {callers}"])),
    ]
