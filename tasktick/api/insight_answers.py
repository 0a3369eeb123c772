"""The models of explanations and forecasts, field by field as `task_explain`, `schedule_explain` and `forecast`
write them."""

from typing import Annotated, Literal

from msgspec import Meta, field

from tasktick.api.answers import Answered, StateWord, TaskId, Time
from tasktick.api.schedule_answers import LedgerRow, ScheduleId

TaskCode = Literal[
    # What has happened.
    "created",
    "made_by_schedule",
    "triggered",
    "due",
    "fire_runs",
    "fire_skipped",
    "fire_missed",
    "attempts_left_out",
    "attempt_succeeded",
    "attempt_failed",
    "attempt_interrupted",
    "attempt_lease_lost",
    "attempt_unknown",
    "attempt_released",
    "reopened",
    # What it waits for.
    "not_due",
    "backoff",
    "parked",
    "undecided",
    "behind_earlier_fire",
    "held_global",
    "held_tenant",
    "held_queue",
    "held_host",
    "waiting_turn",
    "being_claimed",
    "not_loaded",
    "not_known",
    "owner_elsewhere",
    "no_owner",
    "paused",
    "running",
    "cancel_requested",
    "lease_expired",
    # How it ended.
    "succeeded",
    "dead",
    "cancelled",
    "expired",
    "skipped",
    "missed",
]
ScheduleCode = Literal[
    # Why the instant is no time of it.
    "before_start",
    "after_end",
    "second_differs",
    "minute_differs",
    "hour_differs",
    "day_differs",
    "month_differs",
    "between_intervals",
    "rrule_differs",
    "before_rrule_start",
    "dst_gap",
    "dst_repeat",
    # What becomes of a time to come.
    "will_run",
    "will_be_skipped",
    "paused",
    "max_fires_reached",
    "may_reach_max_fires",
    "made_ahead",
    # What became of one.
    "ran",
    "skipped",
    "missed",
    "in_stretch",
    "task_state",
    "undecided",
    "before_creation",
    "not_in_ledger",
    # About the schedule itself.
    "other_version",
    "edited_since",
    "deleted",
    "later_zone_data",
]


class TaskStep(Answered):
    """Something that happened to a task, or that it waits for."""

    at: Annotated[Time | None, Meta(description="When; null where that is not recorded.")]
    code: TaskCode
    detail: Annotated[str, Meta(description="In words.")]


class TaskExplanation(Answered):
    """Why a task did, did not, or does not yet run: what is recorded, in order; last, what it waits for."""

    id: TaskId
    state: StateWord
    at: Annotated[Time, Meta(description="When this was so.")]
    steps: list[TaskStep]


class ScheduleStep(Answered):
    """Something that is to be said about an instant."""

    code: ScheduleCode
    detail: Annotated[str, Meta(description="In words.")]


class Neighbour(Answered):
    """A nominal time beside the instant."""

    nominal: Time
    local: Annotated[str, Meta(description="The same in the zone of the schedule, with its offset.")]


class ScheduleExplanation(Answered):
    """What a schedule did, does or will do at an instant, and why."""

    id: ScheduleId
    at: Time
    local: Annotated[str | None, Meta(description="The same in the zone of the schedule, with its offset.")]
    nominal: Annotated[bool, Meta(description="Whether it has a nominal time then.")]
    version: Annotated[int | None, Meta(description="Of the schedule now; null if it is gone.")]
    steps: list[ScheduleStep]
    before: Neighbour | None
    after: Neighbour | None
    fire: Annotated[LedgerRow | None, Meta(description="Its row in the ledger.")]
    lateness: Annotated[float | None, Meta(description="Seconds from when it was due until it started.")]
    attempts: Annotated[int | None, Meta(description="How often its task was tried; null if there is none.")]


class ForecastNote(Answered):
    """Why a forecast is not exact."""

    code: Literal["sampled", "schedules_left_out", "tasks_left_out", "lanes_pooled", "estimated"]
    detail: str


class ForecastTotals(Answered):
    """All of it."""

    fires: Annotated[int, Meta(description="Fall due within the time.")]
    delayed: Annotated[int, Meta(description="Of those, how many start in a later minute than they are due.")]
    backlog_max: Annotated[int, Meta(description="Due and not started, at the end of the worst minute.")]
    backlog_end: Annotated[int, Meta(description="Due and not started, at the end of all.")]
    schedules: Annotated[int, Meta(description="Schedules that there are, those that stand still too.")]


class ForecastBucket(Answered):
    """A step in which something happens."""

    at: Time
    fires: Annotated[int, Meta(description="Fall due in it.")]
    starts: Annotated[int, Meta(description="Start in it.")]
    delayed: Annotated[int, Meta(description="Of those that start, how many were due in an earlier minute.")]
    backlog: Annotated[int, Meta(description="Due and not started at its end.")]


class ForecastPeak(Answered):
    """One of the fullest minutes."""

    at: Time
    fires: int
    backlog: Annotated[int, Meta(description="Due and not started at its end.")]
    cleared_at: Annotated[
        Time | None, Meta(description="When all of that has started; null if nothing waits, or later.")
    ]


class NamedPeak(Answered):
    """The fullest minute of a part."""

    at: Time
    fires: int


class ForecastPart(Answered):
    """What falls due of a part."""

    name: str
    fires: int
    peak: NamedPeak


class ForecastParts(Answered):
    """The largest parts, and what all others come to."""

    top: list[ForecastPart]
    names: Annotated[int, Meta(description="How many parts there are.")]
    rest: Annotated[int, Meta(description="Fires of those that are not named.")]


class ForecastBy(Answered):
    """The same by what it is for."""

    queue: ForecastParts
    host: ForecastParts
    tenant: ForecastParts


class ForecastLimits(Answered):
    """What it was played against."""

    nodes: int
    in_flight: Annotated[int, Meta(description="Calls at once, of all nodes together.")]
    in_flight_per_host: Annotated[int, Meta(description="Calls at once to one host, at most.")]
    hosts_measured: Annotated[int, Meta(description="Hosts of which it is known how long calls last.")]


class Forecast(Answered):
    """What is to come. A bucket in which nothing happens is left out."""

    from_: Time = field(name="from")
    to: Time
    step: Annotated[int, Meta(description="Seconds.")]
    made_at: Time
    complete: Annotated[bool, Meta(description="Whether nothing was left out or estimated.")]
    notes: list[ForecastNote]
    totals: ForecastTotals
    buckets: list[ForecastBucket]
    peaks: Annotated[list[ForecastPeak], Meta(description="The fullest minutes, the fullest first.")]
    by: ForecastBy
    limits: ForecastLimits
