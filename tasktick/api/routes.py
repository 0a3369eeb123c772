"""The table of everything that can be asked: what the router serves, and what is described from it."""

from tasktick.access.roles import Permission
from tasktick.api import dead_letters, health, keys, schedules, secrets, task_actions, task_batches, tasks, tenants
from tasktick.api.routing import NDJSON, Route
from tasktick.api.schemas import (
    Empty,
    KeyRequest,
    Replay,
    Rotation,
    TaskBatch,
    TaskPatch,
    TaskRequest,
    TenantRequest,
    TimingRequest,
)

READ, CREATE, CANCEL = Permission.READ, Permission.CREATE, Permission.CANCEL
MANAGE, ADMINISTER, OPERATE = Permission.MANAGE, Permission.ADMINISTER, Permission.OPERATE

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
        *_tasks(),
        *_actions(),
        *_dead_letters(),
        *_schedules(),
        *_secrets(),
        *_keys(),
        *_tenants(),
    )


def _open() -> tuple[Route, ...]:
    return (
        Route("GET", "/healthz", health.healthz, None, (200,), "Whether the process lives"),
        Route("GET", "/readyz", health.readyz, None, (200, 503), "Whether it is ready, else why not"),
        Route("GET", "/metrics", health.metrics, None, (200,), "Metrics for Prometheus"),
        Route("GET", "/v1/stats", health.stats, READ, (200,), "Counts by state, lateness, rates"),
    )


def _tasks() -> tuple[Route, ...]:
    one = "/v1/tasks/{id}"
    return (
        Route(
            "POST",
            "/v1/tasks",
            tasks.create,
            CREATE,
            (201, 409, 422, 429),
            "Create a task",
            model=TaskRequest,
            size="body",
            writes=True,
            makes_work=True,
        ),
        Route("GET", "/v1/tasks", tasks.list_, READ, (200, 422), "List tasks"),
        Route(
            "POST",
            "/v1/tasks/batch",
            task_batches.create_many,
            CREATE,
            (200, 422),
            "Create up to 10,000 tasks",
            model=TaskBatch,
            size="batch",
            media_types=("application/json", NDJSON),
            writes=True,
            makes_work=True,
        ),
        Route("GET", one, tasks.get, READ, (200, 404), "Show a task"),
        Route("GET", f"{one}/attempts", tasks.list_attempts, READ, (200, 404), "List the attempts of a task"),
        Route(
            "PUT",
            one,
            tasks.put,
            CREATE,
            (200, 201, 409, 412, 422, 429),
            "Create a task by its key, or replace it",
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
            model=Empty,
            size="body",
            writes=True,
        )
        for word, permission, summary in ACTIONS
    )


def _dead_letters() -> tuple[Route, ...]:
    one = "/v1/dlq/{id}"
    return (
        Route("GET", "/v1/dlq", dead_letters.list_, READ, (200, 422), "List dead letters"),
        Route("GET", one, dead_letters.get, READ, (200, 404), "Show a dead letter with every attempt"),
        Route(
            "POST",
            f"{one}/replay",
            dead_letters.replay,
            MANAGE,
            (200, 404, 409, 422, 429),
            "Run its task again",
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
            model=Empty,
            size="body",
            writes=True,
        ),
    )


def _schedules() -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            "/v1/schedules/preview",
            schedules.preview,
            READ,
            (200, 422),
            "Show when an unsaved schedule would fire",
            model=TimingRequest,
            size="body",
        ),
    )


def _secrets() -> tuple[Route, ...]:
    return (
        Route("GET", "/v1/secrets", secrets.list_, ADMINISTER, (200, 422), "List signing secrets"),
        Route(
            "POST",
            "/v1/secrets",
            secrets.create,
            ADMINISTER,
            (201, 409, 422),
            "Make a signing secret; it is shown once",
            model=Empty,
            size="body",
            writes=True,
        ),
        Route(
            "POST",
            "/v1/secrets/rotate",
            secrets.rotate,
            ADMINISTER,
            (201, 409, 422),
            "Make a signing secret and let the others sign beside it for a time",
            model=Rotation,
            size="body",
            writes=True,
        ),
        Route(
            "DELETE",
            "/v1/secrets/{id}",
            secrets.retire,
            ADMINISTER,
            (204, 404, 409),
            "Let a signing secret sign no more",
            writes=True,
        ),
    )


def _keys() -> tuple[Route, ...]:
    return (
        Route("GET", "/v1/keys", keys.list_, ADMINISTER, (200, 422), "List API keys"),
        Route(
            "POST",
            "/v1/keys",
            keys.create,
            ADMINISTER,
            (201, 403, 409, 422),
            "Make an API key; its secret is shown once",
            model=KeyRequest,
            size="body",
            writes=True,
        ),
        Route("DELETE", "/v1/keys/{id}", keys.revoke, ADMINISTER, (204, 404, 409), "Revoke an API key", writes=True),
    )


def _tenants() -> tuple[Route, ...]:
    one = "/v1/tenants/{name}"
    return (
        Route("GET", "/v1/tenants", tenants.list_, OPERATE, (200, 422), "List tenants"),
        Route("GET", one, tenants.get, OPERATE, (200, 404, 422), "Show a tenant"),
        Route(
            "PUT",
            one,
            tenants.put,
            OPERATE,
            (200, 201, 422),
            "Set what a tenant may have",
            model=TenantRequest,
            size="body",
            writes=True,
        ),
        Route("DELETE", one, tenants.delete, OPERATE, (204, 404, 409), "Remove a tenant", writes=True),
    )
