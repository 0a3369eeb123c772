"""The OpenAPI document (3.1), put together from the routes and the models. Pure."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from tasktick import __version__
from tasktick.api import (
    answers,
    calendar_schemas,
    check_schemas,
    event_frames,
    events,
    insight_answers,
    problems,
    schedule_answers,
    schedule_schemas,
    schemas,
)
from tasktick.api.calendars import ICALENDAR
from tasktick.api.description import examples, parameters
from tasktick.api.routing import NDJSON, Route

Document = dict[str, Any]

SCHEMA_PATH = "#/components/schemas/{name}"
ABOUT = """\
Tasks that call HTTP targets at a time, kept on disk. Whatever is GET can be asked with HEAD too.
A 2xx to a write means that it is on disk. What is refused is a problem (RFC 9457) with a stable `code`.
Fields may be added to answers; a field that a request should not have is refused.
"""
STREAM = (
    "Server-sent events without end. Each has its type as `event`, an `id` to go on from, and as `data` a TaskEvent "
    "as JSON. `gap` says that events which should come next are not kept any more."
)
# A request to anything may get these: it cannot be read, comes too slowly or too often, or fails here.
ANYWHERE = frozenset({400, 408, 429, 431, 500, 503})
WITH_KEY = frozenset({401, 403, 406, 422})
WITH_BODY = frozenset({413, 415})
# Tasks in a batch are read one by one, so the model of the batch does not say what they are.
READ_APART = {"TaskBatch": ("tasks", "TaskRequest")}
MAY_BE_NOTHING = (
    schemas.Empty,
    schemas.Replay,
    schemas.Rotation,
    schedule_schemas.PauseRequest,
    schedule_schemas.Trigger,
)
VERSIONED = (
    answers.Task,
    answers.TaskWhole,
    schedule_answers.Schedule,
    calendar_schemas.Calendar,
    check_schemas.Check,
)


def describe(routes: Iterable[Route]) -> Document:
    """The document."""
    routes = tuple(routes)
    paths: dict[str, Document] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "TaskTick",
            "version": __version__,
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The server that this document comes from."}],
        "security": [{"key": []}],
        "tags": [{"name": name, "description": text} for name, text in _tags(routes).items()],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key; it carries the tenant and the role."}
            },
            "parameters": parameters.components(),
            "headers": {name: {"description": text, "schema": schema} for name, (schema, text) in HEADERS.items()},
            "responses": _problems(),
            "schemas": _schemas(routes),
        },
    }


HEADERS: Mapping[str, tuple[Document, str]] = {
    "X-Request-Id": ({"type": "string"}, "The request's id, which is also in the log."),
    "ETag": ({"type": "string"}, "The version, for If-Match."),
    "Location": ({"type": "string"}, "Where it is."),
    "Idempotency-Replayed": ({"type": "string", "enum": ["true"]}, "This is the first answer again."),
    "Retry-After": ({"type": "integer", "minimum": 1}, "In how many seconds to ask again."),
    "RateLimit": (
        {"type": "string"},
        "How many are left (`r`) of what a rate counts, and in how many seconds all are (`t`): tasks that a tenant "
        "with a `create_rate` makes, or wrong keys from an address.",
    ),
    "RateLimit-Policy": (
        {"type": "string"},
        'That rate, `"create"` or `"wrong-keys"`: so many (`q`) in so many seconds (`w`).',
    ),
    "WWW-Authenticate": ({"type": "string"}, "How to show a key."),
}
RATE_HEADERS = ("RateLimit", "RateLimit-Policy")
# What a request may come to that has counted: a key was wrong, or the task could not be made.
RATED = frozenset({401, 409, 412, 422, 429, 500, 503})
TAGS = {
    "tasks": "One unit of work.",
    "dlq": "Dead letters: tasks that gave up.",
    "schedules": "Tasks again and again, and the ledger of what became of each time.",
    "checks": "Jobs that run elsewhere, and when a word of them is expected.",
    "calendars": "Times in which schedules that name them do not fire.",
    "secrets": "What signs the requests to receivers.",
    "keys": "What opens this API.",
    "tenants": "Who shares this server, and what each may have.",
    "events": "What happens, as it happens.",
    "stats": "Figures.",
    "forecast": "What is to come.",
    "operation": "Without a key: health, metrics, this description.",
}


def _tags(routes: Iterable[Route]) -> dict[str, str]:
    names = dict.fromkeys(tag_of(route) for route in routes)
    return {name: TAGS.get(name, f"{name.capitalize()}.") for name in names}


def tag_of(route: Route) -> str:
    """Which part of the API this is: the first name after /v1."""
    parts = route.path.split("/")
    return parts[2] if parts[1] == "v1" else "operation"


def statuses_of(route: Route) -> list[int]:
    """Every status that a route can give: its own, and those of what every request passes."""
    found = ANYWHERE | frozenset(route.statuses)
    if route.permission is not None:
        found |= WITH_KEY
    if route.size not in {"none", "log"}:
        found |= WITH_BODY
    if "{" in route.path:
        found |= {404}
    if parameters.takes_idempotency_key(route):
        found |= {409}
    return sorted(found)


def _operation(route: Route) -> Document:
    words = [part.strip("{}").replace(".", "_") for part in route.path.removeprefix("/v1").split("/") if part]
    operation: Document = {
        "operationId": "_".join([route.method.lower(), *words]),
        "summary": route.summary,
        "tags": [tag_of(route)],
        "parameters": parameters.of(route),
    }
    if route.permission is None:
        operation["security"] = []
    else:
        operation["description"] = f"Takes a key that may `{route.permission}`."
    if route.model is not None:
        operation["requestBody"] = _request_of(route)
    operation["responses"] = {
        str(status): _response(route, status) if status < HTTPStatus.BAD_REQUEST else _reference("responses", status)
        for status in statuses_of(route)
    }
    return operation


def _reference(kind: str, status: int) -> Document:
    return {"$ref": f"#/components/{kind}/Problem{status}"}


def _request_of(route: Route) -> Document:
    if route.size == "log":
        text = "What the job has said, of any type; the first 10 KiB are kept."
        return {"content": {"*/*": {"schema": {"type": "string", "description": text}}}, "required": False}
    name = route.model.__name__
    content: Document = {}
    for media_type in route.media_types:
        if media_type == ICALENDAR:
            text = "An iCalendar file (RFC 5545)."
            content[media_type] = {"schema": {"type": "string", "description": text}}
        elif media_type == NDJSON:
            text = "One task a line, each as JSON."
            content[media_type] = {"schema": {"type": "string", "description": text}}
        else:
            content[media_type] = {"schema": {"$ref": SCHEMA_PATH.format(name=name)}, **_examples(name)}
    # What may say nothing may also be nothing.
    return {"content": content, "required": route.model not in MAY_BE_NOTHING}


def _examples(name: str) -> Document:
    example = examples.EXAMPLES.get(name)
    return {} if example is None else {"example": example}


def _response(route: Route, status: int) -> Document:
    headers = ["X-Request-Id"]
    if status == HTTPStatus.CREATED:
        headers.append("Location")
    if parameters.HELD_TO_VERSION in route.statuses or route.answer in VERSIONED:
        headers += ["ETag"] if status != HTTPStatus.NO_CONTENT else []
    if parameters.takes_idempotency_key(route):
        headers.append("Idempotency-Replayed")
    if route.makes_work:
        headers += RATE_HEADERS
    response: Document = {
        "description": HTTPStatus(status).phrase,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
    }
    if status != HTTPStatus.NO_CONTENT:
        response["content"] = {route.answer_media_type: _answer_of(route)}
    return response


def _answer_of(route: Route) -> Document:
    if route.answer is None:
        raise ValueError(f"{route.method} {route.path} names no model of its answer")
    if route.answer in (str, dict):
        return {"schema": {"type": "string" if route.answer is str else "object"}}
    name = route.answer.__name__
    reference = {"$ref": SCHEMA_PATH.format(name=name)}
    if route.answer_media_type == events.MEDIA_TYPE:
        # A stream is no document of this model: each of its events has one as its data.
        schema = {"type": "string", "description": STREAM, "x-event-data": reference}
        return {"schema": schema, "example": examples.STREAM}
    return {"schema": reference, **_examples(name)}


def _problems() -> Document:
    """A response for each status of a problem, with the codes that it stands for."""
    codes: dict[int, list[str]] = {}
    for code, (status, _) in problems.CODES.items():
        codes.setdefault(status, []).append(code)
    return {f"Problem{status}": _problem(status, names) for status, names in codes.items()}


def _problem(status: int, codes: list[str]) -> Document:
    headers = ["X-Request-Id"]
    if status in problems.RETRY_AFTER_S:
        headers.append("Retry-After")
    if status == HTTPStatus.UNAUTHORIZED:
        headers.append("WWW-Authenticate")
    if status in RATED:
        headers += RATE_HEADERS
    text = "; ".join(f"`{code}`: {problems.CODES[code][1]}" for code in codes)
    narrowed = {"properties": {"status": {"const": status}, "code": {"enum": codes}}}
    schema = {"allOf": [{"$ref": SCHEMA_PATH.format(name="Problem")}, narrowed]}
    return {
        "description": f"{text}.",
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
        "content": {problems.MEDIA_TYPE: {"schema": schema}},
    }


def _schemas(routes: Iterable[Route]) -> Document:
    models = {answers.Problem, schemas.TaskRequest}
    models |= {route.model for route in routes} | {route.answer for route in routes}
    wanted = sorted(models - {None, str, dict}, key=lambda model: str(model.__name__))
    _, found = msgspec.json.schema_components(wanted, ref_template=SCHEMA_PATH)
    shown = {name: _opened(name, found[name]) for name in sorted(found)}
    for name, (field, item) in READ_APART.items():
        if name in shown:
            shown[name]["properties"][field]["items"] = {"$ref": SCHEMA_PATH.format(name=item)}
    return shown


def _opened(name: str, schema: Document) -> Document:
    """A schema as it is shown: an answer may have fields that a client does not know yet."""
    opened = dict(schema)
    if any(hasattr(models, name) for models in (answers, schedule_answers, insight_answers, event_frames)):
        opened.pop("additionalProperties", None)
    return opened
