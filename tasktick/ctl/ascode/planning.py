"""What would have to be done: both sides compared field by field, and who else has had a hand in it. Pure.

Whom a schedule belongs to, and what it was when it was last applied, stand in two tags of it, which no file may set
and no export shows: the owner, and a digest of its definition as the server reads it. A definition that no longer has
that digest was changed by somebody else. A pause and its note are no part of the digest: to pause is no change.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Literal

import msgspec

OWNER_TAG = "managed-by"
DIGEST_TAG = "managed-digest"
MARKS = (OWNER_TAG, DIGEST_TAG)
DIGEST_CHARS = 32
DRIFTED = "Somebody else has changed it since it was last applied."
# What is on its way, and not what it is.
_NOT_DEFINING = frozenset({"key", "paused", "note"})

Action = Literal["create", "change", "mark", "prune", "none"]
Kind = Literal["calendar", "schedule"]
Fields = Mapping[str, Any]


class Wanted(msgspec.Struct, frozen=True):
    """What a file wants to be there: as it is sent, and as the server reads it."""

    kind: Kind
    key: str
    owner: str
    file: str
    request: dict[str, Any]
    reading: Fields
    has_secrets: bool = False
    never_fires: bool = False


class Standing(msgspec.Struct, frozen=True):
    """What is there, as the server reads it; a calendar belongs to nobody."""

    kind: Kind
    key: str
    version: int
    reading: Fields
    owner: str | None = None
    digest: str | None = None


class Difference(msgspec.Struct, frozen=True):
    """A field that is not as it is wanted."""

    path: str
    old: Any
    new: Any


class Change(msgspec.Struct, frozen=True):
    """What is to be done about one of them, and why it is refused unless it is forced."""

    action: Action
    kind: Kind
    key: str
    owner: str
    file: str
    fields: tuple[Difference, ...] = ()
    conflict: str | None = None
    wanted: Wanted | None = None
    standing: Standing | None = None


def canonical(value: Any) -> bytes:
    """A value as bytes that are the same for what is the same; nothing said is as good as not there."""
    return msgspec.json.encode(_said(value), order="sorted")


def _said(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _said(one) for name, one in value.items() if one is not None}
    return [_said(one) for one in value] if isinstance(value, list) else value


def digest(reading: Fields) -> str:
    """What a definition comes to."""
    defining = {name: value for name, value in unmarked(reading).items() if name not in _NOT_DEFINING}
    return sha256(canonical(defining)).hexdigest()[:DIGEST_CHARS]


def unmarked(reading: Fields) -> dict[str, Any]:
    """A reading without what tells whom it belongs to."""
    tags = {name: value for name, value in (reading.get("tags") or {}).items() if name not in MARKS}
    return {**reading, "tags": tags} if "tags" in reading else dict(reading)


def marks(owner: str, reading: Fields) -> dict[str, str]:
    """The tags by which it is known again."""
    return {OWNER_TAG: owner, DIGEST_TAG: digest(reading)}


def differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """Field by field; a list and a body are one field."""
    if isinstance(old, Mapping) and isinstance(new, Mapping) and not path.endswith(".body"):
        for name in dict.fromkeys((*old, *new)):
            yield from differences(old.get(name), new.get(name), f"{path}.{name}" if path else name)
    elif canonical(old) != canonical(new):
        yield Difference(path, old, new)


def compare(wanted: Wanted, standing: Standing | None) -> Change:
    """What one of them needs."""

    def change(action: Action, fields: Iterable[Difference] = (), conflict: str | None = None) -> Change:
        return Change(
            action, wanted.kind, wanted.key, wanted.owner, wanted.file, tuple(fields), conflict, wanted, standing
        )

    if standing is None:
        return change("create")
    fields = tuple(differences(*_comparable(wanted, standing)))
    if wanted.kind == "calendar":
        return change("change" if fields else "none", fields)
    is_ours = standing.owner == wanted.owner
    if is_ours and standing.digest == digest(standing.reading):
        return change("change" if fields else "none", fields)
    if standing.owner is not None and not is_ours:
        return change("change" if fields else "mark", fields, f"It belongs to {standing.owner}.")
    if not fields:
        return change("mark")
    if is_ours:
        return change("change", fields, DRIFTED)
    return change("change", fields, "It is there already, and was not made from a file.")


def _comparable(wanted: Wanted, standing: Standing) -> tuple[Fields, Fields]:
    """Both, without what the file does not say and somebody may have done: a pause, and its note."""
    old, new = unmarked(standing.reading), unmarked(wanted.reading)
    left_out = {"key"}
    if wanted.request.get("paused") is None:
        left_out.add("paused")
        if standing.reading.get("paused") and wanted.request.get("note") is None:
            left_out.add("note")
    return (
        {name: value for name, value in old.items() if name not in left_out},
        {name: value for name, value in new.items() if name not in left_out},
    )


def plan(wanted: Iterable[Wanted], standing: Mapping[tuple[str, str], Standing]) -> list[Change]:
    """What they need, in the order in which it is done: calendars before who names them."""
    return sorted((compare(one, standing.get((one.kind, one.key))) for one in wanted), key=lambda one: one.kind)


def orphans(
    changes: Iterable[Change], standing: Mapping[tuple[str, str], Standing], files: Mapping[str, str]
) -> list[Change]:
    """What belongs to the owners of these files (by owner), and none of them lists: to be pruned."""
    listed = {(one.kind, one.key) for one in changes}
    return [
        Change("prune", one.kind, one.key, one.owner, files[one.owner], (), _drift(one), None, one)
        for name, one in sorted(standing.items())
        if one.owner is not None and one.owner in files and name not in listed
    ]


def _drift(one: Standing) -> str | None:
    return None if one.digest == digest(one.reading) else DRIFTED
