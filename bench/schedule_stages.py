"""What each stage of a fire costs by itself: the real statements on a file of its own, by one thread that does nothing
else, with the clock of the schedules moved on by hand.

Schedules fire `every 1m`, spread over it. Of each round's those that are due are claimed (their payloads read with
that), ended, and then decided about: read, planned, written. Said is the processor time of each, in µs a fire, and
that of creating a schedule. Sending is not here: that is `limit_client`'s.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.stages import CREATED_AT_ONCE, HOST, INCARNATION, NODE, TARGET_URL, Stages
from bench.tasks import body_of
from tasktick.model.attempt import Answer, conclude
from tasktick.model.ids import PARTITIONS, partition_of
from tasktick.model.schedule import CatchUp, FireTemplate, Plan, Recorder, Rule, Schedule
from tasktick.model.task import Payload, Target
from tasktick.scheduler.book import Moment, heeding
from tasktick.scheduler.plan import begin, settle
from tasktick.store import claims, due, endings, schedules
from tasktick.store.schedules import Term
from tasktick.timetable import zones
from tasktick.timetable.fires import cursor_at

CREATE = "create a schedule"
EVERY_MS = 60_000
SETTLED_AT_ONCE = 250
# What a loaded daemon claims and ends at once.
CLAIMED_AT_ONCE = 25


class ScheduleStages(Stages):
    """Schedules, whose clock is moved on by hand."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder)
        self._count = count
        self.now = self.now // EVERY_MS * EVERY_MS

    def create(self) -> None:
        """Make the schedules."""
        payload = Payload(Target(TARGET_URL, body_kind="json", body=body_of(0).decode()))
        for at in range(0, self._count, CREATED_AT_ONCE):
            with self.spent(CREATE):
                plans = [
                    begin(self._schedule(), self._moment(0)) for _ in range(min(CREATED_AT_ONCE, self._count - at))
                ]

                async def operation(tx: Any, plans: Sequence[Plan] = plans) -> None:
                    for plan in plans:
                        await schedules.create(tx, plan, payload)

                self.write(operation)

    def _schedule(self) -> Schedule:
        rule = Rule(every_ms=EVERY_MS)
        cursor = cursor_at(rule, self.now)
        return Schedule(
            id=self.ids.new(self.now, self.random.randrange(PARTITIONS)),
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
        by = Recorder(self.now, NODE, self.epochs.get(partition, 0), zones.version())
        return Moment(by, self.ids, 0, EVERY_MS, 1_000)

    def pass_minutes(self, fires: int) -> None:
        """Let so many fire, a few at a time, as they come due."""
        span_ms = max(EVERY_MS * SETTLED_AT_ONCE // max(self._count, 1), 1)
        while self.fires < fires:
            self.now += span_ms
            self._round()

    def _round(self) -> None:
        near = self.read(lambda tx: tasks_due(tx, self.now))
        for at in range(0, len(near), CLAIMED_AT_ONCE):
            self._fire(near[at : at + CLAIMED_AT_ONCE])
        with self.spent("materialise, read"):
            looked_at = self.read(lambda tx: schedules.due(tx, self.now, SETTLED_AT_ONCE))
        with self.spent("materialise, plan"):
            found = [
                settle(one.schedule, one.tasks, heeding(self._moment(partition_of(one.schedule.id)), one.calendars))
                for one in looked_at
            ]
        plans = [plan for plan in found if plan is not None]
        with self.spent("materialise, write"):
            done = self.write(lambda tx: schedules.carry_out(tx, plans, Term(INCARNATION, self.epochs)))
        assert all(done)
        self.fires += len(plans)

    def _fire(self, ids: list[str]) -> None:
        request = self.next_claim()
        with self.spent("claim"):
            taken = self.write(lambda tx: claims.take(tx, ids, request))
        answer = Answer(self.now, self.now, 200)
        ends = [conclude(one.claimed, one.payload, answer, NODE, self.random) for one in taken if one.payload]
        with self.spent("end"):
            self.write(lambda tx: endings.succeed(tx, ends, self.ids))


async def tasks_due(tx: Any, now: int) -> list[str]:
    """The fires that may go now."""
    return [one.id for one in await due.between(tx, due.Stretch(due.BEGINNING, now), 10_000)]


def measure(folder: Path, count: int, fires: int) -> dict[str, float]:
    """µs a fire by stage, and a schedule's creation."""
    stages = ScheduleStages(folder, count)
    stages.create()
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
