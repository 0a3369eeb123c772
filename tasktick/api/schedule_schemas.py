"""The models of requests about schedules; how they are meant is told in `schemas`."""

from typing import Annotated, ClassVar, Literal, get_args

from msgspec import UNSET, Meta, UnsetType, field

from tasktick.api import times
from tasktick.api.schemas import (
    Duration,
    Instant,
    Key,
    Name,
    Priority,
    Queue,
    Request,
    RetryRequest,
    Tags,
    TargetOverrides,
    TargetRequest,
)
from tasktick.model import schedule as model
from tasktick.model.schedule import CATCH_UP_MAX, FAILURES_MAX
from tasktick.timetable.rule import MEMBERS_MAX

LocalInstant = Annotated[
    times.Instant,
    Meta(
        description="RFC 3339, or Unix seconds; without an offset it is of the schedule's timezone.",
        examples=["2030-12-01T09:00:00", "2030-12-01T09:00:00+01:00", 1922342400],
    ),
]
Cron = Annotated[str, Meta(examples=["0 9 * * MON-FRI", "@daily"], extra_json_schema={"maxLength": 256})]
Rrule = Annotated[
    str,
    Meta(
        description="A recurrence rule of RFC 5545, alone or after a DTSTART line.",
        examples=["FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17"],
        extra_json_schema={"maxLength": 2_048},
    ),
]
Zone = Annotated[str, Meta(examples=["Europe/Berlin"])]
Fires = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 1_000_000_000})]
Overlap = Annotated[str, Meta(extra_json_schema={"enum": [*get_args(model.Overlap)]})]
OverlapKey = Annotated[
    str,
    Meta(
        description="Schedules that share it are one for overlap.",
        examples=["warehouse"],
        extra_json_schema={"minLength": 1, "maxLength": 128},
    ),
]
Failures = Annotated[
    int,
    Meta(
        description="After so many fires in a row that gave up, it pauses itself.",
        extra_json_schema={"minimum": 1, "maximum": FAILURES_MAX},
    ),
]
Note = Annotated[str, Meta(extra_json_schema={"maxLength": 1_000})]


class UseRequest(Request):
    """That a schedule heeds a calendar: it does not fire in its times, or in them alone."""

    name: str
    mode: Literal["exclude", "include"] = "exclude"


Uses = Annotated[
    list[str | UseRequest],
    Meta(description="Calendars in whose times it does not fire, by name.", extra_json_schema={"maxItems": 10}),
]


class DstRequest(Request):
    """What becomes of a fixed time that a day does not have, or has twice."""

    gap: Literal["run_after", "skip"] | None = None
    repeat: Literal["first", "second", "both"] | None = None


class CatchUpRequest(Request):
    """What becomes of times that nobody was there for."""

    mode: Literal["none", "latest", "earliest", "all"] | None = None
    window: Duration | None = None
    max: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": CATCH_UP_MAX})] | None = None


class ScheduleTaskRequest(Request):
    """What each fire of a schedule is: a task, but for what its schedule says."""

    ADVICE: ClassVar[dict[str, str]] = {
        "key": "A key names one task, and this stands for many. Give the schedule a key.",
        "run_at": "The schedule says when: `cron`, `every` or `rrule`, and `start_at`.",
        "delay": "The schedule says when: `cron`, `every` or `rrule`, and `start_at`.",
        "jitter": "The schedule has a jitter of its own: give it there.",
    }

    target: TargetRequest
    name: Name | None = None
    type: Name | None = None
    queue: Queue | None = None
    priority: Priority | None = None
    retry: RetryRequest | None = None
    sla: Duration | None = None
    expires_in: Duration | None = None
    delivery: Literal["at_least_once", "at_most_once"] | None = None
    tags: Tags | None = None
    key: None = None
    run_at: None = None
    delay: None = None
    jitter: None = None
    callback: None = None
    payload: None = None


class SpecRequest(Request):
    """One rule of several: one of `cron`, `every` and `rrule`."""

    cron: Cron | None = None
    every: Duration | None = None
    anchor: LocalInstant | None = None
    rrule: Rrule | None = None


Specs = Annotated[
    list[SpecRequest],
    Meta(
        description="Several rules in place of one: all their times.",
        extra_json_schema={"minItems": 1, "maxItems": MEMBERS_MAX},
    ),
]


class Timing(Request, kw_only=True):
    """A schedule, but for what it does: when it fires, and what becomes of times that cannot be kept."""

    cron: Cron | None = None
    every: Duration | None = None
    anchor: LocalInstant | None = None
    rrule: Rrule | None = None
    spec: Specs | None = None
    timezone: Zone | None = None
    dst: DstRequest | None = None
    start_at: LocalInstant | None = None
    end_at: LocalInstant | None = None
    max_fires: Fires | None = None
    jitter: Duration | None = None
    overlap: Overlap | None = None
    catch_up: CatchUpRequest | None = None
    name: Name | None = None
    tags: Tags | None = None
    paused: bool | None = None
    note: Note | None = None
    calendars: Uses | None = None
    pause_on_failures: Failures | None = None
    overlap_key: OverlapKey | None = None
    workflow: None = None


class PreviewRequest(Timing, kw_only=True):
    """A schedule to try: whole, or without what it does."""

    key: Key | None = None
    task: ScheduleTaskRequest | None = None


class ScheduleRequest(Timing, kw_only=True):
    """A schedule to make."""

    key: Key | None = None
    task: ScheduleTaskRequest


class SchedulePatch(Request):
    """What is to be different about a schedule: a field that is given replaces the whole of it, null resets it."""

    ADVICE: ClassVar[dict[str, str]] = {
        "key": "A schedule keeps its key: make another one with the key that you want, then remove this one."
    }

    cron: Cron | UnsetType | None = UNSET
    every: Duration | UnsetType | None = UNSET
    anchor: LocalInstant | UnsetType | None = UNSET
    rrule: Rrule | UnsetType | None = UNSET
    spec: Specs | UnsetType | None = UNSET
    timezone: Zone | UnsetType | None = UNSET
    dst: DstRequest | UnsetType | None = UNSET
    start_at: LocalInstant | UnsetType | None = UNSET
    end_at: LocalInstant | UnsetType | None = UNSET
    max_fires: Fires | UnsetType | None = UNSET
    jitter: Duration | UnsetType | None = UNSET
    overlap: Overlap | UnsetType | None = UNSET
    catch_up: CatchUpRequest | UnsetType | None = UNSET
    name: Name | UnsetType | None = UNSET
    tags: Tags | UnsetType | None = UNSET
    paused: bool | UnsetType | None = UNSET
    note: Note | UnsetType | None = UNSET
    task: ScheduleTaskRequest | UnsetType = UNSET
    calendars: Uses | UnsetType | None = UNSET
    pause_on_failures: Failures | UnsetType | None = UNSET
    overlap_key: OverlapKey | UnsetType | None = UNSET
    workflow: None = None


class PauseRequest(Request):
    """Until when a schedule is to stand still, and why."""

    until: Instant | None = None
    note: Note | None = None


class Occurrence(Request):
    """A nominal time of a schedule."""

    at: Annotated[
        times.Instant, Meta(description="A nominal time to come.", examples=["2026-12-01T09:00:00+01:00", 1922342400])
    ]


class BackfillRequest(Request):
    """Times that have passed and did not run, to run after all."""

    from_: Annotated[Instant, Meta(description="The first instant.")] = field(name="from")
    to: Annotated[Instant, Meta(description="The last instant; now, if it is not given.")] | None = None
    overlap: (
        Annotated[
            Literal["allow", "buffer_all"],
            Meta(
                description="All at once, as the limits of queue and host let them, or one after the other. If it is "
                "not given: all at once where the schedule's own `overlap` is `allow`."
            ),
        ]
        | None
    ) = None
    held: Annotated[bool, Meta(description="Run what a calendar or a request leaves out, too.")] = False
    limit: (
        Annotated[
            int,
            Meta(
                description="Start so many at most; `next` of the answer says where to go on.",
                extra_json_schema={"minimum": 1, "maximum": 100_000},
            ),
        ]
        | None
    ) = None
    dry_run: Annotated[bool, Meta(description="Only count.")] = False


class Trigger(Request):
    """A fire now, outside the ledger, and what is different about it."""

    target: TargetOverrides | None = None
    queue: Queue | None = None
    priority: Priority | None = None
    name: Name | None = None
    tags: Tags | None = None
