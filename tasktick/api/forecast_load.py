"""What falls due in the time to come, by minute and lane: from schedules, and from tasks that wait.

Read page by page and added up in short slices. Schedules of one rule are worked out once. The work is bounded: of very
many schedules a fair sample is read and counted for all, of very many tasks the nearest; where that is so, it is said.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain, repeat
from operator import add

import msgspec
from msgspec.structs import replace

from tasktick.api.pace import Pace
from tasktick.api.times import written
from tasktick.model.calendar import CalendarUse, Content
from tasktick.model.ids import PARTITIONS
from tasktick.model.schedule import Rule
from tasktick.model.state import State
from tasktick.ready.forecast import Lane
from tasktick.store import calendars
from tasktick.store import forecast as stored
from tasktick.store.due import BEGINNING, Stretch, slot_begins
from tasktick.store.forecast import Outline, Whose
from tasktick.store.protocol import Reader, Transaction
from tasktick.timetable.calendars import CLEAR, Shade, shade_of
from tasktick.timetable.density import MINUTE_MS, about, by_minute, each, smeared, spread

SCHEDULES_MAX = 50_000
PAGE_ROWS = 500
TASKS_MAX = 200_000
TASK_PAGE_ROWS = 5_000
# Steps of arithmetic, a few microseconds each; of fires with a spread, those that are worked out one by one.
STEPS_MAX = 400_000
SPREAD_EXACT_MAX = 100_000
# Of one schedule that calendars, skips or `max_fires` hold up, so many are looked at one by one.
EACH_MAX = 50_000
# To look at so many ranges of calendars takes as long as a step.
RANGES_PER_STEP = 8
# A lane holds a number for each minute.
CELLS_MAX = 500_000
# One minute in so many is worth to add all of them at once.
DENSE = 16
# What fires at least once in so many minutes may be taken to be spread evenly.
OFTEN_MINUTES = 60
OTHERS: Lane = ("", "", "")


class Note(msgspec.Struct, frozen=True):
    """Why a forecast is not exact: a stable code, and a sentence."""

    code: str
    detail: str


class Span(msgspec.Struct, frozen=True):
    """From one instant to before another, and now."""

    from_at: int
    to_at: int
    now: int

    @property
    def minutes(self) -> int:
        return (self.to_at - self.from_at) // MINUTE_MS


class Aim(msgspec.Struct, frozen=True):
    """What schedules that fire alike have in common. `id` is given only where each is worked out by itself."""

    rule: Rule
    after: int
    until: int
    tenant: str = ""
    calendars: tuple[CalendarUse, ...] = ()
    skips: tuple[int, ...] = ()
    left: int | None = None
    jitter_ms: int = 0
    id: str = ""


Contents = dict[tuple[str, str], Content]


class Load:
    """Amounts by lane and minute, as they are added up."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.lanes: dict[Lane, array[float]] = {}
        self.notes: list[Note] = []
        self.schedules = 0
        self._lanes_max = max(1, CELLS_MAX // span.minutes)
        self._pooled = False

    def add(self, lane: Lane, minute: int, amount: float) -> None:
        """So much falls due there; what was due before is due at the beginning."""
        self.lanes[self.known(lane)][max(0, minute)] += amount

    def add_all(self, lane: Lane, amounts: Iterable[float]) -> None:
        """So much falls due there, minute by minute."""
        lane = self.known(lane)
        self.lanes[lane] = array("d", map(add, self.lanes[lane], amounts))

    def known(self, lane: Lane) -> Lane:
        """The lane, or the one that stands for those that there is no room for."""
        if lane in self.lanes:
            return lane
        if len(self.lanes) >= self._lanes_max:
            self._pooled = True
            lane = OTHERS
        if lane not in self.lanes:
            self.lanes[lane] = array("d", bytes(8 * self.span.minutes))
        return lane

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out or estimated."""
        return not self.notes

    def say(self, code: str, detail: str) -> None:
        """Why it is not exact."""
        self.notes.append(Note(code, detail))

    def close(self) -> "Load":
        """All is added."""
        if self._pooled:
            self.say("lanes_pooled", f"Of queues and hosts, {self._lanes_max:,} are told apart; the rest are one.")
        return self


async def collect(reader: Reader, whose: Whose, span: Span, pace: Pace) -> Load:
    """Everything that falls due."""
    load = Load(span)
    await _add_tasks(reader, whose, load, pace)
    await _Schedules(reader, whose, load, pace).add()
    return load.close()


async def _add_tasks(reader: Reader, whose: Whose, load: Load, pace: Pace) -> None:
    span, read = load.span, 0
    stretch = Stretch(BEGINNING, span.to_at - 1)
    while True:
        page = await reader.read(
            lambda tx, left=stretch: stored.waiting(tx, whose, left, span.from_at, TASK_PAGE_ROWS)  # type: ignore[misc] # a default binds what is left
        )
        read += page.rows
        for one in page.counts:
            await pace.step()
            load.add((one.tenant, one.queue, one.host), one.minute, one.tasks)
        if page.rows < TASK_PAGE_ROWS or page.last_at is None or page.last_id is None:
            return
        stretch = Stretch(BEGINNING, stretch.until, (page.last_at, page.last_id))
        if read >= TASKS_MAX:
            known_until = written(slot_begins(page.last_at))
            load.say("tasks_left_out", f"Of tasks that wait, those after {known_until} are not counted.")
            return


class _Schedules:
    """Reads schedules, and adds up when they fire."""

    def __init__(self, reader: Reader, whose: Whose, load: Load, pace: Pace) -> None:
        self._reader = reader
        self._whose = whose
        self._load = load
        self._pace = pace
        self._aims: dict[Aim, Counter[Lane]] = {}
        self._contents: Contents = {}
        self._exact_left = SPREAD_EXACT_MAX
        self._is_estimated = False
        self._even: defaultdict[tuple[Lane, int, int], float] = defaultdict(float)

    async def add(self) -> None:
        total = await self._reader.read(lambda tx: stored.extent(tx, self._whose))
        partitions = stored.sample(total, SCHEDULES_MAX)
        share = 1.0 if partitions is None else len(partitions) / PARTITIONS
        read = await self._read(partitions, 1 / share)
        self._load.schedules = total
        if partitions is not None:
            detail = f"Of {total:,} schedules {read:,} were read, by chance, and stand for all of them."
            self._load.say("sampled", detail)
        await self._add_up(1 / share)
        if self._is_estimated:
            detail = "Too many to be worked out one by one: some are taken to be spread evenly, or held by the minute."
            self._load.say("estimated", detail)

    async def _read(self, partitions: list[str] | None, weight: float) -> int:
        """Read all of them, with the fires that are made ahead; how many there are."""
        beyond, read = (self._whose.bounds["first_tenant"], ""), 0
        while True:
            page, contents = await self._reader.read(
                lambda tx, beyond=beyond: _page(tx, self._whose, beyond, partitions)  # type: ignore[misc] # as above
            )
            self._contents |= contents
            for one in page:
                await self._pace.look()
                self._take_in(one, weight)
            read += len(page)
            if len(page) < PAGE_ROWS:
                return read
            beyond = page[-1].tenant, page[-1].id

    def _take_in(self, one: Outline, weight: float) -> None:
        span = self._load.span
        lane = one.tenant, one.queue, one.host
        left = None if one.max_fires is None else one.max_fires - one.fired
        if one.paused and one.paused_until is None:
            return
        after = max(one.cursor_at, span.now)
        if one.next_at is not None:
            after = max(after, one.next_at)
            if _is_ahead(one, span) and self._shade(one).reason(one.next_at) is None:
                left = None if left is None else left - 1
                self._load.add(lane, _minute(span, one.ahead_wake_at or 0), weight)
        elif one.paused_until is not None and one.paused:
            after = max(after, one.paused_until)
        if one.start_at is not None:
            after = max(after, one.start_at - 1)
        until = span.to_at - 1 if one.end_at is None else min(span.to_at - 1, one.end_at)
        if after < until and (left is None or left > 0):
            self._aims.setdefault(self._aim(one, after, until, left), Counter())[lane] += 1

    def _aim(self, one: Outline, after: int, until: int, left: int | None) -> Aim:
        """What it is worked out by. One with a spread is by itself, as long as there are not too many of them."""
        aim = Aim(one.rule, after, until)
        if one.calendars or one.skips:
            skips = tuple(at for at in one.skips if at > after)
            aim = replace(aim, tenant=one.tenant if one.calendars else "", calendars=one.calendars, skips=skips)
        if left is not None and left < about(one.rule, after, until):
            aim = replace(aim, left=left)
        if not one.jitter_ms:
            return aim
        fires = about(one.rule, after, until)
        if fires > self._exact_left:
            return replace(aim, jitter_ms=one.jitter_ms)
        self._exact_left -= fires
        return replace(aim, jitter_ms=one.jitter_ms, id=one.id)

    def _shade(self, one: Outline | Aim) -> Shade:
        if not one.calendars and not one.skips:
            return CLEAR
        contents = self._contents
        known = {
            use.name: contents[one.tenant, use.name] for use in one.calendars if (one.tenant, use.name) in contents
        }
        return shade_of(one.rule.timezone, one.calendars, one.skips, known)

    async def _add_up(self, weight: float) -> None:
        """Work out each kind once, those that stand for several first."""
        began, left_out = self._pace.steps, 0
        for shared in (True, False):
            for aim, lanes in self._aims.items():
                await self._pace.step()
                schedules = lanes.total()
                if (schedules > 1) is not shared:
                    continue
                await self._pace.look()
                if self._pace.steps - began <= STEPS_MAX:
                    await self._add_kind(lanes, await self._counts(aim), weight)
                elif not self._add_evenly(aim, lanes, weight):
                    left_out += schedules
        await self._add_even()
        if left_out:
            detail = f"There are too many different rules: {left_out:,} schedules that fire seldom are not counted."
            self._load.say("schedules_left_out", detail)

    async def _add_kind(self, lanes: Counter[Lane], counts: dict[int, float], weight: float) -> None:
        load, weights = self._load, Counter[Lane]()
        for lane, schedules in lanes.items():
            weights[load.known(lane)] += schedules
        is_dense = len(counts) * DENSE > load.span.minutes
        profile = [counts.get(minute, 0.0) * weight for minute in range(load.span.minutes)] if is_dense else []
        for lane, schedules in weights.items():
            if is_dense:
                load.add_all(lane, [amount * schedules for amount in profile])
                await self._pace.step(load.span.minutes // DENSE)
                continue
            for minute, count in counts.items():
                await self._pace.step()
                load.add(lane, minute, count * schedules * weight)

    def _add_evenly(self, aim: Aim, lanes: Counter[Lane], weight: float) -> bool:
        """There is no time to work it out: if it fires often, that is about so much in each minute."""
        fires = about(aim.rule, aim.after, aim.until)
        first, last = _minute(self._load.span, aim.after), _minute(self._load.span, aim.until)
        if aim.left is not None or self._shade(aim) is not CLEAR or fires * OFTEN_MINUTES < last - first:
            return False
        self._is_estimated = True
        for lane, schedules in lanes.items():
            self._even[self._load.known(lane), first, last] += schedules * weight * fires / (last - first + 1)
        return True

    async def _add_even(self) -> None:
        minutes = self._load.span.minutes
        for (lane, first, last), amount in self._even.items():
            before, after = repeat(0.0, max(0, first)), repeat(0.0, minutes - last - 1)
            self._load.add_all(lane, chain(before, repeat(amount, last - max(0, first) + 1), after))
            await self._pace.step(minutes // DENSE)

    async def _counts(self, aim: Aim) -> dict[int, float]:
        """How many fires of one kind fall due in which minute."""
        shade = self._shade(aim)
        is_plain = shade is CLEAR and aim.left is None and not aim.id
        cost = 1 + shade.weight // RANGES_PER_STEP
        fires = 0 if is_plain else about(aim.rule, aim.after, aim.until)
        if not is_plain and fires * cost <= EACH_MAX and (aim.id or not aim.jitter_ms):
            return await self._one_by_one(aim, shade, cost)
        self._is_estimated |= shade is not CLEAR or aim.jitter_ms > 0
        counts = await self._by_minute(aim, shade)
        return self._smeared(aim, counts) if aim.jitter_ms else counts

    async def _by_minute(self, aim: Aim, shade: Shade) -> dict[int, float]:
        """What is held is so for whole minutes, if it fires so often; for several, if there are many ranges."""
        counts: dict[int, float] = {}
        left = float("inf") if aim.left is None else aim.left
        cost = 1 + shade.weight // RANGES_PER_STEP
        block = 1 + self._load.span.minutes * cost // max(1, EACH_MAX)
        looked, is_held = -1, False
        for minute, fires in by_minute(aim.rule, aim.after, aim.until, self._load.span.from_at):
            await self._pace.step()
            count = min(fires, left)
            if count and shade is not CLEAR and minute // block != looked:
                await self._pace.step(cost)
                looked = minute // block
                is_held = shade.reason(self._load.span.from_at + minute * MINUTE_MS) is not None
            if count and not is_held:
                counts[minute] = counts.get(minute, 0.0) + count
                left -= count
        return counts

    async def _one_by_one(self, aim: Aim, shade: Shade, cost: int) -> dict[int, float]:
        span, counts = self._load.span, dict[int, float]()
        for at in each(aim.rule, aim.after, aim.until, shade, aim.left):
            await self._pace.step(cost)
            if at is None:
                continue
            due_at = spread(aim.rule, aim.id, at, aim.jitter_ms) if aim.id else at
            if due_at < span.to_at:
                minute = _minute(span, due_at)
                counts[minute] = counts.get(minute, 0.0) + 1
        return counts

    def _smeared(self, aim: Aim, counts: dict[int, float]) -> dict[int, float]:
        gap_ms = (aim.until - aim.after) / max(1.0, sum(counts.values()))
        return smeared(counts, int(min(aim.jitter_ms, gap_ms)), self._load.span.minutes)


async def _page(
    tx: Transaction, whose: Whose, beyond: tuple[str, str], partitions: list[str] | None
) -> tuple[list[Outline], Mapping[tuple[str, str], Content]]:
    """Schedules, and the calendars that they name."""
    page = await stored.outlines(tx, whose, beyond, PAGE_ROWS, partitions)
    named = {(one.tenant, use.name) for one in page for use in one.calendars}
    return page, await calendars.contents(tx, named) if named else {}


def _is_ahead(one: Outline, span: Span) -> bool:
    """Whether the fire that is made ahead will start by itself within the time that is asked for."""
    waits = one.ahead_state in (State.SCHEDULED, State.RETRYING)
    return waits and one.ahead_wake_at is not None and one.ahead_wake_at < span.to_at


def _minute(span: Span, at: int) -> int:
    return (at - span.from_at) // MINUTE_MS
