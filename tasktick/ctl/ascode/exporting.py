"""A server's schedules and calendars as a file: what is said there, and not what goes without saying."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from tasktick.client import calendars, schedules
from tasktick.client.core import Problem
from tasktick.ctl.ascode import planning, server, toml_text
from tasktick.ctl.ascode.planning import canonical
from tasktick.ctl.ascode.references import MASK, has_mask
from tasktick.ctl.connect import Session

OWNER_DEFAULT = "default"
PRIVATE = 0o600
INLINE = frozenset({"body", "payload"})
# Where it is always good to know.
_SAID = frozenset({"timezone"})
_SPACE = re.compile(rb'("(?:[^"\\]|\\.)*")|\s+')


class Exported(msgspec.Struct, frozen=True):
    """A document, and what is to be told about it."""

    document: dict[str, Any]
    told: list[str]


def export(session: Session, owner: str | None) -> Exported:
    """What belongs to this owner; everything, if none is named."""
    default = server.default(session)
    found = _found(session, owner)
    owners = {mark for one in found if (mark := (one.get("tags") or {}).get(planning.OWNER_TAG)) is not None}
    if owner is None and len(owners) > 1:
        raise click.UsageError(
            f"Files of several owners made what is here: name one of {', '.join(sorted(owners))} with --owner."
        )
    keyless = sum(not one.get("key") for one in found)
    told = [f"{keyless} schedules have no key, and so no place in a file."] if keyless else []
    made: dict[str, Any] = {}
    for one in sorted(found, key=lambda one: str(one.get("key"))):
        if one.get("key"):
            made[one["key"]] = _least(session, one, default)
            if one.get("paused_until"):
                told.append(f"{one['key']}: it is paused until a time; a file only says that it is paused.")
            if has_mask(one):
                told.append(
                    f"{one['key']}: its secret headers are {MASK} here; put a reference such as ${{ENV:NAME}} there."
                )
    used = {server.name_of(use) for one in made.values() for use in one.get("calendars") or ()}
    days = _calendars(session, used if owner is not None else None)
    whole = {"owner": owner or next(iter(owners), OWNER_DEFAULT), "calendars": days, "schedules": made}
    return Exported({name: value for name, value in whole.items() if value or name == "schedules"}, told)


def _found(session: Session, owner: str | None) -> list[dict[str, Any]]:
    asked: dict[str, Any] = {"fields": "full", "limit": server.PAGE, "order": "asc"}
    if owner is not None:
        asked["tag"] = f"{planning.OWNER_TAG}:{owner}"
    rows: list[dict[str, Any]] = []
    for page in session.pages(schedules.find(asked)):
        rows += page.json()["data"]
        _keep_bodies(page.body, rows)
    return rows


def _keep_bodies(page: bytes, rows: list[dict[str, Any]]) -> None:
    """A body whose bytes a parser would not give back is kept as it was written."""
    exact = msgspec.json.decode(page, type=_Page).data
    for row, whole in zip(rows[len(rows) - len(exact) :], exact, strict=True):
        raw = bytes(whole.task.target.body)
        target = row["task"]["target"]
        if raw in (b"", b"null"):
            target.pop("body", None)
        elif _SPACE.sub(rb"\1", raw) != msgspec.json.encode(target["body"]):
            del target["body"]
            target["body_json"] = raw.decode()


class _Target(msgspec.Struct):
    body: msgspec.Raw = msgspec.Raw(b"")


class _Task(msgspec.Struct):
    target: _Target


class _Row(msgspec.Struct):
    task: _Task


class _Page(msgspec.Struct):
    data: list[_Row]


def _least(session: Session, one: dict[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    """What must be said of it, if the server reads that as it reads all of it."""
    whole = {name: value for name, value in planning.unmarked(one).items() if name in default and name != "key"}
    whole = _masked_whole(_given(whole))
    least = _without(whole, default)
    if not least.get("paused"):
        least.pop("paused", None)
    try:
        readings = [_reading(session, said) for said in (least, whole)]
    except Problem:  # it cannot be made here any more, and is written in full
        return whole
    return least if canonical(readings[0]) == canonical(readings[1]) else whole


def _given(value: Any) -> Any:
    """Without what is null."""
    if isinstance(value, dict):
        return {name: _given(one) if name not in INLINE else one for name, one in value.items() if one is not None}
    return [_given(one) for one in value] if isinstance(value, list) else value


def _masked_whole(whole: dict[str, Any]) -> dict[str, Any]:
    """No part of a secret is written into a file, not even its end."""
    target = whole["task"]["target"]
    headers = target.get("headers") or {}
    made = {name: MASK if str(value).startswith(MASK) else value for name, value in headers.items()}
    return {**whole, "task": {**whole["task"], "target": {**target, "headers": made}}}


def _without(whole: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in whole.items():
        usual = default.get(name)
        if isinstance(value, dict) and isinstance(usual, dict) and name != "body":
            inner = _without(value, usual)
            if inner:
                made[name] = inner
        elif name in ("url", *_SAID) or canonical(value) != canonical(usual):
            made[name] = value
    return made


def _reading(session: Session, said: dict[str, Any]) -> Any:
    target = said["task"]["target"]
    shown = {name: value for name, value in target.items() if name not in ("headers", "body_json")}
    if "body_json" in target:
        shown["body"] = msgspec.Raw(target["body_json"].encode())
    request = {**said, "task": {**said["task"], "target": shown}}
    return (session.send(schedules.preview(request, 1)).json() or {})["schedule"]


def _calendars(session: Session, names: set[str] | None) -> dict[str, Any]:
    pages = session.pages(calendars.find({"limit": server.PAGE}))
    return {
        one["name"]: _given({part: value for part, value in server.calendar(one).items() if value not in ([], {})})
        for page in pages
        for one in (page.json() or {})["data"]
        if names is None or one["name"] in names
    }


def written(made: Exported, form: str) -> str:
    """The document in a format."""
    if form == "json":
        return json.dumps(made.document, indent=2, ensure_ascii=False) + "\n"
    if form == "yaml":
        from tasktick.ctl.ascode import yaml_text

        return yaml_text.dump(made.document)
    for one in made.document["schedules"].values():
        for part, name in ((one["task"].get("target", {}), "body"), (one["task"], "payload")):
            if name in part and not toml_text.can_say(part[name]):
                part[f"{name}_json"] = msgspec.json.encode(part.pop(name)).decode()
    return toml_text.dump(made.document, INLINE)


def save(file: Path, text: str, *, overwrite: bool) -> None:
    """Write it, for its user alone; what is there stays unless it may go."""
    mode = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if overwrite else os.O_EXCL)
    try:
        with os.fdopen(os.open(file, mode, PRIVATE), "w", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise click.UsageError(f"{file} is there already: say --overwrite, or name another.") from None
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}.") from error
