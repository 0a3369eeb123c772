"""The requests that ask why, and what is to come; pure, as those of `core` are."""

from tasktick.client import core
from tasktick.client.core import Request


def explain_task(name: str) -> Request:
    """Why a task did, did not, or does not yet run."""
    return core.get("tasks", name, "explain")


def explain_schedule(name: str, at: str | None = None) -> Request:
    """What a schedule did or will do at an instant, or does now, and why."""
    return core.get("schedules", name, "explain", query={"at": at})


def forecast(
    hours: int | None = None, by: str | None = None, queue: str | None = None, host: str | None = None
) -> Request:
    """What is to come within so many hours, by `minute`, `quarter` or `hour`."""
    return core.get("forecast", query={"hours": hours, "by": by, "queue": queue, "host": host})
