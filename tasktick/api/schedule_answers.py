"""The models of answers about schedules, field by field as `schedules` and `schedule_render` write them."""

from typing import Annotated, Literal

from msgspec import Meta, field

from tasktick.api.answers import Answered, Cursor, RetryShown, Seconds, StateWord, TargetShown, TaskId, Time
from tasktick.model.schedule import CatchUpMode, Gap, Outcome, Overlap, PauseReason, Repeat

ScheduleId = Annotated[str, Meta(extra_json_schema={"pattern": "^sch_[0-9a-f]{32}$"})]


class Fire(Answered):
    """When a schedule would fire."""

    nominal: Time
    local: Annotated[str, Meta(description="The same in the zone of the schedule, with its offset.")]
    effective: Time
    collapsed: Annotated[int, Meta(description="How many times of its rules fall on this instant.")]
    skipped: Annotated[str | None, Meta(description="Why it will not run: a calendar, or a request.")]
    note: Annotated[str | None, Meta(description="What a change of clocks, or a calendar, makes of it.")]


class Warned(Answered):
    """What is odd about a schedule."""

    code: str
    detail: str


class Preview(Answered):
    """What a schedule would come to."""

    fires: list[Fire]
    description: Annotated[str, Meta(description="What it means, in words.")]
    warnings: list[Warned]


class DstShown(Answered):
    """What becomes of a fixed time that a day does not have, or has twice."""

    gap: Gap
    repeat: Repeat


class CatchUpShown(Answered):
    """What becomes of times that nobody was there for."""

    mode: CatchUpMode
    window: Seconds | None
    max: int


class ScheduleTask(Answered):
    """What each fire is."""

    name: str | None
    type: str | None
    queue: str
    priority: int
    sla: Seconds
    expires_in: Seconds | None
    delivery: Literal["at_least_once", "at_most_once"]
    tags: dict[str, str]
    target: TargetShown
    retry: RetryShown


class FireCounts(Answered):
    """What became of its times so far; of those that ran, how many gave up."""

    fired: int
    skipped: int
    missed: int
    failed: int


class UseShown(Answered):
    """A calendar in whose times alone it fires."""

    name: str
    mode: Literal["exclude", "include"]


class RuleShown(Answered):
    """One rule of several."""

    cron: str | None
    every: Seconds | None
    anchor: Time | None
    rrule: str | None


class Schedule(Answered):
    """A schedule."""

    id: ScheduleId
    key: str | None
    tenant: str
    name: str | None
    cron: str | None
    every: Seconds | None
    anchor: Time | None
    rrule: Annotated[str | None, Meta(description="A recurrence rule of RFC 5545.")]
    spec: Annotated[list[RuleShown] | None, Meta(description="Several rules in place of one.")]
    timezone: str
    dst: DstShown
    start_at: Time | None
    end_at: Time | None
    max_fires: int | None
    jitter: Seconds
    overlap: Overlap
    overlap_key: Annotated[str | None, Meta(description="Schedules that share it are one for overlap.")]
    catch_up: CatchUpShown
    pause_on_failures: Annotated[
        int | None, Meta(description="After so many fires in a row that gave up, it pauses itself.")
    ]
    consecutive_failures: Annotated[
        int, Meta(description="Fires that gave up since one succeeded, or since it was resumed.")
    ]
    calendars: list[str | UseShown]
    skips: Annotated[list[Time], Meta(description="Times to come that are left out by request.")]
    task: ScheduleTask
    workflow: None
    tags: dict[str, str]
    paused: bool
    paused_until: Time | None
    pause_reason: Annotated[
        PauseReason | None,
        Meta(description="By whom it was paused: somebody, its failures, or a receiver that answered 410 Gone."),
    ]
    note: str | None
    next_fire_at: Annotated[Time | None, Meta(description="Its next nominal time.")]
    last_fire_at: Annotated[Time | None, Meta(description="The nominal time of its last run.")]
    counts: FireCounts
    ended: Annotated[bool, Meta(description="Whether nothing is to come any more.")]
    tzdata: Annotated[str | None, Meta(description="The zone data that its next time was worked out with.")]
    clock_behind_ledger: Annotated[bool, Meta(description="Whether times are decided that the clock has yet to reach.")]
    created_at: Time
    updated_at: Time
    version: int


class SchedulePage(Answered):
    """A page of schedules."""

    data: list[Schedule]
    next_cursor: Cursor


class LedgerRow(Answered):
    """What became of a nominal time, or of a stretch of them."""

    nominal: Time
    local: str
    effective: Annotated[Time | None, Meta(description="When its task is or was due.")]
    outcome: Outcome
    reason: str | None
    task_id: TaskId | None
    state: Annotated[StateWord | None, Meta(description="Of its task, as it stands now.")]
    collapsed: Annotated[int, Meta(description="How many local times fell on this instant.")]
    missed: Annotated[int, Meta(description="How many missed ones this run stands for.")]
    from_: Time | None = field(name="from")
    to: Time | None
    count: Annotated[int, Meta(description="How many times there are in a stretch from `from` to `to`.")]
    schedule_version: int
    node: str
    epoch: int
    tzdata: str
    decided_at: Time
    started_at: Time | None
    completed_at: Time | None


class LedgerPage(Answered):
    """A page of a ledger, the latest times first."""

    data: list[LedgerRow]
    next_cursor: Cursor
