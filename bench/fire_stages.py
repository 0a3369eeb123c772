"""What each stage of a fire costs by itself: the real code on a file of its own, by one thread that does nothing else.

So many tasks are due. A batch at a time they are pushed and popped, claimed (their payloads read with that), made into
requests, concluded, ended. Said is the processor time of each, in µs a fire. Sending is not here: that is `sender`'s.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec
import uvloop

from bench.figures import Figure
from bench.processes import ask
from bench.tasks import body_of, now_ms
from tasktick import logs
from tasktick.clock import SystemClock
from tasktick.dispatch.attempt import Start, end_of, request_for
from tasktick.dispatch.outcome import Outcome
from tasktick.model.ids import PARTITIONS, IdMaker
from tasktick.model.state import State
from tasktick.model.task import NewTask, Payload, Target, TaskDetail, TaskState
from tasktick.ready.limits import Limits
from tasktick.ready.queue import ReadyQueue
from tasktick.service import Services
from tasktick.store import claims, due, endings, leases, tasks
from tasktick.store.connect import RawConnection, raw_connection
from tasktick.store.database import FILE_NAME, open_sqlite
from tasktick.store.protocol import Operation
from tasktick.store.sqlite import WRITER_PRAGMAS, read_with, step, write_with

T = TypeVar("T")
HOST = "127.0.0.1:9"
NODE, INCARNATION = "bench", "incarnation-1"
SECRET = b"0123456789abcdef0123456789abcdef"
CREATED_AT_ONCE = 500
FIRES, BATCH, ROUNDS = 20_000, 250, 3
HEADERS = [("Content-Type", "text/plain"), ("Content-Length", "2")]


class Stages:
    """A store with due tasks, and what has been spent on each stage."""

    def __init__(self, raw: RawConnection, batch: int) -> None:
        self._raw = raw
        self._batch = batch
        self._random = Random(7)
        self._ids = IdMaker(Random(8))
        self._epochs: dict[int, int] = {}
        self._claims = 0
        self._clock = SystemClock()
        self.now = now_ms()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.fires = 0

    @contextmanager
    def _spent(self, stage: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds[stage] += time.process_time() - began

    def _write(self, operation: Operation[T]) -> T:
        return write_with(self._raw, lambda tx: step(operation(tx)))

    def start(self, count: int) -> None:
        """Own the store, and make the tasks."""
        self._write(lambda tx: leases.start_node(tx, leases.Start(INCARNATION, NODE), self.now))
        self._epochs = self._write(lambda tx: leases.acquire(tx, INCARNATION, self.now))
        for at in range(0, count, CREATED_AT_ONCE):
            with self._spent("create"):
                made = [tasks.Create(self._task(number)) for number in range(at, min(at + CREATED_AT_ONCE, count))]
                self._write(lambda tx, made=made: tasks.create_many(tx, made))  # type: ignore[misc]

    def _task(self, number: int) -> NewTask:
        task_id = self._ids.new(self.now, self._random.randrange(PARTITIONS))
        payload = Payload(Target(f"http://{HOST}/never", body_kind="json", body=body_of(number).decode()))
        state = TaskState(
            task_id, "default", State.SCHEDULED, "default", HOST, 5, self.now, self.now, self.now, 5, 30_000, self.now
        )
        return NewTask(state, TaskDetail(task_id, "default", self.now, name="bench"), payload)

    def fire(self) -> None:
        """All of them, a batch at a time."""
        with self._spent("read"):
            rows = read_with(self._raw, lambda tx: due.between(tx, due.BEGINNING, "", self.now + 1, 1_000_000))
        ready = ReadyQueue(Limits(in_flight_max=100_000, host_min=100_000, host_max=100_000), 1_000_000, 1_000_000)
        with self._spent("push"):
            for row in rows:
                ready.push(row)
        while True:
            with self._spent("pop"):
                entries = ready.pop(self._batch, self.now)
            if not entries:
                return
            self._fire([entry.id for entry in entries])
            with self._spent("release"):
                for entry in entries:
                    ready.release(entry)
            self.fires += len(entries)

    def _fire(self, ids: list[str]) -> None:
        self._claims += 1
        request = claims.ClaimRequest(NODE, INCARNATION, self._epochs, self._claims, self.now, 15, 2_000, 2_000)

        ids.sort()
        with self._spent("claim"):
            taken = self._write(lambda tx: claims.take(tx, ids, request))
        claimed = [one.claimed for one in taken]
        payloads = {one.claimed.id: one.payload for one in taken if one.payload}
        start = Start(self.now, self._clock.monotonic_ms(), self._clock.monotonic_ms() + 2_000)
        with self._spent("request"):
            for one in claimed:
                request_for(one, payloads[one.id], [SECRET], lambda *_: {}, start)
        outcome = Outcome(200, HEADERS, b"ok", False, None, None, "", True, 0.0, 1.0)
        with self._spent("conclude"):
            ends = [
                end_of(one, payloads[one.id], outcome, started_at=self.now, node=NODE, random=self._random)
                for one in claimed
            ]
        with self._spent("end"):
            self._write(lambda tx: endings.succeed(tx, ends, self._ids))


async def _make(file: Path) -> None:
    services = Services(SystemClock())
    crash: Callable[[BaseException], None] = partial(services.crash, "store")
    database = await open_sqlite(file, services.spawn, crash)
    await database.close()


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, with batches as a loaded daemon has them."""
    count, rounds = (FIRES // 10, 1) if quick else (FIRES, ROUNDS)
    found: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(rounds):
        place = folder / str(number)
        place.mkdir()
        arguments = ("--folder", str(place), "--count", str(count), "--batch", str(BATCH))
        for name, spent_us in ask("bench.fire_stages", *arguments).items():
            found[name].append(spent_us)
    created = found.pop("create")
    whole = tuple(map(sum, zip(*found.values(), strict=True)))
    return [
        *(Figure(name, "µs", tuple(spent)) for name, spent in found.items()),
        Figure("all of a fire but its sending", "µs", whole),
        Figure("beside it: making a task", "µs", tuple(created)),
    ]


def by_stage(folder: Path, count: int, batch: int) -> dict[str, float]:
    """µs a fire by stage, and a task's creation."""
    logs.configure("error", "console")
    file = folder / FILE_NAME
    uvloop.run(_make(file))
    stages = Stages(raw_connection(file, WRITER_PRAGMAS), batch)
    stages.start(count)
    stages.fire()
    assert stages.fires == count
    return {name: spent * 1e6 / count for name, spent in stages.seconds.items()}


def main() -> None:
    """Measure once and say it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--folder", type=Path, required=True)
    arguments.add_argument("--count", type=int, required=True)
    arguments.add_argument("--batch", type=int, required=True)
    given = arguments.parse_args()
    said: dict[str, Any] = by_stage(given.folder, given.count, given.batch)
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")


if __name__ == "__main__":
    main()
