"""Parameters and headers as the description shows them. `filters` says which ones there are and reads them."""

from collections.abc import Mapping
from typing import Any, get_args

from tasktick.api import filters, paging
from tasktick.api.answers import StateWord
from tasktick.api.event_frames import TYPES
from tasktick.api.events import MEDIA_TYPE as EVENT_STREAM
from tasktick.api.idempotency import HEADER as IDEMPOTENCY_KEY
from tasktick.api.routing import Route
from tasktick.api.schemas import TENANT_PATTERN
from tasktick.model.checkin import KINDS, STATUSES

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
HELD_TO_VERSION = 412
NAMED_BY_KEY = {"tasks": "tsk", "schedules": "sch", "checks": "chi"}
KEY_PATTERN = "[A-Za-z0-9_.:-]{1,128}"


def _id(prefix: str) -> Schema:
    return {"type": "string", "pattern": f"^{prefix}_[0-9a-f]{{32}}$"}


def _time(what: str) -> tuple[Schema, str]:
    return TEXT | {"examples": ["2026-12-01T09:00:00Z"]}, f"{what}: RFC 3339 with an offset, or Unix seconds"


# Word of a query: (schema, what it does).
QUERY: Mapping[str, tuple[Schema, str]] = {
    "limit": (
        {"type": "integer", "minimum": 1, "maximum": paging.LIMIT_MAX, "default": paging.LIMIT_DEFAULT},
        "How many at most",
    ),
    "cursor": (TEXT, "Go on where the page ended that gave this as `next_cursor`"),
    "order": ({"type": "string", "enum": ["asc", "desc"], "default": "desc"}, "By id: oldest or newest first"),
    "fields": ({"type": "string", "enum": ["full"]}, "With bodies, which a list leaves out"),
    "state": (
        {"type": "array", "items": {"type": "string", "enum": list(get_args(StateWord))}},
        "In one of these states",
    ),
    "queue": (TEXT, "Of this queue"),
    "type": (TEXT, "Of this type"),
    "name": (TEXT, "With this name"),
    "tag": ({"type": "string", "pattern": ":", "examples": ["team:billing"]}, "With this tag, as name:value"),
    "schedule_id": (_id("sch"), "Made by this schedule"),
    "workflow_id": (_id("wfl"), "Of this workflow"),
    "run_after": _time("With a nominal time after this"),
    "run_before": _time("With a nominal time before this"),
    "created_after": _time("Created after this"),
    "created_before": _time("Created before this"),
    "sla_met": (FLAG, "Whether the first attempt started in time"),
    "q": (
        {"type": "string", "minLength": 1, "maxLength": filters.TEXT_CHARS_MAX},
        "Searches name, key, URL and error text",
    ),
    "unresolved": (FLAG | {"default": True}, "Those that nobody has dealt with, or the others"),
    "class": ({"type": "string", "enum": sorted(filters.CLASSES)}, "Whose fault it was"),
    "count": (
        {"type": "integer", "minimum": 1, "maximum": filters.PREVIEW_MAX, "default": filters.PREVIEW_DEFAULT},
        "How many fires",
    ),
    "from": _time("Fires to come: those after this. Of a ledger: from this on"),
    "to": _time("Before this"),
    "outcome": (
        {"type": "array", "items": {"type": "string", "enum": list(filters.OUTCOMES)}},
        "With one of these outcomes",
    ),
    "reason": (
        TEXT | {"examples": ["backfill"]},
        "With this reason; of `calendar:<name>`, the word before the colon does",
    ),
    "paused": (FLAG, "Those that are paused, or the others"),
    "status": ({"type": "string", "enum": list(STATUSES)}, "With this status"),
    "kind": ({"type": "string", "enum": list(KINDS)}, "Of this kind"),
    "run": (TEXT, "What pairs a start with its end: an id of yours, such as a UUID"),
    "revoked": (FLAG | {"default": False}, "Those that were revoked, or the others"),
    "after": (
        TEXT | {"pattern": r"^\d{1,15}-\d{1,9}$", "examples": ["123-4"]},
        "Begin behind the event with this id, without one now; Last-Event-ID wins over it",
    ),
    "dry_run": (FLAG | {"default": False}, "Only show what would stand there"),
    "at": _time("The instant to explain, by default now"),
    "hours": (
        {
            "type": "integer",
            "minimum": 1,
            "maximum": filters.FORECAST_HOURS_MAX,
            "default": filters.FORECAST_HOURS_DEFAULT,
        },
        "How far ahead",
    ),
    "by": (
        {"type": "string", "enum": list(filters.FORECAST_STEPS), "default": "minute"},
        "How long a step is; a quarter is 15 minutes",
    ),
    "host": (TEXT, "For this host"),
    "reveal": (FLAG, "Show the secrets whole; it takes an operator's key"),
}

# Where a word means something else than elsewhere.
QUERY_OF: Mapping[tuple[str, str], tuple[Schema, str]] = {
    ("/v1/dlq", "reason"): ({"type": "string", "enum": list(filters.DEATH_REASONS)}, "Why it gave up"),
    ("/v1/events", "type"): (
        {"type": "array", "items": {"type": "string", "enum": list(TYPES)}},
        "Only events of these types, and `gap`",
    ),
}

# Component: (header, schema, what it does).
HEADERS: Mapping[str, tuple[str, Schema, str]] = {
    "RequestId": (
        "X-Request-Id",
        TEXT,
        "Names the request in the answer and in the log: 1 to 128 visible ASCII characters, else one is made",
    ),
    "Tenant": (
        "TaskTick-Tenant",
        TEXT | {"pattern": TENANT_PATTERN},
        "The tenant to act for; another than the key's own takes an operator's key",
    ),
    "IdempotencyKey": (
        IDEMPOTENCY_KEY,
        {"type": "string", "pattern": "^[!-~](?:[ -~]{0,253}[!-~])?$"},
        "Makes a repeated request count once: it gets the first answer again",
    ),
    "IfMatch": (
        "If-Match",
        TEXT | {"examples": ['"3"']},
        "Go on only if the version is this one: an ETag as it was given",
    ),
    "LastEventId": (
        "Last-Event-ID",
        TEXT | {"pattern": r"^\d{1,15}-\d{1,9}$"},
        "The id of the last event that was read: what came since is sent first",
    ),
    "Traceparent": (
        "traceparent",
        TEXT,
        "A W3C trace, stored with what is made and sent on; one that is none is left out",
    ),
}


def components() -> dict[str, Any]:
    """Headers, described once."""
    return {
        name: {"name": header, "in": "header", "description": f"{text}.", "schema": schema}
        for name, (header, schema, text) in HEADERS.items()
    }


def of(route: Route) -> list[dict[str, Any]]:
    """Every parameter that a route takes."""
    found = [_in_path(part[1:-1], route) for part in route.path.split("/") if part.startswith("{")]
    found += [_in_query(name, route) for name in QUERY if name in route.query]
    if unknown := route.query - QUERY.keys():
        raise ValueError(f"{route.method} {route.path} takes parameters that are not described: {unknown}")
    return found + [{"$ref": f"#/components/parameters/{name}"} for name in _headers_of(route)]


def _headers_of(route: Route) -> list[str]:
    names = ["RequestId"]
    if route.permission is not None:
        names.append("Tenant")
    if takes_idempotency_key(route):
        names.append("IdempotencyKey")
    if HELD_TO_VERSION in route.statuses:
        names.append("IfMatch")
    if route.makes_work:
        names.append("Traceparent")
    if route.answer_media_type == EVENT_STREAM:
        names.append("LastEventId")
    return names


def takes_idempotency_key(route: Route) -> bool:
    """Whether a repetition of this request can be known as one."""
    return route.method == "POST" and route.writes


def _in_query(name: str, route: Route) -> dict[str, Any]:
    schema, text = QUERY_OF.get((route.path, name), QUERY[name])
    shown: dict[str, Any] = {"name": name, "in": "query", "description": f"{text}.", "schema": schema}
    return shown | {"style": "form", "explode": True} if schema["type"] == "array" else shown


def _in_path(name: str, route: Route) -> dict[str, Any]:
    """A part of the path. Tasks and schedules have an id or the caller's own key; PUT takes the key alone."""
    path = route.path
    shown: dict[str, Any] = {"name": name, "in": "path", "required": True, "schema": TEXT}
    for kind, prefix in NAMED_BY_KEY.items():
        if path == f"/v1/{kind}/{{id}}" and route.method == "PUT":
            schema = TEXT | {"pattern": f"^key:{KEY_PATTERN}$"}
            return shown | {"description": "key:… with a key of your own.", "schema": schema}
        if path.startswith(f"/v1/{kind}/{{id}}"):
            schema = TEXT | {"pattern": f"^(?:{prefix}_[0-9a-f]{{32}}|key:{KEY_PATTERN})$"}
            return shown | {"description": f"{prefix}_…, or key:… for the key that you gave.", "schema": schema}
    if path.startswith("/v1/dlq/{id}"):
        shown |= {"description": "dlq_….", "schema": _id("dlq")}
    elif path.startswith("/v1/secrets/{id}"):
        shown |= {"description": "sec_….", "schema": _id("sec")}
    elif path.startswith("/v1/keys/{id}"):
        shown |= {"description": "key_…: the id of a key, not the key itself.", "schema": _id("key")}
    elif path.startswith("/v1/calendars/{name}"):
        shown |= {"schema": TEXT | {"pattern": f"^{KEY_PATTERN}$"}}
    elif path.startswith("/v1/tenants/{name}"):
        shown |= {"schema": TEXT | {"pattern": TENANT_PATTERN}}
    return shown
