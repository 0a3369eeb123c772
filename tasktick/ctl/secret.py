"""`ctl secret`: the secrets by which receivers know that a call is ours."""

from typing import Any

import click

from tasktick.client import core
from tasktick.ctl import render
from tasktick.ctl.connect import server_options, session

COLUMNS = ("id", "created_at", "retired_at", "secret")


@click.group("secret")
def group() -> None:
    """Signing secrets, with which receivers verify calls.

    They are those of Standard Webhooks, whsec_...: any library for it takes them.

    \b
    Example:
      tasktick ctl secret show
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
