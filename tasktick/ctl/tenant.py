"""`ctl tenant`: what each tenant may have, and what it has."""

from typing import Any

import click

from tasktick.client import core
from tasktick.client.core import Answer, Problem
from tasktick.ctl import listing, render
from tasktick.ctl.connect import Session, server_options, session

COLUMNS = ("name", "pending", "max_pending", "running", "create_rate", "updated_at")
NAME = click.argument("name", metavar="NAME")
NOT_FOUND = 404
NO_LIMIT = "none"


class Quota(click.ParamType[int | str]):
    """A number of tasks, or none."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == NO_LIMIT:
            return NO_LIMIT
        return click.IntRange(0).convert(value, param, ctx)


@click.group("tenant")
def group() -> None:
    """Tenants: their limits, and what they have. For operators.

    \b
    Examples:
      tasktick ctl tenant list
      tasktick ctl tenant set acme --max-pending 100000
    """


@group.command("list")
@listing.paging
@server_options
def list_tenants(limit: int | None, cursor: str | None, every: bool) -> None:
    """List the tenants that have limits, keys or unfinished tasks.

    \b
    Example:
      tasktick ctl tenant list
    """
    listing.show(
        core.list_tenants(listing.pages(limit, cursor, every=every)),
        COLUMNS,
        lambda tenant, _: [tenant.get(column) for column in COLUMNS],
        empty=lambda _: "There are no more tenants.",
        every=every,
    )


@group.command()
@NAME
@server_options
def show(name: str) -> None:
    """Show a tenant: its limits, and how many unfinished tasks it has.

    \b
    Example:
      tasktick ctl tenant show acme
    """
    connected = session()
    _print(connected, connected.send(core.get_tenant(name)))


@group.command("set")
@NAME
@click.option("--max-pending", type=Quota(), help="Unfinished tasks at most; `none` for any number.")
@click.option("--create-rate", metavar="N/TIME", help="New tasks at most, such as 100/1m; `none` for any number.")
@server_options
def set_limits(name: str, max_pending: int | str | None, create_rate: str | None) -> None:
    """Set limits of a tenant; those that are not given stay as they are.

    \b
    Examples:
      tasktick ctl tenant set acme --max-pending 100000 --create-rate 100/1m
      tasktick ctl tenant set acme --create-rate none
    """
    given = {"max_pending": max_pending, "create_rate": create_rate}
    if not any(value is not None for value in given.values()):
        raise click.UsageError("Say what to set: --max-pending or --create-rate.")
    connected = session()
    before = _limits(connected, name)
    limits = {limit: before.get(limit) if value is None else value for limit, value in given.items()}
    body = {limit: None if value == NO_LIMIT else value for limit, value in limits.items()}
    _print(connected, connected.send(core.put_tenant(name, body)))


def _limits(connected: Session, name: str) -> dict[str, Any]:
    try:
        return connected.send(core.get_tenant(name)).json() or {}
    except Problem as problem:
        if problem.status == NOT_FOUND:
            return {}
        raise


@group.command()
@NAME
@server_options
def delete(name: str) -> None:
    """Remove a tenant that has nothing to do: its limits, and its keys and secrets open and sign no more.

    \b
    Example:
      tasktick ctl tenant delete acme
    """
    session().send(core.delete_tenant(name))


def _print(connected: Session, answer: Answer) -> None:
    if connected.as_json:
        render.document(answer)
        return
    tenant: dict[str, Any] = answer.json() or {}
    render.record(tenant.items())
