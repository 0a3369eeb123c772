"""What is to be said about one instant of a schedule, as steps of (code, sentence). Pure."""

from tasktick.api import render
from tasktick.api.task_reasons import reason_in_words
from tasktick.api.times import seconds, written
from tasktick.model.ids import wire
from tasktick.model.schedule import Schedule
from tasktick.model.state import State
from tasktick.scheduler.book import due_of
from tasktick.store.rows import TaskView
from tasktick.store.schedules import LedgerEntry, Seen
from tasktick.timetable.calendars import CLEAR, Shade, shade_of
from tasktick.timetable.explain import why_not
from tasktick.timetable.upcoming import count_fires, walked

Step = tuple[str, str]
# Times of several rules are walked through to be counted: so many at most.
WALKED_MAX = 20_000
# One of a single rule is counted by the month.
AHEAD_MAX_MS = 100 * 366 * 86_400_000


def elapsed(entry: LedgerEntry, task: TaskView | None, now: int) -> list[Step]:
    """What became of a time, from its row and its task."""
    row = entry.row
    by = f"by node {row.node} under epoch {row.epoch}, at {written(row.decided_at)}"
    stands = f" It stands for {row.missed:,} missed times too." if row.missed else ""
    if row.until_at is not None:
        steps = [
            (
                "in_stretch",
                f"It lies in a stretch of {row.times:,} times from {written(row.nominal_at)} to "
                f"{written(row.until_at)} that have one row: {row.outcome}, as {reason_in_words(row.reason)}",
            )
        ]
    elif row.outcome == "run":
        why = " after it had waited for the fire before it" if row.reason == "buffered" else ""
        steps = [("ran", f"It ran{why}: written down {by}.{stands}")]
    else:
        steps = [(row.outcome, f"It was {row.outcome}: {reason_in_words(row.reason)} Written down {by}.")]
    if row.collapsed > 1:
        steps[0] = (steps[0][0], f"{steps[0][1]} {row.collapsed} times of its rules fell on this instant.")
    if task is not None:
        steps.append(("task_state", _task(task, now)))
    elif row.task_id is not None:
        steps.append(("task_state", f"Its task {wire(render.TASK, row.task_id)} is not kept any more."))
    return steps


def _task(task: TaskView, now: int) -> str:
    state = task.state
    said = f"Its task {wire(render.TASK, state.id)} is {render.shown_state(state, now).word}"
    late_ms = render.lateness_ms(state, task.detail.created_at)
    if late_ms is not None:
        said += f"; it started {seconds(late_ms):g} s after it was due"
    tried = f", after {state.attempt} attempts" if state.attempt > 1 else ""
    return f"{said}{tried}. GET /v1/tasks/{wire(render.TASK, state.id)}/explain says more."


def no_time(schedule: Schedule, at: int) -> list[Step]:
    """Why the schedule has no time at this instant, by its rule as it is now."""
    steps: list[Step] = []
    if schedule.start_at is not None and at < schedule.start_at:
        steps.append(("before_start", f"It begins at {written(schedule.start_at)} (`start_at`)."))
    if schedule.end_at is not None and at > schedule.end_at:
        steps.append(("after_end", f"It ends at {written(schedule.end_at)} (`end_at`)."))
    if not steps:
        steps += [(one.code, one.detail) for one in why_not(schedule.rule, at)]
    if _is_within_pause(schedule, at):
        steps.append(("paused", f"{_paused(schedule)}, so its times are skipped as well."))
    if at <= schedule.updated_at and schedule.version > 1:
        steps.append(
            (
                "edited_since",
                f"This is by the rule of version {schedule.version}, of {written(schedule.updated_at)}. The "
                "ledger has no row for the instant, so it was no time of an earlier version, or is not kept any more.",
            )
        )
    return steps


def ahead(seen: Seen, task: TaskView | None, at: int, now: int) -> list[Step]:
    """What becomes of a time that has no row in the ledger."""
    schedule = seen.schedule
    if at <= schedule.cursor_at:
        return [_lost(schedule, at)]
    found = _in_the_way(seen, at, now)
    if found is not None:
        return [found]
    steps: list[Step] = []
    doubt = _fires_left(seen, at)
    if doubt is not None:
        steps.append(doubt)
        if doubt[0] == "max_fires_reached":
            return steps
    if schedule.next_at == at and task is not None:
        due = f"due at {written(task.state.due_at)}"
        shown = render.shown_state(task.state, now).word
        steps.append(("made_ahead", f"Its task {wire(render.TASK, task.state.id)} is made: it is {shown}, {due}."))
    if at <= now:
        said = "It is due, and the node that owns the schedule has yet to write down what becomes of it."
        return [*steps, ("undecided", said)]
    due_at = due_of(schedule, at)
    later = f", {seconds(due_at - at):g} s later by its jitter" if due_at > at else ""
    started = task is not None and schedule.next_at == at and task.state.state is not State.SCHEDULED
    if not started:
        steps.append(("will_run", f"It will run at {written(due_at)}{later}, unless the schedule is changed."))
    return steps


def _lost(schedule: Schedule, at: int) -> Step:
    if at <= schedule.created_at:
        return (
            "before_creation",
            f"The schedule was made at {written(schedule.created_at)}: its times before that are not its own.",
        )
    return (
        "not_in_ledger",
        "Its rule has this time, and the ledger has no row for it: it was no time under the version of then, "
        "or its row is older than what is kept.",
    )


def _shade(seen: Seen) -> Shade:
    schedule = seen.schedule
    return shade_of(schedule.rule.timezone, schedule.calendars, schedule.skips, seen.calendars)


def _is_within_pause(schedule: Schedule, at: int) -> bool:
    """Whether an instant that is not decided about falls on a pause."""
    return schedule.paused and at > schedule.cursor_at and at <= (schedule.paused_until or at)


def _paused(schedule: Schedule) -> str:
    until = "" if schedule.paused_until is None else f" until {written(schedule.paused_until)}"
    return f"The schedule is paused{until}"


def _meanwhile(schedule: Schedule, at: int, now: int) -> str:
    if at <= now:
        return "this time is skipped, which is written down when it goes on."
    if schedule.paused_until is None:
        return "this time is skipped unless it is resumed before."
    return "this time is skipped."


def _in_the_way(seen: Seen, at: int, now: int) -> Step | None:
    """What keeps a time to come from running."""
    schedule = seen.schedule
    if _is_within_pause(schedule, at):
        return "paused", f"{_paused(schedule)}: {_meanwhile(schedule, at, now)}"
    held = _shade(seen).reason(at)
    if held is not None:
        tense = "will be" if at > now else "is about to be"
        return "will_be_skipped", f"It {tense} skipped: {reason_in_words(held)}"
    return None


def _fires_left(seen: Seen, at: int) -> Step | None:
    """Whether `max_fires` is reached before this time."""
    schedule = seen.schedule
    if schedule.max_fires is None:
        return None
    left = schedule.max_fires - schedule.fired
    ran = f"It has run {schedule.fired:,} times of {schedule.max_fires:,} (`max_fires`)"
    if left <= 0:
        return "max_fires_reached", f"{ran}: nothing more is to come."
    begin = schedule.cursor_at if schedule.start_at is None else max(schedule.cursor_at, schedule.start_at - 1)
    is_far = at - begin > AHEAD_MAX_MS
    if is_far or (schedule.rule.spec and walked(schedule.rule, begin, at - 1) > WALKED_MAX):
        return "may_reach_max_fires", f"{ran}, and too many times lie before this one to be counted."
    before = count_fires(schedule.rule, begin, at - 1)
    if before < left:
        return None
    if _shade(seen) is not CLEAR or schedule.overlap != "allow":
        said = f"{ran}, and {before:,} times lie before this one: it runs only if enough of them are skipped."
        return "may_reach_max_fires", said
    return "max_fires_reached", f"{ran}, and {before:,} times lie before this one: it will not be reached."
