"""The part of the table that is about checks and their pings."""

from tasktick.access.roles import Permission
from tasktick.api import checks, filters, pings
from tasktick.api.check_schemas import Check, CheckPage, CheckPatch, CheckRequest, PingPage
from tasktick.api.routing import Route
from tasktick.api.schemas import Empty

ALL = "/v1/checks"
ONE = f"{ALL}/{{id}}"
READ, MANAGE = Permission.READ, Permission.MANAGE
ACTIONS = (
    ("pause", checks.hold, "Let nothing of it be missed until it is resumed"),
    ("resume", checks.release, "Watch it from now on"),
    ("rotate", checks.rotate, "Give it another id to be pinged by; the one before ends at once"),
)
PINGED = (
    ("/ping/{id}", "Say that a job has ended well"),
    ("/ping/{id}/{word}", "Say how a job is: start, fail, log, or the exit code that it ended with"),
)


def table() -> tuple[Route, ...]:
    """Its routes."""
    return (*_pings(), *_all(), *_one())


def _pings() -> tuple[Route, ...]:
    return tuple(
        Route(
            method,
            path,
            pings.ping,
            None,
            (200, 404, 429),
            summary,
            size="none" if method == "GET" else "log",
            answer=str,
            answer_media_type=pings.TEXT,
            query=filters.PINGED_WORDS,
        )
        for path, summary in PINGED
        for method in ("GET", "POST")
    )


def _all() -> tuple[Route, ...]:
    return (
        Route("GET", ALL, checks.list_, READ, (200, 422), "List checks", query=filters.CHECK_WORDS, answer=CheckPage),
        Route(
            "POST",
            ALL,
            checks.create,
            MANAGE,
            (201, 409, 422, 429),
            "Make a check",
            answer=Check,
            model=CheckRequest,
            size="body",
            writes=True,
        ),
    )


def _one() -> tuple[Route, ...]:
    return (
        Route("GET", ONE, checks.get, READ, (200, 404), "Show a check", answer=Check),
        Route(
            "PUT",
            ONE,
            checks.put,
            MANAGE,
            (200, 201, 405, 409, 412, 422, 429),
            "Make a check, or make it what is given",
            answer=Check,
            model=CheckRequest,
            size="body",
            writes=True,
        ),
        Route(
            "PATCH",
            ONE,
            checks.patch,
            MANAGE,
            (200, 404, 412, 422),
            "Change a check",
            answer=Check,
            model=CheckPatch,
            size="body",
            writes=True,
        ),
        Route("DELETE", ONE, checks.delete, MANAGE, (204, 404, 412), "Remove a check with its pings", writes=True),
        Route(
            "GET",
            f"{ONE}/pings",
            checks.pings,
            READ,
            (200, 404, 422),
            "List what a job has said, the latest first",
            query=filters.PING_WORDS,
            answer=PingPage,
        ),
        *(
            Route(
                "POST",
                f"{ONE}/{word}",
                handler,
                MANAGE,
                (200, 404, 409, 422),
                summary,
                answer=Check,
                model=Empty,
                size="body",
                writes=True,
            )
            for word, handler, summary in ACTIONS
        ),
    )
