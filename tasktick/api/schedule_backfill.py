"""A backfill: times of a schedule that have passed run after all, a few in each transaction.

Nobody waits long behind it, and what was done stays done: every transaction looks at the ledger as it is then, so that
a request which was cut off goes on where it stopped when it is repeated, and no time runs twice whoever else runs it.
With an Idempotency-Key the counts go on too; without one they are of what this request did.
"""

from functools import partial

import msgspec

from tasktick.api.call import Call, Reply, answer, encode
from tasktick.api.decoding import Decoder
from tasktick.api.faults import Faults
from tasktick.api.idempotency import begin, key_of, reply
from tasktick.api.render import Document
from tasktick.api.schedule_schemas import BackfillRequest
from tasktick.api.schedule_writes import Work, after_long_pauses, opened
from tasktick.api.tasks import OK, check_version
from tasktick.api.times import Instant, instant_ms, written
from tasktick.errors import Refused
from tasktick.model.line import backfill_line
from tasktick.model.schedule import Plan, Schedule
from tasktick.model.task import Due
from tasktick.scheduler.backfill import RUNS, Kind, Tasks, Verdict, backfill, bounds, runs_left, verdicts
from tasktick.store import fires as ledger
from tasktick.store import lines, names, schedules, tasks, tenants
from tasktick.store.names import IdempotencyKey, StoredAnswer
from tasktick.store.protocol import Lane, Transaction
from tasktick.store.schedules import Seen
from tasktick.timetable.calendars import shade_of
from tasktick.timetable.fires import Fire, members
from tasktick.timetable.upcoming import count_fires, upcoming

BACKFILL = Decoder(BackfillRequest)
SLICE = 200
TIMES_MAX = 100_000
SHOWN = 3


class Asked(msgspec.Struct, frozen=True):
    """What is to be filled, and how."""

    from_at: int
    to_at: int
    line: str | None
    """The line in which they wait for their turn."""
    held_too: bool
    limit: int | None
    dry_run: bool


class Progress(msgspec.Struct, frozen=True):
    """How far it is, and what came of it, by what each time was."""

    at: int
    """No time before this is still to be looked at."""
    counts: dict[Kind, int] = {}
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    ended: bool = False
    full: bool = False
    """The tenant's quota has no room for more."""

    @property
    def looked_at(self) -> int:
        """About how many times is decided."""
        return sum(self.counts.values())

    @property
    def fires(self) -> int:
        """How many run."""
        return sum(self.counts.get(kind, 0) for kind in RUNS)

    def after(self, found: list[Verdict], at: int, *, ended: bool, full: bool) -> "Progress":
        """This, and some times more."""
        counts = dict(self.counts)
        for one in found:
            counts[one.kind] = counts.get(one.kind, 0) + 1
        runs = tuple(one.fire.nominal_at for one in found if one.runs)
        first = (*self.first, *runs)[:SHOWN]
        return Progress(at, counts, first, (*self.last, *runs)[-SHOWN:], ended, full)

    def document(self, asked: Asked) -> Document:
        """What came of it, as it is answered."""
        goes_on = self.at <= asked.to_at and not self.ended
        return {
            "fires": self.fires,
            **{kind: self.counts.get(kind, 0) for kind in ("absent", "missed", "skipped")},
            **{kind: self.counts.get(kind, 0) for kind in ("kept", "held", "forgotten")},
            "beyond_max_fires": self.counts.get("beyond", 0),
            "first": [written(at) for at in self.first],
            "last": [written(at) for at in self.last],
            "next": written(self.at) if goes_on else None,
            "dry_run": asked.dry_run,
        }


async def fill(call: Call) -> Reply:
    """POST /v1/schedules/{id}/backfill."""
    request: BackfillRequest = BACKFILL.decode(call.body, call.ports.config.server.json_depth_max)
    seen = await call.ports.database.read(lambda tx: schedules.find(tx, call.tenant, call.parameters["id"]))
    check_version(call, seen.schedule)
    asked = await call.kept.aside(lambda: _asked(request, seen.schedule, call.now))
    if asked.dry_run:
        return answer(OK, (await _counted(call, asked)).document(asked))
    key = key_of(call)
    with call.in_flight.held(key):
        before = await begin(call, key)
        if before is not None and before.body:
            return reply(before)
        progress = _progress_of(before, asked)
        while not _is_done(progress, asked):
            if call.ports.draining():
                detail = (
                    f"This server is stopping; {progress.fires} are on their way. Send the request again for the rest."
                )
                raise Refused("draining", detail)
            progress = await after_long_pauses(call, partial(_filled, call, asked, progress, key))
            if progress.full:
                raise _no_room(progress)
    return reply(_stored(progress, asked))


def _asked(request: BackfillRequest, schedule: Schedule, now: int) -> Asked:
    """What is asked for, once it is known to make sense."""
    faults = Faults()
    from_at = _instant(faults, "/from", request.from_)
    to_at = now if request.to is None else _instant(faults, "/to", request.to)
    faults.end()
    if to_at > now:
        faults.add(
            "/to", "This is still to come, and a backfill is about times that have passed. Leave it out for now."
        )
    elif from_at > to_at:
        end = "now, which is where it ends without a `to`" if request.to is None else "`to`"
        faults.add("/from", f"This is after {end}: there is nothing between them.")
    if request.limit is not None and not 1 <= request.limit <= TIMES_MAX:
        faults.add("/limit", f"This is a number from 1 to {TIMES_MAX}.")
    faults.end()
    begin_at, end_at = bounds(schedule, from_at, to_at)
    _check_within(schedule, from_at, to_at)
    if request.limit is None:
        _check_size(schedule, begin_at, end_at)
    overlap = request.overlap or ("allow" if schedule.overlap == "allow" else "buffer_all")
    line = backfill_line(schedule.id) if overlap == "buffer_all" else None
    return Asked(begin_at, to_at, line, request.held, request.limit, request.dry_run)


def _instant(faults: Faults, pointer: str, value: Instant) -> int:
    try:
        return instant_ms(value)
    except ValueError as error:
        faults.add(pointer, str(error))
        return 0


def _check_within(schedule: Schedule, from_at: int, to_at: int) -> None:
    """Refuse what lies before its beginning, or behind its end: it has no times there."""
    if schedule.start_at is not None and to_at < schedule.start_at:
        detail = f"The schedule begins at {written(schedule.start_at)} (`start_at`): it has no times before that."
        raise Refused("validation_failed", detail, errors=[("/to", detail)])
    if schedule.end_at is not None and from_at > schedule.end_at:
        detail = f"The schedule ended at {written(schedule.end_at)} (`end_at`): it has no times after that."
        raise Refused("validation_failed", detail, errors=[("/from", detail)])


def _check_size(schedule: Schedule, begin_at: int, end_at: int) -> None:
    """Refuse more than is done in one request."""
    if end_at < begin_at:
        return
    times = sum(count_fires(one, begin_at - 1, end_at) for one in members(schedule.rule))
    if times > TIMES_MAX:
        detail = (
            f"These are up to {times} times, and a backfill takes {TIMES_MAX}. Ask for a shorter stretch, or give a "
            "`limit` and go on from the `next` of each answer."
        )
        raise Refused("validation_failed", detail, errors=[("/from", detail)])


def _progress_of(before: StoredAnswer | None, asked: Asked) -> Progress:
    text = None if before is None else before.headers.get("progress")
    return Progress(asked.from_at) if text is None else msgspec.json.decode(text, type=Progress)


def _is_done(progress: Progress, asked: Asked) -> bool:
    """Whether there is no more, or enough: of times that do not run, no more are looked at than could."""
    limit = TIMES_MAX if asked.limit is None else asked.limit
    return progress.ended or progress.fires >= limit or progress.looked_at >= TIMES_MAX


def _stored(progress: Progress, asked: Asked) -> StoredAnswer:
    """The answer; until it is known, how far it is."""
    if _is_done(progress, asked):
        return StoredAnswer(OK, encode(progress.document(asked)).decode())
    return StoredAnswer(OK, "", {"progress": encode(progress).decode()})


def _no_room(progress: Progress) -> Refused:
    detail = (
        f"{progress.fires} are on their way, and the tenant's quota of unfinished tasks has no room for more. "
        "Send the request again when some have ended."
    )
    return Refused("quota_exceeded", detail, retry_after_ms=tenants.QUOTA_RETRY_MS)


def _next_times(schedule: Schedule, asked: Asked, at: int) -> tuple[list[Fire], bool]:
    """The times to look at next, and whether these are the last."""
    _, end_at = bounds(schedule, asked.from_at, asked.to_at)
    found = upcoming(schedule.rule, at - 1, SLICE, end_at) if at <= end_at else []
    return found, len(found) < SLICE


async def _judged(tx: Transaction, seen: Seen, asked: Asked, progress: Progress) -> tuple[list[Verdict], bool]:
    """What becomes of the next times, and whether these are the last."""
    schedule = seen.schedule
    fires, ended = _next_times(schedule, asked, progress.at)
    if not fires:
        return [], True
    rows = await ledger.between(tx, schedule.id, fires[0].nominal_at, fires[-1].nominal_at)
    shade = shade_of(schedule.rule.timezone, schedule.calendars, schedule.skips, seen.calendars)
    left = runs_left(schedule, seen.tasks)
    if asked.dry_run and left is not None:
        left = max(0, left - progress.fires)
    return verdicts(schedule, fires, rows, shade, held_too=asked.held_too, left=left), ended


def _cut(found: list[Verdict], runs_max: int) -> list[Verdict]:
    """As many of them as there may be runs."""
    runs = 0
    for place, one in enumerate(found):
        runs += one.runs
        if runs > runs_max:
            return found[:place]
    return found


def _beyond(found: list[Verdict], asked: Asked, *, ended: bool) -> int:
    return asked.to_at + 1 if ended else found[-1].fire.nominal_at + 1


async def _counted(call: Call, asked: Asked) -> Progress:
    """What it would come to."""
    progress = Progress(asked.from_at)
    while not _is_done(progress, asked):
        place = progress

        async def operation(tx: Transaction, place: Progress = place) -> Progress:
            seen = await schedules.find(tx, call.tenant, call.parameters["id"])
            # What a pause has passed over is written down as soon as anything is done.
            shown = seen if not seen.schedule.paused else _passed_over(seen, call.now)
            found, ended = await _judged(tx, shown, asked, place)
            if seen is not shown:
                found = [_skipped_since(one, seen.schedule.cursor_at) for one in found]
            if asked.limit is not None and len(cut := _cut(found, asked.limit - place.fires)) < len(found):
                found, ended = cut, False
            return place.after(found, _beyond(found, asked, ended=ended), ended=ended, full=False)

        progress = await call.ports.database.read(operation)
    return progress


def _passed_over(seen: Seen, now: int) -> Seen:
    moved = msgspec.structs.replace(seen.schedule, cursor_at=max(seen.schedule.cursor_at, now))
    return msgspec.structs.replace(seen, schedule=moved)


def _skipped_since(one: Verdict, cursor_at: int) -> Verdict:
    is_passed_over = one.kind == "absent" and one.fire.nominal_at > cursor_at
    return msgspec.structs.replace(one, kind="skipped") if is_passed_over else one


async def _filled(call: Call, asked: Asked, before: Progress, key: IdempotencyKey | None) -> Progress:
    """One slice."""
    done: list[Plan] = []
    going: list[Due] = []

    async def operation(tx: Transaction) -> Progress:
        if asked.line is not None:  # lines come before the rows of schedules
            await lines.hold(tx, [(call.tenant, asked.line)])
        work = await opened(call, tx)
        await work.pass_over()
        found, ended = await _judged(tx, work.seen, asked, before)
        full = False
        if asked.limit is not None and len(cut := _cut(found, asked.limit - before.fires)) < len(found):
            found, ended = cut, False
        room = (await tenants.rooms(tx, [call.tenant])).left(call.tenant)
        if room is not None and len(cut := _cut(found, room)) < len(found):
            found, ended, full = cut, False, True
        going[:] = await _let_run(tx, work, found, asked.line)
        at = _beyond(found, asked, ended=ended) if found or ended else before.at
        after = before.after(found, at, ended=ended, full=full)
        if key is not None:
            await names.answer(tx, key, _stored(after, asked))
        done[:] = work.plans
        return after

    after = await call.ports.database.write(operation, Lane.UPKEEP)
    call.ports.planned(done)
    call.ports.due(going)
    return after


async def _let_run(tx: Transaction, work: Work, found: list[Verdict], line: str | None) -> list[Due]:
    """Carry out what is to run of these; who goes first of a line where nobody is at work."""
    if not any(one.runs for one in found):
        return []
    ids = [one.row.task_id for one in found if one.runs and one.row is not None and one.row.task_id is not None]
    idle = {task.id: task for task in await tasks.states(tx, ids)} if ids else {}
    seen = work.seen
    await work.carry_out(backfill(seen.schedule, found, Tasks(seen.tasks, idle), work.moment, in_line=line is not None))
    return [] if line is None else await lines.begin(tx, seen.schedule.tenant, line, work.moment.by.now)
