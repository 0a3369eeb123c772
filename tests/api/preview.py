"""What `upcoming` says, written down before; then time goes on, and what fires is written down beside it.

The clock stands still until it is moved, from each instant at which something is due to the next. What is due is
claimed and answered as a dispatcher does it, and decided about by the loop that does it in the daemon, on a real
store behind a real API. So weeks pass in the time that their fires take.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random

import msgspec

from tasktick.cluster.ownership import Ownership
from tasktick.metrics import Metrics
from tasktick.model.task import Due, TaskState
from tasktick.scheduler.materialise import Decider, Materialiser
from tasktick.store import due, schedules
from tasktick.store.due import Stretch
from tests.api.calendar import ALL
from tests.api.preview_sets import CALENDARS, drawn
from tests.api.served import HeldClock, Served
from tests.store.world import NODE

MINUTE_MS = 60_000
COUNT_MAX = 1_000
CLAIMED_AT_ONCE = 200
# One that fires oftener than this tells no more than another, and takes its time.
FIRES_MAX = 150
SKIPPED_SHARE = 0.25
ROUNDS_MAX = 100


class Said(msgspec.Struct, frozen=True, order=True):
    """A fire: when by the rule, what the clock of its zone reads then, when it starts, and why it does not."""

    nominal: int
    local: str
    effective: int
    held: str | None = None


class Unheard:
    """Nobody takes these hints: what is due is read."""

    def due(self, rows: list[Due]) -> None: ...

    def born(self, states: list[TaskState]) -> None: ...

    def is_pressed(self) -> bool:
        return False

    def written(self, states: list[TaskState]) -> None: ...


def milliseconds(text: str) -> int:
    """An instant as the API writes it."""
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1_000)


def instant(at: int) -> str:
    """An instant as the API takes it."""
    return datetime.fromtimestamp(at / 1_000, UTC).isoformat()


class Preview:
    """Schedules, what was said of each, and what came of it."""

    def __init__(self, served: Served, until: int) -> None:
        self.said: dict[str, list[Said]] = {}
        self._served = served
        self._until = until
        # By schedule: nominal time, when it was to start, when it did.
        self._ran: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
        world = served.world
        ownership = Ownership(world.incarnation, lambda: 0.0)
        ownership.reconcile(world.epochs, 0)
        ownership.trust_for_ever()
        self._loop = Materialiser(
            HeldClock(world),
            served.database,
            Decider(NODE, ownership, served.deciding_ids),
            Metrics(),
            intake=Unheard(),  # type: ignore[arg-type] # as far as it is used
            missed_after_ms=MINUTE_MS,
            missed_rows_max=1_000,
        )

    async def put_calendars(self) -> None:
        """Those that the schedules name."""
        for name, content in CALENDARS.items():
            answer = await self._served.ask("PUT", f"/v1/calendars/{name}", content)
            assert answer.status == 201, answer.raw

    async def draw(self, random: Random, number: int) -> None:
        """Make so many schedules, and write down what is said of them."""
        now = self._served.world.now
        span_ms = self._until - now
        begin, end = instant(now + span_ms // 4), instant(self._until - span_ms // 5)
        while len(self.said) < number:
            answer = await self._served.ask("POST", ALL, drawn(random, begin, end))
            if answer.status == 422:  # such as one whose every time was before it began
                assert answer.code in ("cron_never_fires", "validation_failed"), answer.raw
                continue
            assert answer.status == 201, answer.raw
            await self._ask(random, answer.json["id"])

    async def _ask(self, random: Random, name: str) -> None:
        """Write down what is said of a schedule, once some of its times have been left out by request."""
        said = await self._upcoming(name)
        if len(said) > FIRES_MAX:
            assert (await self._served.ask("DELETE", f"{ALL}/{name}")).status == 204
            return
        if said and random.random() < SKIPPED_SHARE:
            skipped = random.sample(said, min(len(said), random.choice((1, 3))))
            for one in skipped:
                answer = await self._served.ask("POST", f"{ALL}/{name}/skip", {"at": instant(one.nominal)})
                assert answer.status == 200, answer.raw
            said = await self._upcoming(name)
            told = {one.nominal for one in said if one.held is not None}
            # Where only so many may run, the end is later than before.
            assert told.issuperset(one.nominal for one in skipped), "what was left out is told as that"
        self.said[name] = said

    async def _upcoming(self, name: str) -> list[Said]:
        """All that starts before the end, as far as it is told at once."""
        answer = await self._served.ask("GET", f"{ALL}/{name}/upcoming?count={COUNT_MAX}")
        assert answer.status == 200, answer.raw
        told = [
            Said(milliseconds(one["nominal"]), one["local"], milliseconds(one["effective"]), one["skipped"])
            for one in answer.json["fires"]
        ]
        return [one for one in told if one.effective <= self._until]

    async def pass_time(self) -> None:
        """Go from one instant at which something is due to the next, until the end."""
        world, database = self._served.world, self._served.database
        while True:
            await self._fire()
            await self._decide()
            # What had to be decided about first goes now.
            await self._fire()
            timers = await database.read(lambda tx: due.timers(tx, Stretch(due.BEGINNING, 2**62), 10_000))
            look_at = await database.read(lambda tx: schedules.next_look(tx, due.BEGINNING))
            coming = timers.times + ([] if look_at is None else [look_at])
            if not coming or min(coming) > self._until:
                return
            assert min(coming) > world.now, "what is due has been dealt with"
            world.now = min(coming)

    async def _decide(self) -> None:
        """Decide about all that is due."""
        for _ in range(ROUNDS_MAX):
            if await self._loop.step() != 0:
                return
        raise AssertionError("deciding about what is due comes to no end")

    async def _fire(self) -> None:
        """Claim what is due, and answer it at once."""
        world = self._served.world
        rows = await self._served.database.read(lambda tx: due.between(tx, Stretch(due.BEGINNING, world.now), 10_000))
        for at in range(0, len(rows), CLAIMED_AT_ONCE):
            claimed = await world.claim(*(one.id for one in rows[at : at + CLAIMED_AT_ONCE]), early_ms=0)
            for one in claimed:
                self._ran[f"sch_{one.schedule_id}"].append((one.run_at, one.due_at, world.now))
            if claimed:
                ends = [await world.answered(one) for one in claimed]
                await world.end(*ends)

    async def faults(self) -> list[str]:
        """Where what came differs from what was said."""
        found: list[str] = []
        for name, said in self.said.items():
            ledger = await self._ledger(name)
            self._compare(name, "ran", [one for one in said if one.held is None], ledger["run"], found)
            self._compare(name, "skipped", [one for one in said if one.held is not None], ledger["skipped"], found)
            if ledger["missed"]:
                found.append(f"{name} missed {ledger['missed']}")
            hits = [(one.nominal, one.effective, one.effective) for one in said if one.held is None]
            if hits != sorted(self._ran[name]):
                found.append(f"{name}: {hits} were to be sent, {sorted(self._ran[name])} were")
        return found

    def _compare(self, name: str, what: str, said: Sequence[Said], came: Sequence[Said], found: list[str]) -> None:
        for one in sorted(set(said).difference(came)):
            found.append(f"{name} was said to have {what}, and has not: {one}")
        for one in sorted(set(came).difference(said)):
            found.append(f"{name} has {what}, and nobody had said so: {one}")
        if len(came) != len(set(came)):
            found.append(f"{name} has {what} twice at a time: {came}")

    async def _ledger(self, name: str) -> dict[str, list[Said]]:
        """What its ledger says, by outcome."""
        rows: dict[str, list[Said]] = {"run": [], "skipped": [], "missed": []}
        answer = await self._served.ask("GET", f"{ALL}/{name}/fires?limit=1000")
        assert answer.status == 200, answer.raw
        for row in answer.json["data"]:
            held = row["reason"] if row["outcome"] == "skipped" else None
            # A fire that has not run has no task that could have been moved: it would have started as was said.
            effective = milliseconds(row["effective"])
            rows[row["outcome"]].append(Said(milliseconds(row["nominal"]), row["local"], effective, held))
        return rows
