"""`ctl secret`: the secrets by which receivers know that a call is ours."""

from typing import Any

import click

from tasktick.client import core
from tasktick.client.core import Request
from tasktick.ctl import render
from tasktick.ctl.connect import new_key, server_options, session
from tasktick.ctl.flags import Duration

COLUMNS = ("id", "created_at", "retired_at", "secret")


@click.group("secret")
def group() -> None:
    """Signing secrets, with which receivers verify calls.

    They are those of Standard Webhooks, whsec_...: any library for it takes them.

    All that are active sign every call, so that receivers can change over from an old one to a new one.

    \b
    Examples:
      tasktick ctl secret show
      tasktick ctl secret rotate --retire-after 7d
    """


@group.command()
@server_options
def show() -> None:
    """Show the signing secrets themselves; give one to a receiver, and to nobody else.

    \b
    Examples:
      tasktick ctl secret show
      tasktick ctl secret show -o json
    """
    _print(reveal=True)


@group.command("list")
@server_options
def list_secrets() -> None:
    """List the signing secrets by id; what they are stays hidden.

    \b
    Example:
      tasktick ctl secret list
    """
    _print(reveal=False)


def _print(*, reveal: bool) -> None:
    connected = session()
    answer = connected.send(core.secrets(reveal=reveal))
    if connected.as_json:
        render.document(answer)
        return
    found: list[dict[str, Any]] = (answer.json() or {}).get("data", [])
    if not found:
        render.say("There are no signing secrets: calls go out unsigned.")
        return
    render.table(COLUMNS, [[one.get(column) for column in COLUMNS] for one in found], whole=("id", "secret"))


@group.command()
@server_options
def create() -> None:
    """Make a further signing secret; it is shown this once and signs from now on.

    \b
    Example:
      tasktick ctl secret create
    """
    _make(core.create_secret(new_key()))


@group.command()
@click.option("--retire-after", type=Duration(), help="How long the others sign on.  [default: until retired]")
@server_options
def rotate(retire_after: str | float | None) -> None:
    """Make a new signing secret; those before it sign beside it for a time, so that receivers can change over.

    \b
    Examples:
      tasktick ctl secret rotate --retire-after 7d
      tasktick ctl secret rotate
    """
    _make(core.rotate_secret(retire_after, new_key()))


def _make(request: Request) -> None:
    connected = session()
    answer = connected.send(request)
    if connected.as_json:
        render.document(answer)
        return
    made: dict[str, Any] = answer.json() or {}
    render.record(made.items())
    render.say("Give the secret to your receivers.")


@group.command()
@click.argument("names", metavar="ID...", nargs=-1, required=True)
@server_options
def retire(names: tuple[str, ...]) -> None:
    """Let signing secrets sign no more, at once.

    \b
    Example:
      tasktick ctl secret retire sec_019a...
    """
    _, done = session().each(names, core.retire_secret)
    if not done:
        click.get_current_context().exit(1)
