"""`ctl check`: jobs that run elsewhere, and when a word of them is expected."""

from collections.abc import Callable
from copy import copy
from typing import Any

import click

from tasktick.client import checks
from tasktick.client.core import Answer, Request
from tasktick.ctl import bulk, listing, render, task_options
from tasktick.ctl.connect import Session, new_key, server_options, session
from tasktick.ctl.flags import Duration

COLUMNS = ("id", "state", "expected_at", "last_ping_at", "failures", "name", "when")
# What `show` tells too, and a narrow terminal may do without.
SPARE = ("last_ping_at", "failures")
PING_COLUMNS = ("number", "at", "kind", "exit_code", "duration", "run", "source", "log")
LOG_CHARS = 60
NAME = click.argument("name", metavar="ID")
NAMES = click.argument("names", metavar="ID...", nargs=-1, required=True)


@click.group("check")
def group() -> None:
    """Checks: jobs that run elsewhere and say so by pings; a word that does not come is told.

    \b
    Examples:
      tasktick ctl check add --key backup --cron "0 2 * * *" --timezone Europe/Berlin --grace 15m
      curl -fsS -m 10 --retry 5 https://tasktick.example/ping/chk_.../0
      tasktick ctl check list --status down
    """


@group.command()
@click.option("--key", help="A key of yours; one that is there is made what is said here.")
@click.option("--name", help="What people call it.")
@click.option("--cron", help="When a word is expected: a cron expression.")
@click.option("--every", type=Duration(), help="The same on a grid, such as 15m.")
@click.option("--rrule", help="The same as a recurrence rule of RFC 5545.")
@click.option("--period", type=Duration(), help="The same, so long after the last word.")
@click.option("--timezone", metavar="ZONE", help="Of --cron and --rrule.  [default: UTC]")
@click.option("--grace", type=Duration(), help="How long a word may be late.  [default: 5m]")
@click.option("--max-runtime", type=Duration(), help="How long a run may take from its start.  [default: any time]")
@click.option("--tag", "tags", metavar="NAME=VALUE", multiple=True, help="A tag; repeatable.")
@click.option("--note", metavar="TEXT", help="A note to whoever looks at it.")
@click.option("--paused", is_flag=True, default=None, help="Do not watch it yet.")
@server_options
def add(key: str | None, tags: tuple[str, ...], **given: Any) -> None:
    """Make a check, and show the address to ping.

    \b
    Examples:
      tasktick ctl check add --name "Nightly backup" --cron "0 2 * * *" --grace 15m --max-runtime 2h
      tasktick ctl check add --key heartbeat --period 1m --grace 30s
    """
    fields = task_options.only_given(
        {**given, "tags": dict(listing.name_and_value(tag, "--tag") for tag in tags) or None}
    )
    connected = session()
    request = checks.create(fields, new_key()) if key is None else checks.put(f"key:{key}", fields)
    _print(connected, connected.send(request))


@group.command("list")
@click.option("--status", type=click.Choice(["new", "up", "late", "down"]), help="Only with this status.")
@click.option("--paused/--not-paused", default=None, help="Only those that are paused, or the others.")
@click.option("--tag", metavar="NAME=VALUE", help="Only with this tag.")
@click.option("--q", "text", metavar="TEXT", help="Only with this in name or key.")
@listing.paging
@server_options
def list_checks(
    status: str | None,
    paused: bool | None,
    tag: str | None,
    text: str | None,
    limit: int | None,
    cursor: str | None,
    every: bool,
) -> None:
    """List checks.

    \b
    Examples:
      tasktick ctl check list
      tasktick ctl check list --status down --tag team=billing
    """
    asked = {
        "status": status,
        "paused": paused,
        "tag": None if tag is None else ":".join(listing.name_and_value(tag, "--tag")),
        "q": text,
        **listing.pages(limit, cursor, every=every),
    }
    listing.show(checks.find(asked), COLUMNS, lambda one, _: _row(one), empty=_empty, every=every, spare=SPARE)


def _empty(filtered: bool) -> str:
    if filtered:
        return "No check matches: leave out --status, --paused, --tag or --q."
    return 'There are no checks. Make one: tasktick ctl check add --name Backup --cron "0 2 * * *" --grace 15m'


def _row(one: dict[str, Any]) -> list[Any]:
    shown = {**one, "when": _when(one), "name": listing.key_or_name(one)}
    return [shown.get(column) for column in COLUMNS]


def _when(one: dict[str, Any]) -> Any:
    if one.get("cron") or one.get("rrule"):
        return one.get("cron") or one.get("rrule")
    return f"every {one['every']} s" if one.get("every") else f"{one.get('period')} s after the last"


@group.command()
@NAME
@server_options
def show(name: str) -> None:
    """Show a check, and the address to ping.

    \b
    Example:
      tasktick ctl check show key:backup
    """
    connected = session()
    _print(connected, connected.send(checks.read(name)))


_get = copy(show)
_get.name, _get.short_help = "get", "The same as show."
group.add_command(_get)


@group.command()
@NAME
@click.option("--kind", type=click.Choice(["success", "start", "fail", "log"]), help="Only of this kind.")
@listing.paging
@server_options
def pings(name: str, kind: str | None, limit: int | None, cursor: str | None, every: bool) -> None:
    """Show what a job has said, the latest first; -o json has the logs whole.

    \b
    Examples:
      tasktick ctl check pings key:backup
      tasktick ctl check pings key:backup --kind fail -o json
    """
    listing.show(
        checks.pings(name, {"kind": kind, **listing.pages(limit, cursor, every=every)}),
        PING_COLUMNS,
        lambda one, _: _ping(one),
        empty=lambda _: f"Nothing was said yet. The address to ping: tasktick ctl check show {render.clean(name)}",
        every=every,
    )


def _ping(one: dict[str, Any]) -> list[Any]:
    shown = {**one, "log": " ".join((one.get("body") or "").split())[:LOG_CHARS] or None}
    return [shown.get(column) for column in PING_COLUMNS]


@group.command()
@NAMES
@server_options
def pause(names: tuple[str, ...]) -> None:
    """Let nothing of checks be missed until they are resumed; pings are kept.

    \b
    Example:
      tasktick ctl check pause key:backup
    """
    _each(names, lambda name: checks.pause(name, new_key()))


@group.command()
@NAMES
@server_options
def resume(names: tuple[str, ...]) -> None:
    """Watch checks again, from now on.

    \b
    Example:
      tasktick ctl check resume key:backup
    """
    _each(names, lambda name: checks.resume(name, new_key()))


@group.command()
@NAME
@server_options
def rotate(name: str) -> None:
    """Give a check another address to ping; the one before ends at once.

    \b
    Example:
      tasktick ctl check rotate key:backup
    """
    connected = session()
    _print(connected, connected.send(checks.rotate(name, new_key())))


@group.command()
@NAMES
@click.option("--yes", is_flag=True, help="Do not ask.")
@server_options
def delete(names: tuple[str, ...], yes: bool) -> None:
    """Remove checks with their pings.

    \b
    Example:
      tasktick ctl check delete key:backup --yes
    """
    bulk.remove(names, checks.delete, f"{len(names)} check(s)", yes=yes)


def _each(names: tuple[str, ...], build: Callable[[str], Request]) -> None:
    connected = session()
    answers, done = connected.each(names, build)
    if connected.as_json:
        for answer in answers:
            render.document(answer)
    elif answers:
        render.table(COLUMNS, [_row(answer.json() or {}) for answer in answers])
    if not done:
        click.get_current_context().exit(1)


def _print(connected: Session, answer: Answer) -> None:
    if connected.as_json:
        render.document(answer)
        return
    found: dict[str, Any] = answer.json() or {}
    path = found.pop("ping_path", None)
    render.record(found.items(), depth=2)
    if path:
        render.say(f"Ping it, from wherever the job runs:  curl -fsS -m 10 --retry 5 {connected.place.url}{path}/$?")
