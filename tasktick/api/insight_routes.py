"""The part of the table that says why, and what is to come."""

from tasktick.access.roles import Permission
from tasktick.api import filters, forecast, insight_answers, schedule_explain, task_explain
from tasktick.api.routing import Route

READ = Permission.READ


def table() -> tuple[Route, ...]:
    """Its routes."""
    return (
        Route(
            "GET",
            "/v1/tasks/{id}/explain",
            task_explain.explain,
            READ,
            (200, 404),
            "Say why a task did, did not, or does not yet run",
            answer=insight_answers.TaskExplanation,
        ),
        Route(
            "GET",
            "/v1/schedules/{id}/explain",
            schedule_explain.explain,
            READ,
            (200, 404, 422),
            "Say what a schedule did or will do at an instant, and why",
            query=filters.EXPLAIN_WORDS,
            answer=insight_answers.ScheduleExplanation,
        ),
        Route(
            "GET",
            "/v1/forecast",
            forecast.forecast,
            READ,
            (200, 422, 503),
            "Show what is to come, with the limits that will hold it",
            query=filters.FORECAST_WORDS,
            answer=insight_answers.Forecast,
        ),
    )
