"""`ctl task add`: a task from the command line, and what became of it."""

import re
import threading
from base64 import b64encode
from collections.abc import Callable
from typing import IO, Any

import click
import msgspec

from tasktick.client import core
from tasktick.client.core import Problem, Unreachable
from tasktick.ctl import render
from tasktick.ctl.connect import Session, new_key, server_options, session
from tasktick.ctl.listing import name_and_value

ENDED = frozenset({"succeeded", "dead", "cancelled", "expired", "skipped", "missed"})
POLL_FIRST_MS = 100
POLL_MAX_MS = 2_000
POLL_GROWTH = 1.5
# A daemon that is restarted meanwhile comes back; one that stays away is not waited for.
UNREACHABLE_POLLS_MAX = 30
UNAVAILABLE = 503
UNIX_SECONDS = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?")
SHOWN = ("id", "key", "state", "reason", "attempt", "run_at", "completed_at", "error", "result")

Pause = Callable[[float], object]


@click.command()
@click.argument("target_url", metavar="URL")
@click.option("--in", "delay", metavar="DURATION", help="Run after this long, such as 90s, 1h30m or 2d.")
@click.option("--at", "run_at", metavar="TIME", help="Run at this time: RFC 3339 with an offset, or Unix seconds.")
@click.option("--method", metavar="NAME", help="The HTTP method.  [default: POST]")
@click.option("--header", "headers", metavar="'NAME: VALUE'", multiple=True, help="A header to send; repeatable.")
@click.option("--body", metavar="TEXT", help="What to send: JSON, unless a content-type header says otherwise.")
@click.option(
    "--body-file", type=click.File("rb"), metavar="FILE", help="The same from a file; - reads standard input."
)
@click.option("--timeout", metavar="DURATION", help="How long one attempt may take.  [default: 30s]")
@click.option("--key", help="Your own id for it, unique among unfinished tasks.")
@click.option("--name", help="What people call it.")
@click.option("--type", "type_", help="What kind of task it is.")
@click.option("--queue", help="The queue that it goes through.")
@click.option("--priority", type=click.IntRange(0, 9), help="0 goes first, 9 last.  [default: 5]")
@click.option("--tag", "tags", metavar="NAME=VALUE", multiple=True, help="A tag; repeatable.")
@click.option("--retry-max", type=click.IntRange(1), metavar="N", help="How many attempts it has.  [default: 5]")
@click.option("--expires-in", metavar="DURATION", help="Give up if it has not started after this long.")
@click.option("--at-most-once", is_flag=True, help="Never send again what may have been received.")
@click.option("--idempotency-key", metavar="TEXT", help="Make only one task, however often this is run with it.")
@click.option("--wait", is_flag=True, help="Follow it until it ends; exit code 1 unless it succeeded.")
@server_options
def add(wait: bool, idempotency_key: str | None, **given: Any) -> None:
    """Make a task that calls URL: now, or when --in or --at says.

    \b
    Examples:
      tasktick ctl task add https://app.example/hook --in 5m --body '{"invoice": 771}'
      tasktick ctl task add https://app.example/hook --at 2026-12-01T09:00:00+01:00 --key invoice-771
      date | tasktick ctl task add https://app.example/log --header 'content-type: text/plain' --body-file -
    """
    task = task_of(**given)
    connected = session()
    answer = connected.send(core.create_task(task, idempotency_key or new_key()))
    if wait:
        answer = follow(connected, answer, threading.Event().wait)
    if connected.as_json:
        render.document(answer)
    else:
        made = answer.json() or {}
        render.record((field, made.get(field)) for field in SHOWN)
    if wait and (answer.json() or {}).get("state") != "succeeded":
        click.get_current_context().exit(1)


def task_of(
    *,
    target_url: str,
    headers: tuple[str, ...],
    body: str | None,
    body_file: IO[bytes] | None,
    tags: tuple[str, ...],
    at_most_once: bool,
    **given: Any,
) -> dict[str, Any]:
    """The request's document: what was given, and nothing that was not."""
    if given["delay"] is not None and given["run_at"] is not None:
        raise click.UsageError("--in and --at are two ways to say when: give one of them.")
    if body is not None and body_file is not None:
        raise click.UsageError("--body and --body-file are two ways to say what: give one of them.")
    sent = dict(_header(text) for text in headers)
    target = {
        "url": target_url,
        "method": given["method"],
        "headers": sent or None,
        "timeout": given["timeout"],
        **_body(body.encode() if body is not None else body_file.read() if body_file is not None else None, sent),
    }
    task = {
        "target": _given(target),
        "delay": given["delay"],
        "run_at": _instant(given["run_at"]),
        "tags": dict(name_and_value(tag, "--tag") for tag in tags) or None,
        "retry": None if given["retry_max"] is None else {"max_attempts": given["retry_max"]},
        "delivery": "at_most_once" if at_most_once else None,
        "type": given["type_"],
        **{name: given[name] for name in ("key", "name", "queue", "priority", "expires_in")},
    }
    return _given(task)


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _instant(text: str | None) -> str | float | None:
    """Unix seconds travel as a number, everything else as it was written: `nan` as a number would become null, now."""
    return float(text) if text is not None and UNIX_SECONDS.fullmatch(text) else text


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise click.UsageError(f"--header {text!r} is not 'NAME: VALUE'.")
    return name.strip(), value.strip()


def _body(data: bytes | None, headers: dict[str, str]) -> dict[str, Any]:
    """JSON goes as it was written; with another content type, text goes as text and the rest as base64."""
    if data is None:
        return {}
    media_type = next((value for name, value in headers.items() if name.lower() == "content-type"), "json")
    if "json" not in media_type.lower():
        try:
            return {"body_text": data.decode()}
        except UnicodeDecodeError:
            return {"body_base64": b64encode(data).decode()}
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(
            f"The body is no JSON: {error}. For other text, say what it is: --header 'content-type: text/plain'."
        ) from error
    return {"body": msgspec.Raw(data)}


def follow(connected: Session, answer: core.Answer, pause: Pause) -> core.Answer:
    """Ask until the task has ended; each new state is said as it comes."""
    task = answer.json() or {}
    name, said, wait_ms, failures = str(task.get("id")), None, float(POLL_FIRST_MS), 0
    while True:
        now = (task.get("state"), task.get("attempt"))
        if now != said and not connected.as_json:
            render.say(f"{name}: {render.word(now[0])}, attempt {render.word(now[1])}")
        if now[0] in ENDED:
            return answer
        # What has changed may change again soon; what has not is asked less and less often.
        wait_ms = min(wait_ms * POLL_GROWTH, POLL_MAX_MS) if now == said else float(POLL_FIRST_MS)
        said = now
        pause(wait_ms / 1_000)
        try:
            answer, failures = connected.send(core.get_task(name)), 0
            task = answer.json() or {}
        except (Unreachable, Problem) as error:
            failures += 1
            if failures >= UNREACHABLE_POLLS_MAX or (isinstance(error, Problem) and error.status != UNAVAILABLE):
                raise
