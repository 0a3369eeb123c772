"""Problems (RFC 9457): every refusal as a client reads it, whoever refuses. The one table of codes."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from tasktick.api.call import Reply
from tasktick.errors import IllegalTransition, Refused, StoreError, StoreFull, TaskTickError

MEDIA_TYPE = "application/problem+json"
TYPE_START = "urn:tasktick:problem:"
ERRORS_MAX = 100
# Of one item: a batch has up to ten thousand.
ITEM_ERRORS_MAX = 10

# Code: (status, title).
CODES: Mapping[str, tuple[int, str]] = {
    "malformed": (400, "The request cannot be read"),
    "unauthenticated": (401, "A valid key is needed"),
    "forbidden": (403, "This key may not do that"),
    "not_found": (404, "There is no such thing here"),
    "method_not_allowed": (405, "Not with this method"),
    "not_acceptable": (406, "No such representation"),
    "request_timeout": (408, "The request did not arrive in time"),
    "state_conflict": (409, "Not in this state"),
    "idempotency_in_flight": (409, "The same request is still being handled"),
    "key_taken": (409, "The key is taken"),
    "lease_lost": (409, "The lease is lost"),
    "version_mismatch": (412, "It has changed meanwhile"),
    "payload_too_large": (413, "The request is too large"),
    "unsupported_media_type": (415, "Not in this format"),
    "validation_failed": (422, "The request is not valid"),
    "target_forbidden": (422, "Tasks may not call this target"),
    "idempotency_key_reused": (422, "The idempotency key stands for another request"),
    "cron_never_fires": (422, "The schedule never fires"),
    "workflow_cycle": (422, "The workflow goes round in a circle"),
    "rate_limited": (429, "Too many requests"),
    "quota_exceeded": (429, "The quota is used up"),
    "headers_too_large": (431, "The headers are too large"),
    "internal": (500, "Something went wrong here"),
    "draining": (503, "The server is stopping"),
    "store_unavailable": (503, "The store cannot be used now"),
    "overloaded": (503, "Too much to do"),
}
RETRY_AFTER_S = {408: 1, 429: 1, 503: 1}
FULL_RETRY_AFTER_MS = 10_000


def status_of(code: str) -> int:
    """The status that goes with a code."""
    return CODES[code][0]


def refusal_of(error: BaseException) -> Refused | None:
    """What a client is told about an error; None if it is a bug, of which nothing is told."""
    match error:
        case Refused():
            return error if error.code in CODES else None
        case IllegalTransition():
            return Refused("state_conflict", str(error))
        case StoreFull():
            return Refused(
                "store_unavailable",
                "The disk that holds the store is full. Nothing was written; try again when there is room.",
                retry_after_ms=FULL_RETRY_AFTER_MS,
            )
        case StoreError():
            return Refused("store_unavailable", "The store cannot be used now. Try again.")
        case _:
            return None


def body_of(refused: Refused, request_id: str | None = None, **extra: Any) -> dict[str, Any]:
    """The document: what happened, what to do, and where the fault is."""
    status, title = CODES[refused.code]
    document: dict[str, Any] = {
        "type": TYPE_START + refused.code,
        "title": title,
        "status": status,
        "detail": refused.detail,
        "code": refused.code,
    }
    if request_id is not None:
        document["request_id"] = request_id
    if refused.errors:
        document["errors"] = [{"pointer": pointer, "detail": text} for pointer, text in refused.errors[:ERRORS_MAX]]
    return document | extra


def reply(refused: Refused, request_id: str, headers: Mapping[str, str] | None = None, **extra: Any) -> Reply:
    """The answer to a request that is refused."""
    status = status_of(refused.code)
    fields = dict(headers or {})
    after_s = -(-refused.retry_after_ms // 1_000) if refused.retry_after_ms is not None else RETRY_AFTER_S.get(status)
    if after_s is not None:
        fields.setdefault("Retry-After", str(max(1, after_s)))
    if status == HTTPStatus.UNAUTHORIZED:
        fields.setdefault("WWW-Authenticate", 'Bearer realm="tasktick"')
    return Reply(status, msgspec.json.encode(body_of(refused, request_id, **extra)), fields, MEDIA_TYPE)


def internal(request_id: str) -> Reply:
    """The answer when we are at fault: the request id leads to the log line, which has the cause."""
    detail = "The request failed for a reason that is ours. The log of the server has it under this request_id."
    return reply(Refused("internal", detail), request_id)


def item_error(error: TaskTickError) -> dict[str, Any]:
    """The same inside a batch, where each item has its own."""
    refused = refusal_of(error) or Refused("internal", "This item failed for a reason that is ours.")
    document = body_of(refused)
    if refused.errors:
        document["errors"] = document["errors"][:ITEM_ERRORS_MAX]
    return document
