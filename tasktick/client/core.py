"""Builds requests and reads answers; pure, so that every way of sending shares it."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

DEFAULT_PORTS = {"http": 80, "https": 443}
IDEMPOTENCY_KEY = "Idempotency-Key"
IDEMPOTENCY_REPLAYED = "idempotency-replayed"
JSON = "application/json"
NDJSON = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"
LIMIT_MAX = 1_000
# What is done to many is answered when it is done to all of them.
BULK_TIMEOUT_MS = 3_600_000
UNSENDABLE = frozenset(map(chr, [*range(0x20), 0x7F]))

Value = str | int | bool
Filters = Mapping[str, Value | Sequence[str] | None]


class BadRequest(ValueError):
    """This cannot be asked: a name or a URL is not one. Nothing was sent."""


class Unreachable(Exception):
    """The server did not answer, or what answered does not speak HTTP; what was asked may have been done."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url} cannot be reached: {why}")
        self.url = url
        self.why = why


class Fault(msgspec.Struct, frozen=True):
    """A field at fault."""

    pointer: str = ""
    detail: str = ""


class Problem(Exception):
    """The server refused: what its problem document (RFC 9457) says."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        faults: Sequence[Fault] = (),
        request_id: str | None = None,
        retry_after: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.faults = tuple(faults)
        self.request_id = request_id
        self.retry_after = retry_after


class Server(msgspec.Struct, frozen=True):
    """Where the server is: an http or https URL, taken apart."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def parse_server(url: str) -> Server:
    """Take a server's URL apart, or say what is wrong with it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadRequest(f"{url!r} is no URL: {error}.") from error
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise BadRequest(f"{url!r} is no server: write it as http://HOST:PORT or https://HOST.")
    if parts.username is not None or parts.query or parts.fragment or not UNSENDABLE.isdisjoint(url):
        raise BadRequest(f"{url!r} is no server: a user, a query or a fragment has no place in it.")
    return Server(parts.scheme, parts.hostname, port or DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/"))


class Request(msgspec.Struct, frozen=True):
    """What to send: the path is relative to the server's. `timeout_ms`, if it takes longer than others."""

    method: str
    path: str
    body: bytes | None = None
    headers: dict[str, str] = {}
    timeout_ms: int | None = None

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice does what sending it once does."""
        return self.method == "GET" or IDEMPOTENCY_KEY in self.headers


class Answer(msgspec.Struct, frozen=True):
    """What came back; header names are in lower case."""

    status: int
    body: bytes
    headers: dict[str, str] = {}

    def json(self) -> Any:
        """The body as values; raises `Problem` if it is no JSON."""
        if not self.body:
            return None
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _not_ours(self) from error


def accepted(answer: Answer) -> Answer:
    """The answer, if the server did what was asked; else raises its `Problem`."""
    if 200 <= answer.status < 300:
        return answer
    raise _problem(answer)


class _Document(msgspec.Struct):
    title: str = ""
    detail: str = ""
    code: str = ""
    request_id: str | None = None
    errors: list[Fault] = []


def _problem(answer: Answer) -> Problem:
    try:
        document = msgspec.json.decode(answer.body, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _not_ours(answer)
    return Problem(
        answer.status,
        document.code or "unknown",
        document.detail or document.title or f"The server answered {answer.status}.",
        faults=document.errors,
        request_id=document.request_id or answer.headers.get("x-request-id"),
        retry_after=answer.headers.get("retry-after"),
    )


def _not_ours(answer: Answer) -> Problem:
    where = answer.headers.get("location")
    detail = f"The server answered {answer.status}, not as TaskTick does. Is the URL that of a TaskTick?"
    if where is not None and 300 <= answer.status < 400:
        detail = f"The server answered {answer.status} and points to {where}. Use that URL if you trust it."
    return Problem(answer.status, "unknown", detail, request_id=answer.headers.get("x-request-id"))


def headers_of(request: Request, key: str | None, tenant: str | None = None) -> dict[str, str]:
    """Every header to send."""
    headers = {"Accept": JSON, "User-Agent": "tasktick-client", **request.headers}
    if request.body is not None:
        headers.setdefault("Content-Type", JSON)
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    if tenant is not None:
        headers["TaskTick-Tenant"] = tenant
    return headers


def _path(*names: str) -> str:
    for name in names:
        if name in {"", ".", ".."}:
            raise BadRequest(f"{name!r} is no id; ids look like tsk_0190… or key:invoice-771.")
    return "/v1/" + "/".join(quote(name, safe=":") for name in names)


def get(*names: str, query: Filters | None = None) -> Request:
    """Ask for what is there."""
    pairs: list[tuple[str, Value]] = []
    for name, value in (query or {}).items():
        if value is None:
            continue
        values = [value] if isinstance(value, str | int) else value
        pairs += [(name, str(one).lower() if isinstance(one, bool) else one) for one in values]
    return Request("GET", _path(*names) + (f"?{urlencode(pairs, safe=':')}" if pairs else ""))


def post(*names: str, body: Any = None, idempotency_key: str | None = None) -> Request:
    """Have something made or done."""
    headers = {} if idempotency_key is None else {IDEMPOTENCY_KEY: idempotency_key}
    return Request("POST", _path(*names), None if body is None else msgspec.json.encode(body), headers)


def put(*names: str, body: Any, version: str | None = None) -> Request:
    """Have something be so, whole; with the `ETag` of what was read, only if nobody was faster."""
    return Request("PUT", _path(*names), msgspec.json.encode(body), _if_match(version))


def patch(*names: str, body: Any, version: str | None = None) -> Request:
    """Change the fields that are given; with the `ETag` of what was read, only if nobody was faster."""
    return Request("PATCH", _path(*names), msgspec.json.encode(body), _if_match(version))


def delete(*names: str, version: str | None = None) -> Request:
    """Remove something; with the `ETag` of what was read, only if nobody was faster."""
    return Request("DELETE", _path(*names), headers=_if_match(version))


def _if_match(version: str | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": version}


def after(request: Request, cursor: str) -> Request:
    """The request for the page that follows."""
    path, _, query = request.path.partition("?")
    kept = "&".join(pair for pair in query.split("&") if pair and not pair.startswith("cursor="))
    cursor_pair = urlencode({"cursor": cursor})
    return msgspec.structs.replace(request, path=f"{path}?{kept}&{cursor_pair}" if kept else f"{path}?{cursor_pair}")


def create_task(task: Mapping[str, Any], idempotency_key: str | None = None) -> Request:
    """Make a task; `task` is as the HTTP contract has it, a `msgspec.Raw` goes as it stands."""
    return post("tasks", body=task, idempotency_key=idempotency_key)


def create_tasks(lines: bytes, idempotency_key: str | None = None) -> Request:
    """Make a batch of tasks, one a line; each is answered by itself, in order."""
    request = post("tasks", "batch", idempotency_key=idempotency_key)
    return msgspec.structs.replace(request, body=lines, headers={**request.headers, "Content-Type": NDJSON})


def get_task(name: str) -> Request:
    """One task, by `tsk_…` or `key:…`."""
    return get("tasks", name)


def list_tasks(filters: Filters | None = None) -> Request:
    """A page of tasks; filters are those of the contract, with `limit`, `cursor` and `order`."""
    return get("tasks", query=filters)


def task_attempts(name: str, filters: Filters | None = None) -> Request:
    """The attempts of a task."""
    return get("tasks", name, "attempts", query=filters)


def act_on_task(name: str, action: str, idempotency_key: str | None = None) -> Request:
    """Cancel, pause, resume, run or retry a task."""
    return post("tasks", name, action, idempotency_key=idempotency_key)


def act_on_tasks(
    action: str, filters: Mapping[str, Any], *, dry_run: bool = False, idempotency_key: str | None = None
) -> Request:
    """Cancel, retry, run or delete all tasks that are found; a dry run only counts them."""
    return _bulk("tasks", action, filters, dry_run=dry_run, idempotency_key=idempotency_key)


def act_on_named_tasks(
    action: str,
    names: Sequence[str],
    filters: Mapping[str, Any] | None = None,
    *,
    dry_run: bool = False,
    idempotency_key: str | None = None,
) -> Request:
    """The same to tasks that are named, up to 1,000: all of them, or those of them that a filter finds."""
    body: dict[str, Any] = {"ids": list(names), "dry_run": dry_run}
    if filters:
        body["filter"] = {name: value for name, value in filters.items() if value is not None}
    made = post("tasks", action, body=body, idempotency_key=idempotency_key)
    return msgspec.structs.replace(made, timeout_ms=BULK_TIMEOUT_MS)


def act_on_dead_letters(
    action: str, filters: Mapping[str, Any], *, dry_run: bool = False, idempotency_key: str | None = None
) -> Request:
    """Replay, archive or purge all dead letters that are found; a dry run only counts them."""
    return _bulk("dlq", action, filters, dry_run=dry_run, idempotency_key=idempotency_key)


def _bulk(kind: str, action: str, filters: Mapping[str, Any], *, dry_run: bool, idempotency_key: str | None) -> Request:
    body = {"filter": {name: value for name, value in filters.items() if value is not None}, "dry_run": dry_run}
    made = post(kind, action, body=body, idempotency_key=idempotency_key)
    return msgspec.structs.replace(made, timeout_ms=BULK_TIMEOUT_MS)


def delete_task(name: str) -> Request:
    """Remove a task and its history."""
    return delete("tasks", name)


def list_dead_letters(filters: Filters | None = None) -> Request:
    """A page of dead letters."""
    return get("dlq", query=filters)


def get_dead_letter(name: str) -> Request:
    """One dead letter, with every attempt."""
    return get("dlq", name)


def replay_dead_letter(
    name: str, target: Mapping[str, Any] | None = None, idempotency_key: str | None = None
) -> Request:
    """Run what gave up again, with another target if one is given."""
    body = {"target": target} if target else None
    return post("dlq", name, "replay", body=body, idempotency_key=idempotency_key)


def archive_dead_letter(name: str, idempotency_key: str | None = None) -> Request:
    """Mark what gave up as dealt with."""
    return post("dlq", name, "archive", idempotency_key=idempotency_key)


def stats() -> Request:
    """Counts by state, lateness, rates."""
    return get("stats")


def follow_events(types: Sequence[str] = (), after: str | None = None, last_id: str | None = None) -> Request:
    """What happens, as it happens; behind `after`, or, if the stream is opened again, behind the last id read."""
    headers = {"Accept": EVENT_STREAM} | ({} if not last_id else {"Last-Event-ID": last_id})
    return msgspec.structs.replace(get("events", query={"type": types, "after": after}), headers=headers)


def secrets(*, reveal: bool = False) -> Request:
    """The signing secrets; only `reveal` shows what they are."""
    return get("secrets", query={"reveal": 1} if reveal else None)


def create_secret(idempotency_key: str | None = None) -> Request:
    """Make a further signing secret, shown once."""
    return post("secrets", idempotency_key=idempotency_key)


def rotate_secret(retire_after: str | float | None = None, idempotency_key: str | None = None) -> Request:
    """Make a signing secret; the others sign beside it for so long, or until they are retired."""
    body = None if retire_after is None else {"retire_after": retire_after}
    return post("secrets", "rotate", body=body, idempotency_key=idempotency_key)


def retire_secret(name: str) -> Request:
    """Let a signing secret sign no more."""
    return delete("secrets", name)


def list_keys(filters: Filters | None = None) -> Request:
    """A page of API keys."""
    return get("keys", query=filters)


def create_key(key: Mapping[str, Any], idempotency_key: str | None = None) -> Request:
    """Make an API key, shown once."""
    return post("keys", body=key, idempotency_key=idempotency_key)


def revoke_key(name: str) -> Request:
    """Revoke an API key."""
    return delete("keys", name)


def list_tenants(filters: Filters | None = None) -> Request:
    """A page of tenants."""
    return get("tenants", query=filters)


def get_tenant(name: str) -> Request:
    """One tenant: its limits, and what it has."""
    return get("tenants", name)


def put_tenant(name: str, limits: Mapping[str, Any]) -> Request:
    """Set what a tenant may have, whole."""
    return put("tenants", name, body=limits)


def delete_tenant(name: str) -> Request:
    """Remove a tenant that has nothing to do."""
    return delete("tenants", name)
