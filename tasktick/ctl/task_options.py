"""What a task calls and how it is run: the flags that `task add` and `schedule add` share, and what they come to."""

import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from tasktick.ctl.flags import Duration

Command = TypeVar("Command", bound=Callable[..., Any])

UNIX_SECONDS = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?")

_CALL = (
    click.option("--method", metavar="NAME", help="The HTTP method.  [default: POST]"),
    click.option("--header", "headers", metavar="'NAME: VALUE'", multiple=True, help="A header to send; repeatable."),
    click.option("--body", metavar="TEXT", help="What to send: JSON, unless a content-type header says otherwise."),
    click.option(
        "--body-file", type=click.File("rb"), metavar="FILE", help="The same from a file; - reads standard input."
    ),
    click.option("--timeout", type=Duration(), help="How long one attempt may take.  [default: 30s]"),
)
_RUN = (
    click.option("--type", "type_", help="What kind of task it is."),
    click.option("--queue", help="The queue that it goes through."),
    click.option("--priority", type=click.IntRange(0, 9), help="0 goes first, 9 last.  [default: 5]"),
    click.option("--retry-max", type=click.IntRange(1), metavar="N", help="How many attempts it has.  [default: 5]"),
    click.option("--sla", type=Duration(), help="It is late if it has not started after this long.  [default: 30s]"),
    click.option("--expires-in", type=Duration(), help="Give up if it has not started after this long."),
    click.option("--at-most-once", is_flag=True, help="Never send again what may have been received."),
)


def call(command: Command) -> Command:
    """The flags that say what is sent."""
    return _flagged(command, _CALL)


def run(command: Command) -> Command:
    """The flags that say how it is run."""
    return _flagged(command, _RUN)


def _flagged(command: Command, flags: tuple[Callable[[Command], Command], ...]) -> Command:
    for flag in reversed(flags):
        command = flag(command)
    return command


def target(url: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """The call: what was given, and nothing that was not."""
    body, body_file = given["body"], given["body_file"]
    if body is not None and body_file is not None:
        raise click.UsageError("--body and --body-file are two ways to say what: give one of them.")
    sent = dict(_header(text) for text in given["headers"])
    data = body.encode() if body is not None else body_file.read() if body_file is not None else None
    return only_given(
        {
            "url": url,
            "method": given["method"],
            "headers": sent or None,
            "timeout": given["timeout"],
            **_body(data, sent),
        }
    )


def settings(given: dict[str, Any]) -> dict[str, Any]:
    """How it is run: what was given, and nothing that was not."""
    return only_given(
        {
            "retry": None if given["retry_max"] is None else {"max_attempts": given["retry_max"]},
            "delivery": "at_most_once" if given["at_most_once"] else None,
            "type": given["type_"],
            **{name: given[name] for name in ("queue", "priority", "sla", "expires_in")},
        }
    )


def only_given(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value is not None}


def instant(text: str | None) -> str | float | None:
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
    return {"body": raw_json(data, "The body", " For other text, say what it is: --header 'content-type: text/plain'.")}


def raw_json(data: bytes, what: str, advice: str = "") -> msgspec.Raw:
    """JSON as it stands."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{what} is no JSON: {error}.{advice}") from error
    return msgspec.Raw(data)
