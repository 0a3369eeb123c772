"""Asks TaskTick and its peers the same questions in one run, prints one table, and writes it to `bench/results/`.

`make bench-peers` installs the peers and asks everything (some forty minutes); `ONLY=fire` asks one question,
`ARGS=--quick` measures once and less, `ARGS="--peer pgqueuer --peer BullMQ"` takes these alone beside TaskTick.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from bench import figures
from bench.peers.comparison import Gate, Line, as_record, fail, gates, table, take
from bench.peers.contenders import OURS, POSTGRES, Contender, contenders
from bench.peers.install import runtimes
from bench.peers.questions import QUESTIONS, Question, Setting
from bench.peers.servers import POSTGRES_VERSION
from bench.peers.warden import warden
from bench.processes import child
from bench.run import RESULTS, machine

ROUNDS = 3
ON_POSTGRES = ("graphile-worker", "pgqueuer", "pg-boss", "procrastinate")
GATES = (
    *(Gate("jobs due at once: rate", ours, ("graphile-worker",), 1.5) for ours in OURS),
    *(Gate("jobs due at once: rate", ours, ("pgqueuer",), 2.5) for ours in OURS),
    Gate("jobs made: single", POSTGRES, ON_POSTGRES, 3),
    *(Gate("jobs made: bulk", ours, (*ON_POSTGRES, "BullMQ"), 1.5) for ours in OURS),
)


def measure(question: Question, taking_part: Sequence[Contender], setting: Setting, rounds: int) -> list[Line]:
    """One question: rounds alternate; who fails once is not asked again."""
    lines = {one.name: Line(question.title, one.name, one.unit, one.better) for one in question.measures}
    out: set[str] = set()
    for contender in taking_part:
        if contender.missing is not None:
            out.add(contender.name)
            fail(lines, contender.name, f"not installed: {contender.missing}")
    for number in range(rounds):
        for at, contender in enumerate(taking_part):
            if contender.name in out:
                continue
            began = time.perf_counter()
            folder = setting.folder / f"{at}-{number}"
            folder.mkdir()
            own = Setting(folder / "data", setting.port, setting.watch, setting.quick)
            try:
                found = question.ask(contender, own)
            except Exception as error:  # noqa: BLE001 # whoever fails, the others go on
                out.add(contender.name)
                fail(lines, contender.name, f"failed: {error}")
                found = {}
            take(lines, contender.name, found)
            _tell(question, contender, number, found, time.perf_counter() - began)
    return list(lines.values())


def _tell(question: Question, contender: Contender, number: int, found: dict[str, float], seconds: float) -> None:
    said = ", ".join(f"{name} {figures.shown(value)}" for name, value in found.items()) or "failed"
    print(f"  {question.title}, round {number + 1}, {contender.name}: {said}  ({seconds:.0f} s)", file=sys.stderr)


@contextmanager
def _surroundings(quick: bool) -> Iterator[Setting]:
    with (
        tempfile.TemporaryDirectory(prefix="tasktick-bench-peers-") as folder,
        child("bench.receiver") as receiver,
        warden() as guard,
    ):
        yield Setting(Path(folder), receiver["port"], guard.watch, quick)


def _arguments(names: Sequence[str]) -> argparse.Namespace:
    arguments = argparse.ArgumentParser(prog="bench-peers", description=__doc__)
    arguments.add_argument("questions", nargs="*", metavar="question", help=", ".join(QUESTIONS))
    arguments.add_argument("--quick", action="store_true", help="once and less: does it work at all")
    arguments.add_argument("--rounds", type=int, help=f"of each question; {ROUNDS}, with --quick 1")
    arguments.add_argument("--peer", action="append", choices=names, help="only this one beside TaskTick; repeatable")
    given = arguments.parse_args()
    if unknown := sorted(set(given.questions) - set(QUESTIONS)):
        arguments.error(f"there is no question {', '.join(unknown)}; there are {', '.join(QUESTIONS)}")
    return given


def main() -> int:
    """Measure what was asked."""
    every = contenders()
    given = _arguments([one.name for one in every if one.name not in OURS])
    taking_part = [one for one in every if one.name in OURS or not given.peer or one.name in given.peer]
    names, began, lines = [one.name for one in taking_part], datetime.now(UTC), []
    found = {**machine(), "postgresql": POSTGRES_VERSION, **runtimes(), "load before": os.getloadavg()[0]}
    with _surroundings(given.quick) as setting:
        for name in given.questions or QUESTIONS:
            inside = Setting(setting.folder / name, setting.port, setting.watch, setting.quick)
            inside.folder.mkdir()
            lines += measure(QUESTIONS[name], taking_part, inside, given.rounds or (1 if given.quick else ROUNDS))
    print(table(lines, names, OURS))
    if judged := gates(lines, GATES):
        print(figures.table("\nwhat TaskTick is to them", judged))
    for one in taking_part:
        print(f"{one.name}: {one.missing or one.setup}")
    record: dict[str, Any] = {"at": began, "machine": found, "quick": given.quick}
    record |= {"figures": as_record(lines, names, OURS), "gates": figures.as_record(judged)}
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"peers-{began:%Y%m%dT%H%M%SZ}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    print(f"{', '.join(f'{key} {value}' for key, value in found.items())}\nwritten to {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
