"""What each stage of a fire costs by itself: the real statements on a file of its own, by one thread that does nothing
else, with the clock of the schedules moved on by hand.

Schedules fire `every 1m`, spread over it. Of each round's those that are due are claimed (their payloads read with
that), ended, and then decided about: read, planned, written. Said is the processor time of each, in µs a fire, and
that of creating a schedule. Sending is not here: that is `limit_client`'s.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec
import uvloop

from bench.tasks import body_of, now_ms
from tasktick import logs
from tasktick.clock import SystemClock
from tasktick.model.attempt import Answer, conclude
from tasktick.model.ids import PARTITIONS, IdMaker, partition_of
from tasktick.model.schedule import CatchUp, FireTemplate, Plan, Recorder, Rule, Schedule
from tasktick.model.task import Payload, Target
from tasktick.scheduler.book import Moment, heeding
from tasktick.scheduler.plan import begin, settle
from tasktick.service import Services
from tasktick.store import claims, due, endings, leases, schedules
from tasktick.store.connect import RawConnection, raw_connection
from tasktick.store.database import FILE_NAME, open_sqlite
from tasktick.store.protocol import Operation
from tasktick.store.schedules import Term
from tasktick.store.sqlite import WRITER_PRAGMAS, read_with, step, write_with
from tasktick.timetable import zones
from tasktick.timetable.fires import cursor_at

T = TypeVar("T")
CREATE = "create a schedule"
HOST = "127.0.0.1:9"
NODE, INCARNATION = "bench", "incarnation-1"
EVERY_MS = 60_000
CREATED_AT_ONCE = 500
SETTLED_AT_ONCE = 250
# What a loaded daemon claims and ends at once.
CLAIMED_AT_ONCE = 25


class Stages:
    """A store with schedules, and what has been spent on each stage."""

    def __init__(self, raw: RawConnection, count: int) -> None:
        self._raw = raw
        self._count = count
        self._random = Random(7)
        self._ids = IdMaker(Random(8))
        self._epochs: dict[int, int] = {}
        self._claims = 0
        self.now = now_ms() // EVERY_MS * EVERY_MS
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.fires = 0

    @contextmanager
    def _spent(self, stage: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds[stage] += time.process_time() - began

    def _write(self, operation: Operation[T]) -> T:
        return write_with(self._raw, lambda tx: step(operation(tx)))

    def start(self) -> None:
        """Own the store, and make the schedules."""
        self._write(lambda tx: leases.start_node(tx, leases.Start(INCARNATION, NODE), self.now))
        self._epochs = self._write(lambda tx: leases.acquire(tx, INCARNATION, self.now))
        payload = Payload(Target(f"http://{HOST}/never", body_kind="json", body=body_of(0).decode()))
        for at in range(0, self._count, CREATED_AT_ONCE):
            with self._spent(CREATE):
                plans = [
                    begin(self._schedule(), self._moment(0)) for _ in range(min(CREATED_AT_ONCE, self._count - at))
                ]

                async def operation(tx: Any, plans: Sequence[Plan] = plans) -> None:
                    for plan in plans:
                        await schedules.create(tx, plan, payload)

                self._write(operation)

    def _schedule(self) -> Schedule:
        rule = Rule(every_ms=EVERY_MS)
        cursor = cursor_at(rule, self.now)
        return Schedule(
            id=self._ids.new(self.now, self._random.randrange(PARTITIONS)),
            tenant="default",
            version=1,
            created_at=self.now,
            updated_at=self.now,
            rule=rule,
            overlap="skip",
            catch_up=CatchUp(),
            template=FireTemplate(HOST, "default", 5, 5, 30_000, 30_000),
            payload_version=1,
            cursor_at=cursor.at,
            cursor_local_ms=cursor.local_ms,
            jitter_ms=EVERY_MS,
        )

    def _moment(self, partition: int) -> Moment:
        by = Recorder(self.now, NODE, self._epochs.get(partition, 0), zones.version())
        return Moment(by, self._ids, 0, EVERY_MS, 1_000)

    def pass_minutes(self, fires: int) -> None:
        """Let so many fire, a few at a time, as they come due."""
        span_ms = max(EVERY_MS * SETTLED_AT_ONCE // max(self._count, 1), 1)
        while self.fires < fires:
            self.now += span_ms
            self._round()

    def _round(self) -> None:
        near = read_with(self._raw, lambda tx: tasks_due(tx, self.now))
        for at in range(0, len(near), CLAIMED_AT_ONCE):
            self._fire(near[at : at + CLAIMED_AT_ONCE])
        with self._spent("materialise, read"):
            looked_at = read_with(self._raw, lambda tx: schedules.due(tx, self.now, SETTLED_AT_ONCE))
        with self._spent("materialise, plan"):
            found = [
                settle(one.schedule, one.tasks, heeding(self._moment(partition_of(one.schedule.id)), one.calendars))
                for one in looked_at
            ]
        plans = [plan for plan in found if plan is not None]
        with self._spent("materialise, write"):
            done = self._write(lambda tx: schedules.carry_out(tx, plans, Term(INCARNATION, self._epochs)))
        assert all(done)
        self.fires += len(plans)

    def _fire(self, ids: list[str]) -> None:
        self._claims += 1
        request = claims.ClaimRequest(NODE, INCARNATION, self._epochs, self._claims, self.now, 15, 2_000, 2_000)

        with self._spent("claim"):
            taken = self._write(lambda tx: claims.take(tx, ids, request))
        answer = Answer(self.now, self.now, 200)
        ends = [conclude(one.claimed, one.payload, answer, NODE, self._random) for one in taken if one.payload]
        with self._spent("end"):
            self._write(lambda tx: endings.end(tx, ends, self._ids))


async def tasks_due(tx: Any, now: int) -> list[str]:
    """The fires that may go now."""
    return [one.id for one in await due.between(tx, due.BEGINNING, "", now, 10_000)]


async def _make(file: Path) -> None:
    services = Services(SystemClock())
    crash: Callable[[BaseException], None] = partial(services.crash, "store")
    database = await open_sqlite(file, services.spawn, crash)
    await database.close()


def measure(folder: Path, count: int, fires: int) -> dict[str, float]:
    """µs a fire by stage, and a schedule's creation."""
    logs.configure("error", "console")
    file = folder / FILE_NAME
    uvloop.run(_make(file))
    stages = Stages(raw_connection(file, WRITER_PRAGMAS), count)
    stages.start()
    stages.pass_minutes(fires)
    by_fire = {name: spent * 1e6 / stages.fires for name, spent in stages.seconds.items() if name != CREATE}
    return {**by_fire, CREATE: stages.seconds[CREATE] * 1e6 / count}


def main() -> None:
    """Measure once and say it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--folder", type=Path, required=True)
    arguments.add_argument("--schedules", type=int, required=True)
    arguments.add_argument("--fires", type=int, required=True)
    given = arguments.parse_args()
    said = measure(given.folder, given.schedules, given.fires)
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")


if __name__ == "__main__":
    main()
