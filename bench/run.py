"""Asks the questions, prints a table for each, and writes what was measured to `bench/results/`.

`python -m bench.run` asks all of them, `python -m bench.run fire create` these two; `--quick` measures once
and less, to see that everything works.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench import (
    arrays,
    boot,
    create,
    event_order,
    fire,
    fire_stages,
    flat,
    guard,
    idle,
    lateness,
    memory,
    move,
    nodes,
    postgres_claim,
    postgres_import,
    schedule_boot,
    schedules,
    sender,
    slow,
    written,
)
from bench.figures import Figure, as_record, table
from tasktick import __version__
from tasktick.built import is_compiled
from tasktick.store.connect import SQLITE_VERSION_TEXT

RESULTS = Path(__file__).parent / "results"
Measure = Callable[[Path, bool], list[Figure]]
QUESTIONS: dict[str, tuple[str, Measure]] = {
    "fire": ("fire: 20,000 tasks due at once", fire.measure),
    "sender": ("sender: one request, by the way it is sent", sender.measure),
    "stages": ("stages: what each stage of a fire costs by itself", fire_stages.measure),
    "lateness": ("lateness: from the due instant to the receiver", lateness.measure),
    "create": ("create: tasks accepted, durable each", create.measure),
    "postgres-claim": ("postgres-claim: beside what has finished, and under an open snapshot", postgres_claim.measure),
    "postgres-import": (
        "postgres-import: new tasks as the store puts them, as arrays, by COPY",
        postgres_import.measure,
    ),
    "guard": ("guard: what keeps a partition from being taken under a claim", guard.measure),
    "event-order": ("event-order: what telling events in the order of commits costs", event_order.measure),
    "arrays": ("arrays: how a hot batch travels to a PostgreSQL", arrays.measure),
    "nodes": ("nodes: one, two and four on one database", nodes.measure),
    "schedules": ("schedules: 102,000 every minute, in one process", schedules.measure),
    "schedule-boot": ("schedule-boot: a start with many schedules", schedule_boot.measure),
    "flat": ("flat: beside much that is pending, has finished, or is of many tenants", flat.measure),
    "slow": ("slow: 10,000 requests in flight to receivers that take 5 s, honest tasks beside them", slow.measure),
    "idle": ("idle: what nothing to do costs", idle.measure),
    "memory": ("memory: what waits within the horizon", memory.measure),
    "written": ("written: what a task writes, made and fired", written.measure),
    "boot": ("boot: with tasks pending", boot.measure),
    "move": ("move: a store to PostgreSQL and back", move.measure),
}


def machine() -> dict[str, str | int]:
    """What these figures are of."""
    return {
        "tasktick": f"{__version__} {'compiled' if is_compiled() else 'not compiled'}",
        "python": platform.python_version(),
        "sqlite": SQLITE_VERSION_TEXT,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
    }


def main() -> int:
    """Measure what was asked."""
    arguments = argparse.ArgumentParser(prog="bench", description=__doc__)
    arguments.add_argument("questions", nargs="*", metavar="question", help=", ".join(QUESTIONS))
    arguments.add_argument("--quick", action="store_true", help="once and less: does it work at all")
    given = arguments.parse_args()
    unknown = sorted(set(given.questions) - set(QUESTIONS))
    if unknown:
        arguments.error(f"there is no question {', '.join(unknown)}; there are {', '.join(QUESTIONS)}")
    began = datetime.now(UTC)
    judged: list[Figure] = []
    record: dict[str, object] = {"at": began, "machine": machine(), "quick": given.quick}
    for name in given.questions or QUESTIONS:
        title, measure = QUESTIONS[name]
        started = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix=f"tasktick-bench-{name}-") as folder:
            figures = measure(Path(folder), given.quick)
        quickly = ", quick: once, and less" if given.quick else ""
        print(table(f"\n{title}{quickly}  ({time.perf_counter() - started:.0f} s)", figures), flush=True)
        record[name] = as_record(figures)
        judged += [
            msgspec.structs.replace(figure, name=f"{name}: {figure.name}") for figure in figures if figure.target
        ]
    missed = sum(figure.verdict == "missed" for figure in judged)
    if judged:
        print(table(f"\n{len(judged)} targets, {missed} missed", judged))
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{began:%Y%m%dT%H%M%SZ}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    print(f"\n{', '.join(f'{key} {value}' for key, value in machine().items())}\nwritten to {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
