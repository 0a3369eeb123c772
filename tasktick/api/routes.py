"""The table of everything that can be asked: what the router serves, and what is described from it."""

from tasktick.access.roles import Permission
from tasktick.api import (
    admin_routes,
    answers,
    bulk_dead_letters,
    bulk_tasks,
    calendar_routes,
    check_routes,
    dead_letters,
    events,
    filters,
    health,
    insight_routes,
    schedule_routes,
    task_actions,
    task_batches,
    tasks,
)
from tasktick.api.description import handlers as description
from tasktick.api.event_frames import TaskEvent
from tasktick.api.routing import NDJSON, Route
from tasktick.api.schemas import (
    DeadLetterBulk,
    Empty,
    Replay,
    TaskBatch,
    TaskBulk,
    TaskPatch,
    TaskRequest,
)

READ, CREATE, CANCEL = Permission.READ, Permission.CREATE, Permission.CANCEL
MANAGE = Permission.MANAGE

ACTIONS = (
    ("cancel", CANCEL, "Cancel it; one that is running may end, and only its success is kept"),
    ("pause", MANAGE, "Hold it until it is resumed"),
    ("resume", MANAGE, "Let it go on, at its time or at once if that has passed"),
    ("run", MANAGE, "Run it now"),
    ("retry", MANAGE, "Try a dead, cancelled or expired one again"),
)
# They take up again what has ended, for which the tenant needs room.
REOPENING = frozenset({"run", "retry"})


def table() -> tuple[Route, ...]:
    """Every route."""
    return (
        *_open(),
        *description.routes_of(table),
        *_tasks(),
        *_task(),
        *_actions(),
        *_bulk(),
        *_dead_letters(),
        *schedule_routes.table(),
        *calendar_routes.table(),
        *insight_routes.table(),
        *check_routes.table(),
        *admin_routes.table(),
    )


def _open() -> tuple[Route, ...]:
    return (
        Route("GET", "/healthz", health.healthz, None, (200,), "Whether the process lives", answer=answers.Health),
        Route(
            "GET",
            "/readyz",
            health.readyz,
            None,
            (200, 503),
            "Whether it is ready, else why not",
            answer=answers.Ready,
        ),
        Route(
            "GET",
            "/metrics",
            health.metrics,
            None,
            (200,),
            "Metrics for Prometheus",
            answer=str,
            answer_media_type="text/plain",
        ),
        Route("GET", "/v1/stats", health.stats, READ, (200,), "Counts by state, lateness, rates", answer=answers.Stats),
        Route(
            "GET",
            "/v1/events",
            events.stream,
            READ,
            (200, 422, 429),
            "Follow what happens, as server-sent events",
            query=filters.EVENT_WORDS,
            answer=TaskEvent,
            answer_media_type=events.MEDIA_TYPE,
        ),
    )


def _tasks() -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            "/v1/tasks",
            tasks.create,
            CREATE,
            (201, 409, 422, 429),
            "Create a task",
            single=tasks.single,
            answer=answers.Task,
            model=TaskRequest,
            size="body",
            writes=True,
            makes_work=True,
        ),
        Route(
            "GET",
            "/v1/tasks",
            tasks.list_,
            READ,
            (200, 422),
            "List tasks",
            query=filters.TASK_WORDS,
            answer=answers.TaskPage,
        ),
        Route(
            "POST",
            "/v1/tasks/batch",
            task_batches.create_many,
            CREATE,
            (200, 422),
            "Create up to 10,000 tasks",
            answer=answers.BatchMade,
            model=TaskBatch,
            size="batch",
            media_types=("application/json", NDJSON),
            writes=True,
            makes_work=True,
        ),
    )


def _task() -> tuple[Route, ...]:
    one = "/v1/tasks/{id}"
    return (
        Route("GET", one, tasks.get, READ, (200, 404), "Show a task", answer=answers.TaskWhole),
        Route(
            "GET",
            f"{one}/attempts",
            tasks.list_attempts,
            READ,
            (200, 404),
            "List the attempts of a task",
            query=filters.ATTEMPT_WORDS,
            answer=answers.AttemptPage,
        ),
        Route(
            "PUT",
            one,
            tasks.put,
            CREATE,
            (200, 201, 405, 409, 412, 422, 429),
            "Create a task by its key, or replace it",
            answer=answers.Task,
            model=TaskRequest,
            size="body",
            writes=True,
            makes_work=True,
        ),
        Route(
            "PATCH",
            one,
            tasks.patch,
            MANAGE,
            (200, 404, 409, 412, 422),
            "Change a task before it runs",
            answer=answers.Task,
            model=TaskPatch,
            size="body",
            writes=True,
        ),
        Route("DELETE", one, tasks.delete, MANAGE, (204, 404, 409, 412), "Remove a task and its history", writes=True),
    )


def _actions() -> tuple[Route, ...]:
    return tuple(
        Route(
            "POST",
            f"/v1/tasks/{{id}}/{word}",
            task_actions.action(word),
            permission,
            (200, 404, 409, 412, *((429,) if word in REOPENING else ())),
            summary,
            answer=answers.Task,
            model=Empty,
            size="body",
            writes=True,
        )
        for word, permission, summary in ACTIONS
    )


BULK = (
    ("tasks/cancel", CANCEL, bulk_tasks.act("cancel"), TaskBulk, "Cancel every task that is found"),
    ("tasks/retry", MANAGE, bulk_tasks.act("retry"), TaskBulk, "Try every dead, cancelled or expired one again"),
    ("tasks/run", MANAGE, bulk_tasks.act("run"), TaskBulk, "Run every task that is found now"),
    ("tasks/delete", MANAGE, bulk_tasks.delete, TaskBulk, "Remove every task that is found, and its history"),
    ("dlq/replay", MANAGE, bulk_dead_letters.replay, DeadLetterBulk, "Run the task of every open one again"),
    ("dlq/archive", MANAGE, bulk_dead_letters.archive, DeadLetterBulk, "Mark every open one as dealt with"),
    (
        "dlq/purge",
        MANAGE,
        bulk_dead_letters.purge,
        DeadLetterBulk,
        "Remove every one that is found, with its dead task",
    ),
)


def _bulk() -> tuple[Route, ...]:
    return tuple(
        Route(
            "POST",
            f"/v1/{path}",
            handler,
            permission,
            (200, 409, 422),
            summary,
            answer=answers.BulkDone,
            model=model,
            size="body",
            writes=True,
        )
        for path, permission, handler, model, summary in BULK
    )


def _dead_letters() -> tuple[Route, ...]:
    one = "/v1/dlq/{id}"
    return (
        Route(
            "GET",
            "/v1/dlq",
            dead_letters.list_,
            READ,
            (200, 422),
            "List dead letters",
            query=filters.DEAD_LETTER_WORDS,
            answer=answers.DeadLetterPage,
        ),
        Route(
            "GET",
            one,
            dead_letters.get,
            READ,
            (200, 404),
            "Show a dead letter with every attempt",
            answer=answers.DeadLetterWhole,
        ),
        Route(
            "POST",
            f"{one}/replay",
            dead_letters.replay,
            MANAGE,
            (200, 404, 409, 422, 429),
            "Run its task again",
            answer=answers.DeadLetter,
            model=Replay,
            size="body",
            writes=True,
        ),
        Route(
            "POST",
            f"{one}/archive",
            dead_letters.archive,
            MANAGE,
            (200, 404, 409),
            "Mark it as dealt with",
            answer=answers.DeadLetter,
            model=Empty,
            size="body",
            writes=True,
        ),
    )
