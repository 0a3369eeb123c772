"""`ctl schedule add` and `edit`: what a schedule is to be, from flags or from a file."""

from typing import IO, Any

import click
import msgspec

from tasktick.client import schedules
from tasktick.client.core import Answer
from tasktick.ctl import render, schedule_options, schedule_words
from tasktick.ctl.connect import Session, new_key, server_options, session

# A change of one of their fields keeps the others.
NESTED = ("dst", "catch_up", "task")
BODIES = ("body", "body_text", "body_base64")
SHOWN = ("id", "key", "name", "state", "calls", "when", "next")
FILE = click.option(
    "--file", type=click.File("rb"), metavar="FILE", help="What the API takes, as JSON, instead; - is standard input."
)

Fields = dict[str, msgspec.Raw]


@click.command()
@click.argument("target_url", metavar="[URL]", required=False)
@click.option("--key", help="Your own id for it, unique among schedules.")
@schedule_options.everything
@click.option("--paused", is_flag=True, help="Let it wait until it is resumed.")
@FILE
@click.option("--replace", is_flag=True, help="Replace the schedule that has the key, if there is one.")
@click.option("--idempotency-key", metavar="TEXT", help="Make only one, however often this is run with it.")
@server_options
def add(
    target_url: str | None,
    key: str | None,
    paused: bool,
    file: IO[bytes] | None,
    replace: bool,
    idempotency_key: str | None,
    **given: Any,
) -> None:
    """Make a schedule that calls URL at every time of --cron, --every and --rrule.

    \b
    Examples:
      tasktick ctl schedule add https://app.example/report --key daily-report --cron "0 9 * * MON-FRI" --timezone Europe/Berlin
      tasktick ctl schedule add https://app.example/poll --every 90s --overlap skip --body '{"full": false}'
      tasktick ctl schedule add https://app.example/close --rrule "FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=17" --cron "0 9 1 * *"
      tasktick ctl schedule add --file daily-report.json
      tasktick ctl schedule add --file - --key daily-report --replace < daily-report.json
    """  # noqa: E501 - an example is one line, so that it can be copied
    if replace and key is None:
        raise click.UsageError("--replace needs the --key of what it replaces.")
    if replace and idempotency_key is not None:
        raise click.UsageError("--replace makes one schedule however often it is run: leave out --idempotency-key.")
    fields = schedule_options.document(target_url, given) | ({"paused": True} if paused else {})
    wanted: Any = _new(fields, target_url) if file is None else schedule_options.from_file(file, fields)
    connected = session()
    if replace:
        assert key is not None
        _show(connected, connected.send(schedules.put(f"key:{key}", wanted)))
        return
    wanted = wanted if key is None else _with_key(wanted, key)
    _show(connected, connected.send(schedules.create(wanted, idempotency_key or new_key())))


def _new(fields: dict[str, Any], target_url: str | None) -> dict[str, Any]:
    if target_url is None:
        raise click.UsageError("Say what to call: URL, or --file with all of it.")
    schedule_options.require_rule(fields)
    return fields


def _with_key(wanted: Any, key: str) -> Any:
    if isinstance(wanted, dict):
        return {"key": key, **wanted}
    try:
        return {**msgspec.json.decode(wanted, type=Fields), "key": key}
    except msgspec.ValidationError as error:
        raise click.UsageError(f"--file is no schedule: {error}.") from error


def _show(connected: Session, answer: Answer) -> None:
    if connected.as_json:
        render.document(answer)
        return
    schedule = answer.json() or {}
    words = schedule_words.in_full(schedule, schedule_words.now_of(answer))
    render.record((field, value) for field, value in words if field in SHOWN)


@click.command()
@click.argument("name_or_key", metavar="ID")
@click.option("--to", "target_url", metavar="URL", help="Call this.")
@schedule_options.everything
@FILE
@server_options
def edit(name_or_key: str, target_url: str | None, file: IO[bytes] | None, **given: Any) -> None:
    """Change what is given of a schedule, and nothing else.

    `none` takes away a --start-at, --end-at, --max-fires, --jitter, --anchor or --catch-up-window, or all of
    --calendar; an empty text takes away a --name or --note. Headers join those that are there; secret ones cannot be
    read back, so a change of the call, or of how it is run, needs them again. The fire that was ahead is worked out
    anew.

    \b
    Examples:
      tasktick ctl schedule edit key:daily-report --cron "0 8 * * MON-FRI"
      tasktick ctl schedule edit key:daily-report --to https://app.example/v2/report --max-fires none
      tasktick ctl schedule edit key:daily-report --file changes.json
    """
    fields = schedule_options.document(target_url, given)
    changes: Any = schedule_options.without(fields) if file is None else schedule_options.from_file(file, fields)
    if not changes:
        raise click.UsageError("Say what to change; see --help.")
    connected = session()
    version = None
    if file is None and not changes.keys().isdisjoint(NESTED):
        found = connected.send(schedules.read(name_or_key))
        version = found.headers.get("etag")
        changes = _joined(found, changes)
    _show(connected, connected.send(schedules.change(name_or_key, changes, version)))


def _joined(found: Answer, changes: dict[str, Any]) -> dict[str, Any]:
    """The changes, with what they do not name of the fields that are replaced whole."""
    found.json()  # what is no JSON is a problem
    there = _fields(msgspec.json.decode(found.body), msgspec.Raw(found.body))
    joined = dict(changes)
    for name in NESTED:
        if name in changes:
            joined[name] = {**_parts(there, name), **changes[name]}
    if "target" in changes.get("task", {}):
        joined["task"]["target"] = _target(_parts(_parts(there, "task"), "target"), changes["task"]["target"])
    if "retry" in changes.get("task", {}):
        joined["task"]["retry"] = {**_parts(_parts(there, "task"), "retry"), **changes["task"]["retry"]}
    return joined


def _target(there: Fields, changed: dict[str, Any]) -> dict[str, Any]:
    """The call with its changes: one body takes the place of another, headers join those that are there."""
    joined: dict[str, Any] = dict(there)
    if not changed.keys().isdisjoint(BODIES):
        joined = {name: value for name, value in joined.items() if name not in BODIES}
    if "headers" in changed:
        named = {name.lower() for name in changed["headers"]}
        kept = {name: value for name, value in _parts(there, "headers").items() if name.lower() not in named}
        changed = {**changed, "headers": {**kept, **changed["headers"]}}
    return {**joined, **changed}


def _parts(fields: Fields, name: str) -> Fields:
    raw = fields.get(name, msgspec.Raw(b"null"))
    return _fields(msgspec.json.decode(raw), raw)


def _fields(value: Any, raw: msgspec.Raw) -> Fields:
    """The fields of an object, each as it was written: a body is sent byte for byte."""
    return msgspec.json.decode(raw, type=Fields) if isinstance(value, dict) else {}
