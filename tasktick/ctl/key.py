"""`ctl key`: the keys by which clients are known."""

from typing import Any

import click

from tasktick.client import core
from tasktick.ctl import listing, render
from tasktick.ctl.connect import new_key, server_options, session
from tasktick.ctl.flags import Duration

COLUMNS = ("id", "prefix", "tenant", "role", "name", "expires_at", "last_used_at")
REVOKED_COLUMNS = (*COLUMNS, "revoked_at")
ROLES = ("viewer", "submitter", "manager", "operator")


@click.group("key")
def group() -> None:
    """API keys: who may do what.

    A viewer reads, a submitter makes and cancels tasks, a manager does all within its tenant, an operator all.

    \b
    Examples:
      tasktick ctl key create --role submitter --name billing
      tasktick ctl key list
    """


@group.command("list")
@click.option("--revoked", is_flag=True, help="Those that were revoked, not the others.")
@listing.paging
@server_options
def list_keys(revoked: bool, limit: int | None, cursor: str | None, every: bool) -> None:
    """List API keys, newest first: an operator all, or with --tenant those of one.

    \b
    Examples:
      tasktick ctl key list
      tasktick ctl key list --tenant acme -o json
    """
    columns = REVOKED_COLUMNS if revoked else COLUMNS
    asked = {"revoked": revoked or None, **listing.pages(limit, cursor, every=every)}
    listing.show(
        core.list_keys(asked),
        columns,
        lambda key, _: [key.get(column) for column in columns],
        empty=lambda _: "No key was revoked." if revoked else "There are no keys here.",
        every=every,
    )


@group.command()
@click.option("--role", type=click.Choice(ROLES), required=True, help="What it may do.")
@click.option("--name", help="What it is for.")
@click.option(
    "--expires-in",
    type=Duration(),
    metavar="DURATION",
    help="How long it works, such as 90d.  [default: until revoked]",
)
@click.option("--expires-at", metavar="TIME", help="Until when it works.")
@server_options
def create(role: str, name: str | None, expires_in: str | float | None, expires_at: str | None) -> None:
    """Make an API key; with --tenant, for that tenant. Its secret is shown this once.

    \b
    Examples:
      tasktick ctl key create --role submitter --name billing --tenant acme
      tasktick ctl key create --role viewer --expires-in 90d -o json
    """
    fields = {"role": role, "name": name, "expires_in": expires_in, "expires_at": expires_at}
    connected = session()
    answer = connected.send(core.create_key({name: value for name, value in fields.items() if value}, new_key()))
    if connected.as_json:
        render.document(answer)
        return
    made: dict[str, Any] = answer.json() or {}
    render.record(made.items())
    render.say("Keep the secret now: it is not shown again.")


@group.command()
@click.argument("names", metavar="ID...", nargs=-1, required=True)
@server_options
def revoke(names: tuple[str, ...]) -> None:
    """Revoke API keys: within five seconds they open nothing.

    \b
    Example:
      tasktick ctl key revoke key_019a...
    """
    connected = session()
    _, done = connected.each(names, core.revoke_key)
    if not done:
        click.get_current_context().exit(1)
