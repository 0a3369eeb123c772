"""How many tasks are accepted a second, each durable before its answer: one a call by 32 callers, and in bulk."""

from pathlib import Path
from typing import Any

from bench.daemon import running
from bench.figures import Figure, at_least, at_most, per_second, ratio
from bench.processes import ask, child

ROUNDS = 3
SECONDS = 4.0
CALLERS = 32
BULK_CALLERS = 2
BULK_TASKS = 1_000


def call(port: int, key: str, seconds: float, *, bulk: bool = False) -> dict[str, Any]:
    """What callers get done."""
    said = ask(
        "bench.callers",
        *("--port", str(port), "--key", key, "--seconds", str(seconds)),
        *("--path", "/v1/tasks/batch" if bulk else "/v1/tasks"),
        *("--connections", str(BULK_CALLERS if bulk else CALLERS)),
        *("--tasks", str(BULK_TASKS if bulk else 1)),
    )
    if said["refused"]:
        raise RuntimeError(f"calls were refused: {said['refused']}")
    return said


def store(folder: Path, seconds: float, *, bulk: bool = False) -> float:
    """Rows a second of the store by itself."""
    said = ask(
        "bench.limit_store",
        *("--folder", str(folder), "--seconds", str(seconds)),
        *("--creators", str(BULK_CALLERS if bulk else CALLERS)),
        *("--per-call", str(BULK_TASKS if bulk else 1)),
    )
    return per_second(said["rows"], said["seconds"])


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, beside a bare handler and the bare store."""
    seconds, rounds = (1.0, 1) if quick else (SECONDS, ROUNDS)
    names = ("single", "p99", "handler", "store", "bulk", "bulk store", "cpu")
    found: dict[str, list[float]] = {name: [] for name in names}
    with child("bench.limit_server") as server:
        for number in range(rounds):
            bare = call(server["port"], "none", seconds)
            found["handler"].append(per_second(bare["answers"], bare["seconds"]))
            found["store"].append(store(folder / f"store-{number}", seconds))
            found["bulk store"].append(store(folder / f"bulk-{number}", seconds, bulk=True))
            with running(folder / f"create-{number}") as daemon:
                spent = daemon.cpu_seconds
                said = call(daemon.port, daemon.key, seconds)
                found["cpu"].append((daemon.cpu_seconds - spent) / said["answers"] * 1e6)
                found["single"].append(per_second(said["answers"], said["seconds"]))
                found["p99"].append(said["p99_ms"])
                bulk = call(daemon.port, daemon.key, seconds, bulk=True)
                found["bulk"].append(per_second(bulk["answers"] * BULK_TASKS, bulk["seconds"]))
                made = said["answers"] + bulk["answers"] * BULK_TASKS
                if (there := daemon.scheduled()) != made:
                    raise RuntimeError(f"{made} tasks were acknowledged, {there} are there")
    single = Figure(f"created one a call, {CALLERS} callers", "/s", tuple(found["single"]))
    handler = Figure("limit: bare aiohttp.web handler", "/s", tuple(found["handler"]))
    alone = Figure(f"limit: bare group commit, {CALLERS} creators", "/s", tuple(found["store"]))
    bulk_figure = Figure(f"created {BULK_TASKS:,} a call, {BULK_CALLERS} callers", "/s", tuple(found["bulk"]))
    bulk_alone = Figure(f"limit: bare store, {BULK_TASKS:,} a call", "/s", tuple(found["bulk store"]))
    return [
        single,
        handler,
        alone,
        ratio("one a call to the bare handler", single, handler, at_least(0.45)),
        ratio("one a call to the bare group commit", single, alone),
        Figure("one a call, p99 of the answer", "ms", tuple(found["p99"]), at_most(50)),
        Figure("one a call, processor of the daemon", "µs", tuple(found["cpu"])),
        bulk_figure,
        bulk_alone,
        ratio("in bulk to the bare store", bulk_figure, bulk_alone),
    ]
