"""The table of routes: each is found, each is described, each that writes says so."""

import re

import pytest

from tasktick.api.auth import WRONG_KEYS, Failures
from tasktick.api.problems import CODES, reply
from tasktick.api.routes import table
from tasktick.api.routing import Route, Router
from tasktick.errors import Refused

ROUTES = table()


# What is asked with a body, and changes nothing.
QUESTIONS = {"/v1/schedules/preview"}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_is_found_and_whole(route: Route) -> None:
    path = re.sub(r"\{\w+\}", "some%20thing", route.path)
    found, parameters = Router(ROUTES).find(route.method, path)

    assert found is route
    assert dict(parameters) == dict.fromkeys(re.findall(r"\{(\w+)\}", route.path), "some thing")
    assert route.summary
    asks = route.path in QUESTIONS or route.path.startswith("/ping/")  # a word of a job has no key to repeat it by
    assert route.writes == (route.method != "GET" and not asks)
    assert (route.model is None) == (route.size in {"none", "log"})
    assert route.permission is not None or not route.writes
    assert all(
        status in {200, 201, 202, 204} or status in {one for one, _ in CODES.values()} for status in route.statuses
    )


@pytest.mark.parametrize("code", [code for code, (status, _) in CODES.items() if status in (429, 503)])
@pytest.mark.parametrize(("retry_after_ms", "shown"), [(None, "1"), (0, "1"), (1, "1"), (1_001, "2")])
def test_who_is_sent_away_hears_for_how_long(code: str, retry_after_ms: int | None, shown: str) -> None:
    assert reply(Refused(code, "No.", retry_after_ms=retry_after_ms), "req_1").headers["Retry-After"] == shown


def test_two_routes_of_one_place_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="twice"):
        Router([ROUTES[0], ROUTES[0]])


def test_a_path_without_end_is_not_walked() -> None:
    with pytest.raises(Refused):
        Router(ROUTES).find("GET", "/v1/tasks/" + "x" * 10_000)


def test_wrong_keys_are_limited_while_time_goes_on() -> None:
    failures = Failures()
    heard = 0
    for moment in range(0, 2_000, 10):
        if failures.ask("a", float(moment)).granted:
            failures.note("a", float(moment))
            heard += 1

    assert heard == WRONG_KEYS.count


def test_failures_are_forgotten_and_bounded() -> None:
    failures = Failures()
    for _ in range(WRONG_KEYS.count + 5):
        failures.note("a", 0.0)

    assert failures.ask("a", 0.0).retry_after_ms == 3_000
    assert failures.ask("b", 0.0).retry_after_ms == 0
    assert failures.ask("a", 3_000.0).retry_after_ms == 0
    for number in range(20_000):
        failures.note(str(number), 1.0)
    assert failures.ask("a", 1.0).retry_after_ms == 0
