"""The part of the table that is about schedules."""

from tasktick.access.roles import Permission
from tasktick.api import (
    answers,
    filters,
    schedule_answers,
    schedule_backfill,
    schedule_fires,
    schedule_skips,
    schedule_trigger,
    schedule_writes,
    schedules,
)
from tasktick.api.routing import Route
from tasktick.api.schedule_schemas import (
    BackfillRequest,
    Occurrence,
    PauseRequest,
    PreviewRequest,
    SchedulePatch,
    ScheduleRequest,
    Trigger,
)
from tasktick.api.schemas import Empty

READ, CREATE, MANAGE = Permission.READ, Permission.CREATE, Permission.MANAGE
ALL = "/v1/schedules"
ONE = f"{ALL}/{{id}}"
SKIPS = (
    ("skip", schedule_skips.skip, "Leave out one of its times to come"),
    ("unskip", schedule_skips.unskip, "Let a time run that was to be left out"),
)


def table() -> tuple[Route, ...]:
    """Its routes."""
    return (*_all(), *_read(), *_written(), *_acted(), *_made())


def _all() -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            ALL,
            schedule_writes.create,
            MANAGE,
            (201, 409, 422),
            "Create a schedule",
            answer=schedule_answers.Schedule,
            model=ScheduleRequest,
            size="body",
            writes=True,
        ),
        Route(
            "GET",
            ALL,
            schedules.list_,
            READ,
            (200, 422),
            "List schedules",
            query=filters.SCHEDULE_WORDS,
            answer=schedule_answers.SchedulePage,
        ),
        Route(
            "POST",
            f"{ALL}/preview",
            schedules.preview,
            READ,
            (200, 422),
            "Show when an unsaved schedule would fire",
            query=filters.PREVIEW_WORDS,
            answer=schedule_answers.Preview,
            model=PreviewRequest,
            size="body",
        ),
    )


def _read() -> tuple[Route, ...]:
    return (
        Route("GET", ONE, schedules.get, READ, (200, 404), "Show a schedule", answer=schedule_answers.Schedule),
        Route(
            "GET",
            f"{ONE}/upcoming",
            schedules.upcoming,
            READ,
            (200, 404, 422),
            "Show when a schedule will fire",
            query=filters.PREVIEW_WORDS,
            answer=schedule_answers.Upcoming,
        ),
        Route(
            "GET",
            f"{ONE}/fires",
            schedule_fires.fires,
            READ,
            (200, 404, 422),
            "List what became of each of its times",
            query=filters.LEDGER_WORDS,
            answer=schedule_answers.LedgerPage,
        ),
    )


def _written() -> tuple[Route, ...]:
    return (
        Route(
            "PUT",
            ONE,
            schedule_writes.put,
            MANAGE,
            (200, 201, 405, 412, 422),
            "Create a schedule by its key, or replace it",
            answer=schedule_answers.Schedule,
            model=ScheduleRequest,
            size="body",
            writes=True,
        ),
        Route(
            "PATCH",
            ONE,
            schedule_writes.patch,
            MANAGE,
            (200, 404, 412, 422),
            "Change a schedule",
            answer=schedule_answers.Schedule,
            model=SchedulePatch,
            size="body",
            writes=True,
        ),
        Route("DELETE", ONE, schedule_writes.delete, MANAGE, (204, 404, 412), "Remove a schedule", writes=True),
    )


def _acted() -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            f"{ONE}/pause",
            schedule_writes.hold,
            MANAGE,
            (200, 404, 409, 412, 422),
            "Let nothing of it start until it is resumed, or until a time",
            answer=schedule_answers.Schedule,
            model=PauseRequest,
            size="body",
            writes=True,
        ),
        Route(
            "POST",
            f"{ONE}/resume",
            schedule_writes.release,
            MANAGE,
            (200, 404, 409, 412),
            "Let it go on from now",
            answer=schedule_answers.Schedule,
            model=Empty,
            size="body",
            writes=True,
        ),
        *(
            Route(
                "POST",
                f"{ONE}/{word}",
                handler,
                MANAGE,
                (200, 404, 409, 412, 422),
                summary,
                answer=schedule_answers.Schedule,
                model=Occurrence,
                size="body",
                writes=True,
            )
            for word, handler, summary in SKIPS
        ),
    )


def _made() -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            f"{ONE}/trigger",
            schedule_trigger.trigger,
            CREATE,
            (201, 404, 409, 412, 422, 429),
            "Make a task of it now, outside its ledger",
            answer=answers.Task,
            model=Trigger,
            size="body",
            writes=True,
            makes_work=True,
        ),
        Route(
            "POST",
            f"{ONE}/backfill",
            schedule_backfill.fill,
            MANAGE,
            (200, 404, 409, 412, 422, 429),
            "Let times that have passed run after all",
            answer=schedule_answers.Backfill,
            model=BackfillRequest,
            size="body",
            writes=True,
            makes_work=True,
        ),
    )
