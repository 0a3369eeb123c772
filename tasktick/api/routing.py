"""Routes as values, and how a path finds its own. Pure.

A path is taken apart at its slashes and each part is unescaped by itself, so that an escaped slash in a key
never becomes a border.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

import msgspec

from tasktick.access.roles import Permission
from tasktick.api.call import Call, Handler, Single
from tasktick.errors import Refused

Size = Literal["none", "body", "batch", "log"]

PATH_CHARS_MAX = 1_024
NDJSON = "application/x-ndjson"


class Route(msgspec.Struct, frozen=True):
    """One thing that can be asked. `permission` None: of everybody.

    `statuses` are those of its own; what every request passes on its way adds to them. `answer` is the model of
    its answer, for the description; `query` are the parameters that it reads.
    """

    method: str
    path: str
    handler: Handler
    permission: Permission | None
    statuses: tuple[int, ...]
    summary: str
    model: Any = None
    size: Size = "none"
    media_types: tuple[str, ...] = ("application/json",)
    writes: bool = False
    makes_work: bool = False
    query: frozenset[str] = frozenset()
    answer: Any = None
    answer_media_type: str = "application/json"
    single: Callable[[Call], Single] | None = None
    """What its handler writes, where that is all that it does for a tenant without a rate."""


class Node:
    """A part of the paths: what may follow, and what is there."""

    def __init__(self) -> None:
        self.literals: dict[str, Node] = {}
        self.parameter: tuple[str, Node] | None = None
        self.routes: dict[str, Route] = {}


class Router:
    """Finds routes."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._root = Node()
        for route in self.routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        node = self._root
        for part in route.path.split("/")[1:]:
            if part.startswith("{"):
                if node.parameter is None:
                    node.parameter = part[1:-1], Node()
                node = node.parameter[1]
            else:
                node = node.literals.setdefault(part, Node())
        if route.method in node.routes:
            raise ValueError(f"{route.method} {route.path} is there twice")
        node.routes[route.method] = route

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        """The route of a request and the parameters in its path, or the refusal."""
        node, parameters = self._walk(path)
        route = node.routes.get(method)
        if route is None and method == "HEAD":
            route = node.routes.get("GET")
        if route is None:
            raise MethodRefused(method, _allowed(node))
        return route, parameters

    def _walk(self, path: str) -> tuple[Node, dict[str, str]]:
        node = self._root
        parameters: dict[str, str] = {}
        if len(path) > PATH_CHARS_MAX:
            raise _no_such_path()
        for part in path.split("/")[1:]:
            following = node.literals.get(part)
            if following is None and node.parameter is not None:
                name, following = node.parameter
                parameters[name] = _unescaped(part)
            if following is None:
                raise _no_such_path()
            node = following
        if not node.routes:
            raise _no_such_path()
        return node, parameters


class MethodRefused(Refused):
    """The path is there, the method is not."""

    def __init__(self, method: str, allowed: tuple[str, ...], advice: str = "") -> None:
        detail = f"{method[:20]} cannot be done here; {', '.join(allowed)} can.{advice and ' '}{advice}"
        super().__init__("method_not_allowed", detail)
        self.allowed = allowed


def _allowed(node: Node) -> tuple[str, ...]:
    methods = set(node.routes)
    return tuple(sorted(methods | {"HEAD"} if "GET" in methods else methods))


def _unescaped(part: str) -> str:
    try:
        text = unquote_to_bytes(part).decode() if "%" in part else part
    except UnicodeDecodeError:
        raise _no_such_path() from None
    if not part or "\0" in text:
        raise _no_such_path()
    return text


def _no_such_path() -> Refused:
    return Refused("not_found", "There is nothing at this path.")
