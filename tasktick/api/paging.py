"""Pages: how many, from where. A cursor is opaque and holds for the filter that it was given with, no other. Pure."""

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tasktick.api.faults import Faults
from tasktick.errors import Refused

LIMIT_DEFAULT = 50
LIMIT_MAX = 1_000
CURSOR_CHARS_MAX = 512
BOUND_CHARS = 16
NUMBER_CHARS_MAX = 18
NO_CURSOR = "This is no cursor of ours. Begin again without one."
# They say how a page is cut or shown, not what is in it.
UNBOUND = frozenset({"limit", "cursor", "fields"})

Query = Mapping[str, Sequence[str]]


class Page(msgspec.Struct, frozen=True):
    """Which part of a list is asked for."""

    limit: int
    beyond: str | None
    bound: str

    def next_cursor(self, last: str | None) -> str | None:
        """The cursor of what follows this row."""
        if last is None:
            return None
        return urlsafe_b64encode(msgspec.json.encode([last, self.bound])).decode().rstrip("=")


def page_of(faults: Faults, query: Query, kind: str, tenant: str) -> Page:
    """The page that a query asks for."""
    bound = _bound(query, kind, tenant)
    return Page(_limit(faults, query), _beyond(query.get("cursor", ()), bound), bound)


def _bound(query: Query, kind: str, tenant: str) -> str:
    """What stands for a filter in its cursors."""
    words = sorted((name, sorted(values)) for name, values in query.items() if name not in UNBOUND)
    return hashlib.sha256(msgspec.json.encode([kind, tenant, words])).hexdigest()[:BOUND_CHARS]


def _limit(faults: Faults, query: Query) -> int:
    values = query.get("limit", ())
    if not values:
        return LIMIT_DEFAULT
    text = values[-1]
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LIMIT_MAX)) and 1 <= int(text) <= LIMIT_MAX):
        faults.add("?limit", f"This must be from 1 to {LIMIT_MAX}.")
        return LIMIT_DEFAULT
    return int(text)


def _beyond(cursors: Sequence[str], bound: str) -> str | None:
    if not cursors:
        return None
    text = cursors[-1]
    try:
        if len(text) > CURSOR_CHARS_MAX:
            raise ValueError("too long")
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        last, made_for = msgspec.json.decode(raw, type=tuple[str, str])
    except (ValueError, msgspec.DecodeError):
        raise Refused("malformed", NO_CURSOR) from None
    if made_for != bound:
        raise Refused("malformed", "This cursor belongs to another filter or order. Begin again without one.")
    return last


def number_of(beyond: str | None) -> int:
    """Where a list that is counted through goes on. A cursor is not signed, so it may say anything."""
    if beyond is None:
        return 0
    if not (beyond.isascii() and beyond.isdigit() and len(beyond) <= NUMBER_CHARS_MAX):
        raise Refused("malformed", NO_CURSOR)
    return int(beyond)


def document(rows: list[Any], next_cursor: str | None) -> dict[str, Any]:
    """A page as clients read it."""
    return {"data": rows, "next_cursor": next_cursor}
