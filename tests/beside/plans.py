"""Rules about schedules: made, settled as time goes on, held, edited, fired by hand, removed."""

from functools import partial
from typing import Any, get_args

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import MultipleResults, multiple, rule

from tasktick.errors import Refused
from tasktick.model.line import backfill_line
from tasktick.model.retry import RetryPolicy
from tasktick.model.schedule import CatchUp, FireTemplate, Overlap, Plan, Rule, pause, stand_still
from tasktick.model.state import State
from tasktick.model.task import Claimed, Payload, Target
from tasktick.scheduler.book import heeding, new_fire
from tasktick.scheduler.plan import begin, edit, first_fire, resume, settle
from tasktick.store import lines, schedules
from tasktick.store.protocol import Transaction
from tasktick.store.schedules import Seen
from tests.beside.pair import KEYS, TENANTS, WORDS, Pair
from tests.store.calendar import MINUTE_MS, Calendar, replaced
from tests.store.filling import fill
from tests.store.world import HOUR_MS, World

SETTLES_MAX = 50
words = st.sampled_from(WORDS)
RULES = (
    Rule(every_ms=MINUTE_MS),
    Rule(every_ms=7 * MINUTE_MS, anchor_at=3),
    Rule(cron="*/5 * * * *"),
    Rule(cron="30 2 * * *", timezone="Europe/Berlin", gap="skip", repeat="both"),
)
fields = st.fixed_dictionaries(
    {"overlap": st.sampled_from(get_args(Overlap))},
    optional={
        "catch_up": st.builds(CatchUp, st.sampled_from(["none", "latest", "earliest", "all"]), max=st.just(3)),
        "tags": st.dictionaries(st.sampled_from(["team", 'q"q']), words, max_size=1),
        "name": words,
        "jitter_ms": st.sampled_from([0, MINUTE_MS]),
        "max_fires": st.integers(1, 3),
        "overlap_key": st.sampled_from(["shared", "other"]),
        "pause_on_failures": st.integers(1, 2),
        "key": st.sampled_from(KEYS),
        "tenant": st.sampled_from(TENANTS),
    },
)
EDITS = ("rule", "name", "overlap", "end_at", "template")


def payload_of(word: str) -> Payload:
    target = Target("https://receiver.example/hook", body_kind="json", body=msgspec.json.encode(word).decode())
    return Payload(target, RetryPolicy(2, "fixed", 10_000, jitter=0.0))


class PlanRules(Pair):
    """What becomes of schedules and their times."""

    @rule(target=Pair.plans, about=st.sampled_from(RULES), columns=fields, word=words)
    def make_schedule(self, about: Rule, columns: dict[str, Any], word: str) -> MultipleResults[str]:
        async def work(world: World) -> str:
            calendar = self.calendar(world)
            made = calendar.schedule(about, **columns)

            async def operation(tx: Transaction) -> None:
                await schedules.take_key(tx, made)
                await schedules.create(tx, begin(made, calendar.moment()), payload_of(word))

            await world.database.write(operation)
            return made.id

        found = self.both(work)
        return multiple(*([found] if found is not None else []))

    async def _moved(self, world: World, schedule_id: str, plan_of: Any) -> Plan:
        """Plan in the transaction, as the API does: first what is due, then this."""
        calendar = self.calendar(world)

        async def operation(tx: Transaction) -> Plan:
            seen = await self._settled(tx, calendar, await self._find(tx, schedule_id))
            plan: Plan = plan_of(seen, heeding(calendar.moment(), {}, seen.line))
            assert await schedules.carry_out(tx, [plan]) == [True]
            return plan

        return await world.database.write(operation)

    async def _find(self, tx: Transaction, schedule_id: str) -> Seen:
        for tenant in TENANTS[:-1]:
            found = await schedules.read(tx, tenant, [schedule_id])
            if found:
                return (await schedules.seen(tx, found))[0]
        return await schedules.find(tx, TENANTS[-1], f"sch_{schedule_id}")

    async def _settled(self, tx: Transaction, calendar: Calendar, seen: Seen) -> Seen:
        await schedules.hold(tx, seen)
        for _ in range(SETTLES_MAX):
            if seen.schedule.look_at is None or seen.schedule.look_at > calendar.world.now:
                break
            plan = settle(seen.schedule, seen.tasks, heeding(calendar.moment(), {}, seen.line))
            if plan is None:
                break
            assert await schedules.carry_out(tx, [plan]) == [True]
            [seen] = await schedules.seen(tx, [plan.after])
        return seen

    @rule()
    def settle(self) -> None:
        self.both(self._settle)

    async def _settle(self, world: World) -> list[Any]:
        told: list[Any] = []
        calendar = self.calendar(world)
        for _ in range(SETTLES_MAX):
            due = await world.database.near.read(lambda tx: schedules.due(tx, world.now, 100))
            made = [settle(one.schedule, one.tasks, heeding(calendar.moment(), {}, one.line)) for one in due]
            found = [plan for plan in made if plan is not None]
            if not found:
                return told
            told.append([[plan.before.id, plan.rows] for plan in found])
            told.append(await calendar.write(*found))
        return told

    @rule(target=Pair.claims, schedule_id=Pair.plans, late_ms=st.sampled_from([0, 0, 61_000]))
    def run_ahead(self, schedule_id: str, late_ms: int) -> MultipleResults[Claimed]:
        """To the time of the fire ahead, and claim it before anything is decided."""
        seen = self.read(lambda tx: self._find(tx, schedule_id))
        if seen is None or seen.schedule.next_id is None or seen.schedule.next_due_at is None:
            return multiple()
        name = seen.schedule.next_id
        self.pass_ms(max(0, min(seen.schedule.next_due_at - self.now, HOUR_MS)) + late_ms)
        return multiple(*(self.both(lambda world: world.claim(name)) or ()))

    @rule(target=Pair.ids, schedule_id=Pair.plans)
    def know_its_fires(self, schedule_id: str) -> MultipleResults[str]:
        """So that they are changed by hand, too."""
        seen = self.read(lambda tx: self._find(tx, schedule_id))
        return multiple(*(seen.tasks if seen is not None else ()))

    @rule(minutes=st.sampled_from([1, 2, 10]))
    def gap(self, minutes: int) -> None:
        """Nobody was there."""
        self.pass_ms(minutes * MINUTE_MS)
        for world in self.worlds:
            self.calendar(world).gap_until = world.now
        self.settle()

    @rule(schedule_id=Pair.plans, until_ms=st.none() | st.just(2 * MINUTE_MS + 1), why=st.none() | words)
    def hold(self, schedule_id: str, until_ms: int | None, why: str | None) -> None:
        until = None if until_ms is None else self.now + until_ms
        self.both(
            lambda world: self._moved(
                world, schedule_id, lambda seen, moment: pause(seen.schedule, seen.tasks, moment.by, until, why)
            )
        )

    @rule(schedule_id=Pair.plans)
    def go_on(self, schedule_id: str) -> None:
        def plan_of(seen: Seen, moment: Any) -> Plan:
            if not seen.schedule.paused:
                raise Refused("state_conflict", "It is not paused.")
            return resume(seen.schedule, seen.tasks, moment)

        self.both(lambda world: self._moved(world, schedule_id, plan_of))

    @rule(schedule_id=Pair.plans, about=st.sampled_from(RULES), what=st.sampled_from(EDITS), word=words)
    def edit(self, schedule_id: str, about: Rule, what: str, word: str) -> None:
        async def work(world: World) -> Plan:
            calendar = self.calendar(world)

            async def operation(tx: Transaction) -> Plan:
                seen = await self._settled(tx, calendar, await self._find(tx, schedule_id))
                wanted = self._wanted(seen, about, what, word)
                plan = edit(seen.schedule, wanted, seen.tasks, heeding(calendar.moment(), {}, seen.line))
                if wanted.payload_version != seen.schedule.payload_version:
                    await schedules.add_template(tx, schedule_id, wanted.payload_version, payload_of(word))
                await schedules.define(tx, plan)
                return plan

            return await world.database.write(operation)

        self.both(work)

    def _wanted(self, seen: Seen, about: Rule, what: str, word: str) -> Any:
        before = seen.schedule
        match what:
            case "rule":
                return replaced(before, rule=about)
            case "end_at":
                return replaced(before, end_at=self.now + 5 * MINUTE_MS)
            case "overlap":
                return replaced(before, overlap="buffer_one" if about.cron else "buffer_all", overlap_key=None)
            case "template":
                template = FireTemplate("other.example", "q", 3, 2, 5_000, 0, name=word, tags={"n": word})
                return replaced(before, template=template, payload_version=before.payload_version + 1)
            case _:
                return replaced(before, name=word, tags={"n": word})

    @rule(target=Pair.ids, schedule_id=Pair.plans, own=st.booleans())
    def trigger(self, schedule_id: str, own: bool) -> MultipleResults[str]:
        async def work(world: World) -> str:
            moment = self.calendar(world).moment()

            async def operation(tx: Transaction) -> str:
                seen = await self._find(tx, schedule_id)
                await schedules.hold(tx, seen)
                fire = new_fire(seen.schedule, moment.by.now, moment.by.now, State.SCHEDULED, moment)
                if own:
                    state = msgspec.structs.replace(fire.state, template_id=None, payload_version=1)
                    fire = msgspec.structs.replace(fire, state=state)
                await schedules.trigger(tx, fire, payload_of("own") if own else None)
                return fire.state.id

            return await world.database.write(operation)

        found = self.both(work)
        return multiple(*([found] if found is not None else []))

    @rule(
        schedule_id=Pair.plans,
        ago=st.integers(0, 20),
        length=st.integers(0, 30),
        in_line=st.booleans(),
    )
    def backfill(self, schedule_id: str, ago: int, length: int, in_line: bool) -> None:
        until = self.now - ago * MINUTE_MS
        stretch = (until - length * MINUTE_MS, until)

        async def work(world: World) -> list[Any]:
            calendar = self.calendar(world)

            async def operation(tx: Transaction) -> list[Any]:
                before = await self._find(tx, schedule_id)
                await lines.hold(tx, [(before.schedule.tenant, backfill_line(schedule_id))])
                seen = await self._settled(tx, calendar, await self._find(tx, schedule_id))
                found = await fill(tx, seen, calendar.moment(), stretch, in_line=in_line)
                return [[one.kind, one.fire.nominal_at] for one in found]

            return await world.database.write(operation)

        self.both(work)

    @rule(schedule_id=Pair.plans)
    def remove_schedule(self, schedule_id: str) -> None:
        async def work(world: World) -> None:
            calendar = self.calendar(world)

            async def operation(tx: Transaction) -> None:
                seen = await self._settled(tx, calendar, await self._find(tx, schedule_id))
                await schedules.delete(tx, stand_still(seen.schedule, seen.tasks, calendar.moment().by, "deleted"))

            await world.database.write(operation)

        self.both(work)

    @rule(name=st.sampled_from(["2026a", "2026b"]))
    def zone_data_changes(self, name: str) -> None:
        for world in self.worlds:
            self.calendar(world).tzdata = name
        self.write(lambda tx: schedules.outdate(tx, self.now, name))

    @rule(ids=st.lists(Pair.plans, min_size=1, max_size=2), later_ms=st.sampled_from([-1_000, 1_000]))
    def put_off(self, ids: list[str], later_ms: int) -> None:
        self.write(lambda tx: schedules.put_off(tx, ids, self.now + later_ms))
        self.read(lambda tx: schedules.next_look(tx, self.now))

    @rule(schedule_id=Pair.plans)
    def look_at_it(self, schedule_id: str) -> None:
        seen = self.read(lambda tx: self._find(tx, schedule_id))
        if seen is not None:
            assert first_fire(seen.schedule) is not None or seen.schedule.next_id is None
        for outcomes in (None, ["run"], ["skipped", "missed"]):
            self.read(
                partial(
                    schedules.ledger,
                    schedule_id=schedule_id,
                    outcomes=outcomes,
                    from_at=self.now - HOUR_MS,
                    to_at=self.now,
                    limit=3,
                )
            )
