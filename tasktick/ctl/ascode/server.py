"""The server's side: how it reads what files declare, and what stands there."""

import copy
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tasktick.client import calendars, schedules
from tasktick.client.core import Filters, Problem
from tasktick.ctl.ascode import planning, references
from tasktick.ctl.ascode.document import Declared, Fault, Faulty
from tasktick.ctl.ascode.planning import Change, Standing, Wanted
from tasktick.ctl.connect import Session

PAGE = 1_000
NOT_FOUND = 404
INVALID = (400, 409, 413, 422)
_NOT_A_CALENDAR_S = frozenset({"name", "left_out", "created_at", "updated_at", "version"})
LEAST: dict[str, Any] = {"every": "1h", "task": {"target": {"url": "https://app.example/"}}}
NEVER = "never_fires"
_NOTHING_TO_COME = "Nothing of this is still to come, so it cannot be made: change its times, or leave it out."
_TOO_OLD = "This server does not show how it reads a schedule: it is older than this program. Upgrade it first."


def prepared(declared: Declared) -> tuple[list[Wanted], list[Fault]]:
    """What a file wants, as it is sent, and what can be told to be wrong without the server."""
    wanted = [
        Wanted("calendar", key, declared.owner, declared.file, content, {})
        for key, content in declared.calendars.items()
    ]
    faults: list[Fault] = []
    for key, content in declared.schedules.items():
        request = copy.deepcopy(content)
        place = ("schedules", key)
        if request.setdefault("key", key) != key:
            faults.append(declared.fault((*place, "key"), "This is not the key under which it stands: leave it out."))
        faults += [
            declared.fault((*place, "tags", name), "`apply` keeps this tag: leave it out.")
            for name in _table(request, "tags")
            if name in planning.MARKS
        ]
        if request.get("task") is None:
            faults.append(declared.fault((*place, "task"), "Say what each fire does: `task.target.url`, for a call."))
        has_secrets, own = _target(declared, request, place)
        faults += own
        wanted.append(Wanted("schedule", key, declared.owner, declared.file, request, {}, has_secrets))
    return wanted, faults


def _target(declared: Declared, request: dict[str, Any], place: tuple[str, ...]) -> tuple[bool, list[Fault]]:
    """The task, with its references, its `body_json` and `payload_json` resolved, in place; whether it has secrets."""
    task = request.get("task")
    if not isinstance(task, dict):
        return False, []
    found = _json_text(declared, task, "payload", (*place, "task"))
    target = task.get("target")
    if not isinstance(target, dict):
        return False, found
    at = (*place, "task", "target")
    made, wrong = references.headers_of(target, os.environ, Path(declared.file).parent)
    found += _json_text(declared, made, "body", at)
    task["target"] = made
    found += [declared.fault((*at, "headers", name), detail) for name, detail in wrong]
    return made.get("headers") != target.get("headers"), found


def _json_text(declared: Declared, part: dict[str, Any], name: str, place: tuple[str, ...]) -> list[Fault]:
    """A value that is written as the text of its JSON, which is sent as it stands."""
    said = f"{name}_json"
    if said not in part:
        return []
    text = part.pop(said)
    if name in part:
        return [declared.fault((*place, said), f"Give one of `{name}` and `{said}`.")]
    try:
        raw = str(text).encode()
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError) as error:
        return [declared.fault((*place, said), f"This is no JSON: {error}.")]
    part[name] = msgspec.Raw(raw)
    return []


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def judged(session: Session, files: Iterable[Declared], wanted: Iterable[Wanted]) -> list[Wanted]:
    """The same with how the server reads it; raises `Faulty` with everything that it refuses."""
    by_file = {one.file: one for one in files}
    made: list[Wanted] = []
    faults: list[Fault] = []
    to_come: set[str] = set()
    for one in wanted:
        try:
            if one.kind == "calendar":
                to_come.add(one.key)
                answer = session.send(calendars.try_out(one.key, one.request)).json() or {}
                made.append(msgspec.structs.replace(one, reading=calendar(answer)))
            else:
                made.append(_schedule(session, one, to_come))
        except Problem as problem:
            if problem.status not in INVALID:
                raise
            faults += _faults(by_file[one.file], one, problem)
    if faults:
        raise Faulty(faults, by_server=True)
    return made


def _schedule(session: Session, one: Wanted, to_come: set[str]) -> Wanted:
    """With how the server reads it. A calendar that is only to be made is not there for it to find."""
    request = _marked(one.request, dict.fromkeys(planning.MARKS, "0" * planning.DIGEST_CHARS))
    uses = request.get("calendars")
    own = [use for use in uses if name_of(use) in to_come] if isinstance(uses, list) else []
    if own:
        request["calendars"] = [use for use in uses or () if use not in own]
    answer = session.send(schedules.preview(request, 1)).json() or {}
    if not isinstance(answer.get("schedule"), dict):
        raise Problem(501, "unknown", _TOO_OLD)
    reading = planning.unmarked(answer["schedule"])
    if own:
        reading["calendars"] = [_use(use) for use in uses or ()]
    never = any(warning.get("code") == NEVER for warning in answer.get("warnings") or ())
    has_secrets = one.has_secrets or references.has_mask(reading)
    return msgspec.structs.replace(one, reading=reading, has_secrets=has_secrets, never_fires=never)


def check_to_come(files: Iterable[Declared], changes: Iterable[Change]) -> None:
    """Raise for what would be made though nothing of it is to come, which a server refuses. What is there may end."""
    by_file = {one.file: one for one in files}
    faults = [
        by_file[one.file].fault((f"{one.kind}s", one.key), _NOTHING_TO_COME)
        for one in changes
        if one.action == "create" and one.wanted is not None and one.wanted.never_fires
    ]
    if faults:
        raise Faulty(faults, by_server=True)


def _marked(request: Mapping[str, Any], marks: Mapping[str, str]) -> dict[str, Any]:
    tags = request.get("tags")
    return {**request, "tags": {**(tags or {}), **marks}} if tags is None or isinstance(tags, dict) else {**request}


def to_send(one: Wanted) -> dict[str, Any]:
    """The request with the marks of its owner."""
    return _marked(one.request, planning.marks(one.owner, one.reading))


def name_of(use: Any) -> str:
    """Of a calendar that a schedule heeds."""
    return str(use.get("name")) if isinstance(use, dict) else str(use)


def _use(use: Any) -> Any:
    """A calendar as a schedule shows that it heeds it."""
    return use["name"] if isinstance(use, dict) and use.get("mode", "exclude") == "exclude" else use


def calendar(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in a calendar."""
    return {name: value for name, value in answer.items() if name not in _NOT_A_CALENDAR_S}


def _faults(declared: Declared, one: Wanted, problem: Problem) -> list[Fault]:
    place = (f"{one.kind}s", one.key)
    if not problem.faults:
        return [declared.fault(place, problem.detail)]
    return [declared.fault((*place, *_parts(fault.pointer)), fault.detail) for fault in problem.faults]


def _parts(pointer: str) -> list[str | int]:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    return [int(part) if part.isdigit() else part for part in parts]


def standing_of(document: Mapping[str, Any]) -> Standing:
    """A schedule that is there."""
    tags = document.get("tags") or {}
    return Standing(
        "schedule",
        str(document.get("key")),
        int(document["version"]),
        document,
        tags.get(planning.OWNER_TAG),
        tags.get(planning.DIGEST_TAG),
    )


def default(session: Session) -> dict[str, Any]:
    """How the server reads a schedule that says nothing beyond what it must."""
    answer = session.send(schedules.preview(LEAST, 1)).json() or {}
    if not isinstance(answer.get("schedule"), dict):
        raise Problem(501, "unknown", _TOO_OLD)
    reading: dict[str, Any] = answer["schedule"]
    return reading


def found(
    session: Session, wanted: Iterable[Wanted], owners: Iterable[str], fields: Collection[str]
) -> dict[tuple[str, str], Standing]:
    """What is there of what is wanted, and what belongs to these owners; only these fields of a schedule are read."""
    there = {("schedule", one.key): one for owner in owners for one in owned(session, owner)}
    for want in wanted:
        if (want.kind, want.key) not in there:
            one = _read(session, want)
            if one is not None:
                there[want.kind, want.key] = one
    return {name: _narrowed(one, fields) if one.kind == "schedule" else one for name, one in there.items()}


def _narrowed(one: Standing, fields: Collection[str]) -> Standing:
    return msgspec.structs.replace(one, reading={name: one.reading[name] for name in fields if name in one.reading})


def owned(session: Session, owner: str) -> list[Standing]:
    """The schedules that belong to somebody."""
    asked: Filters = {"tag": f"{planning.OWNER_TAG}:{owner}", "fields": "full", "limit": PAGE, "order": "asc"}
    pages = session.pages(schedules.find(asked))
    return [standing_of(one) for page in pages for one in (page.json() or {})["data"] if one.get("key")]


def _read(session: Session, one: Wanted) -> Standing | None:
    request = calendars.read(one.key) if one.kind == "calendar" else schedules.read(f"key:{one.key}")
    try:
        document = session.send(request).json()
    except Problem as problem:
        if problem.status == NOT_FOUND:
            return None
        raise
    if one.kind == "schedule":
        return standing_of(document)
    return Standing("calendar", one.key, int(document["version"]), calendar(document))
