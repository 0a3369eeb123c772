"""What each stage of a fire costs by itself: the real code on a file of its own, by one thread that does nothing else.

So many tasks are due. A batch at a time they are pushed and popped, claimed (their payloads read with that), made into
requests, concluded, ended. Said is the processor time of each, in µs a fire. Sending is not here: that is `sender`'s.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec

from bench.figures import Figure
from bench.processes import ask
from bench.stages import CREATED_AT_ONCE, HOST, NODE, TARGET_URL, Stages
from bench.tasks import body_of
from tasktick.clock import SystemClock
from tasktick.dispatch.attempt import Start, end_of, request_for
from tasktick.dispatch.outcome import Outcome
from tasktick.model.ids import PARTITIONS
from tasktick.model.state import State
from tasktick.model.task import NewTask, Payload, Target, TaskDetail, TaskState
from tasktick.ready.limits import Limits
from tasktick.ready.queue import ReadyQueue
from tasktick.store import claims, due, endings, tasks

SECRET = b"0123456789abcdef0123456789abcdef"
FIRES, BATCH, ROUNDS = 20_000, 250, 3
HEADERS = [("Content-Type", "text/plain"), ("Content-Length", "2")]


class FireStages(Stages):
    """Due tasks."""

    def __init__(self, folder: Path, batch: int) -> None:
        super().__init__(folder)
        self._batch = batch
        self._clock = SystemClock()

    def create(self, count: int) -> None:
        """Make the tasks."""
        for at in range(0, count, CREATED_AT_ONCE):
            with self.spent("create"):
                made = [tasks.Create(self._task(number)) for number in range(at, min(at + CREATED_AT_ONCE, count))]
                self.write(lambda tx, made=made: tasks.create_many(tx, made))  # type: ignore[misc]

    def _task(self, number: int) -> NewTask:
        task_id = self.ids.new(self.now, self.random.randrange(PARTITIONS))
        payload = Payload(Target(TARGET_URL, body_kind="json", body=body_of(number).decode()))
        state = TaskState(
            task_id, "default", State.SCHEDULED, "default", HOST, 5, self.now, self.now, self.now, 5, 30_000, self.now
        )
        return NewTask(state, TaskDetail(task_id, "default", self.now, name="bench"), payload)

    def fire(self) -> None:
        """All of them, a batch at a time."""
        with self.spent("read"):
            rows = self.read(lambda tx: due.between(tx, due.Stretch(due.BEGINNING, self.now + 1), 1_000_000))
        ready = ReadyQueue(Limits(in_flight_max=100_000, host_min=100_000, host_max=100_000), 1_000_000, 1_000_000)
        with self.spent("push"):
            for row in rows:
                ready.push(row)
        while True:
            with self.spent("pop"):
                entries = ready.pop(self._batch, self.now)
            if not entries:
                return
            self._fire([entry.id for entry in entries])
            with self.spent("release"):
                for entry in entries:
                    ready.release(entry)
            self.fires += len(entries)

    def _fire(self, ids: list[str]) -> None:
        request = self.next_claim()
        ids.sort()
        with self.spent("claim"):
            taken = self.write(lambda tx: claims.take(tx, ids, request))
        claimed = [one.claimed for one in taken]
        payloads = {one.claimed.id: one.payload for one in taken if one.payload}
        start = Start(self.now, self._clock.monotonic_ms(), self._clock.monotonic_ms() + 2_000)
        with self.spent("request"):
            for one in claimed:
                request_for(one, payloads[one.id], [SECRET], lambda *_: {}, start)
        outcome = Outcome(200, HEADERS, b"ok", False, None, None, "", True, 0.0, 1.0)
        with self.spent("conclude"):
            ends = [
                end_of(one, payloads[one.id], outcome, started_at=self.now, node=NODE, random=self.random)
                for one in claimed
            ]
        with self.spent("end"):
            self.write(lambda tx: endings.succeed(tx, ends, self.ids))


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, with batches as a loaded daemon has them."""
    count, rounds = (FIRES // 10, 1) if quick else (FIRES, ROUNDS)
    found: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(rounds):
        place = folder / str(number)
        place.mkdir(parents=True)
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
    stages = FireStages(folder, batch)
    stages.create(count)
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
