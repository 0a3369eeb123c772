"""Holds what the API answers to what its description says: every answer of every test passes here."""

from collections.abc import Mapping

import msgspec

from tasktick.api import answers
from tasktick.api.description.document import statuses_of
from tasktick.api.problems import MEDIA_TYPE
from tasktick.api.routes import table
from tasktick.api.routing import MethodRefused, Route, Router
from tasktick.errors import Refused

ROUTER = Router(table())


def check_described(method: str, path: str, status: int, headers: Mapping[str, str], raw: bytes) -> None:
    """Fail if this answer is not one that the description knows."""
    route = _route_of(method, path)
    if route is not None:
        assert status in statuses_of(route), f"{method} {path} answered {status}, which is not described: {raw!r}"
    if method == "HEAD" or status == 204:
        assert not raw
    elif status >= 400:
        assert headers["Content-Type"] == MEDIA_TYPE
        msgspec.json.decode(raw, type=answers.Problem)
    else:
        assert route is not None
        _check_answer(route, headers, raw)


def _route_of(method: str, path: str) -> Route | None:
    try:
        return ROUTER.find(method, path.partition("?")[0])[0]
    except (MethodRefused, Refused):
        return None


def _check_answer(route: Route, headers: Mapping[str, str], raw: bytes) -> None:
    assert headers["Content-Type"].partition(";")[0] == route.answer_media_type
    if route.answer is str:
        raw.decode()
    else:
        msgspec.json.decode(raw, type=route.answer)
