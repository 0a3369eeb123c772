"""`ctl schedule`: tasks again and again; looked at and moved. `add` and `edit` are in `schedule_add`."""

from collections.abc import Callable
from copy import copy
from typing import Any

import click

from tasktick.client import schedules
from tasktick.client.core import Answer, Request
from tasktick.ctl import bulk, explain, listing, render, schedule_options, schedule_words, task_add, task_options
from tasktick.ctl.connect import new_key, server_options, session
from tasktick.ctl.schedule_add import add, edit
from tasktick.ctl.schedule_backfill import backfill
from tasktick.ctl.schedule_fires import fires, show_ledger

COLUMNS = ("schedule", "state", "next_fire", "in", "last_fire", "so_far", "zone", "when")
MOVED = ("id", "state", "next_fire", "in", "name")
WHOLE = ("schedule", "id", "state", "in", "so_far")
# What `show` tells too, and a narrow terminal may do without.
SPARE = ("last_fire", "so_far", "zone")
AHEAD = 5
BACK = 5
NAME = click.argument("name", metavar="ID")
NAMES = click.argument("names", metavar="ID...", nargs=-1, required=True)
AFTER = click.option("--from", "after", metavar="TIME", help="Show what comes after this instant.  [default: now]")
COUNT = click.option("--count", type=click.IntRange(1, 1_000), default=10, show_default=True, help="How many fires.")


def alias(command: click.Command, name: str) -> click.Command:
    """The same command by another name."""
    other = copy(command)
    other.name, other.short_help = name, f"The same as {command.name}."
    return other


@click.group("schedule")
def group() -> None:
    """Schedules: make, find, look ahead and back, move.

    An ID is sch_..., or key:... for the key that you gave the schedule.

    \b
    Examples:
      tasktick ctl schedule add https://app.example/report --key daily --cron "0 9 * * *" --timezone Europe/Berlin
      tasktick ctl schedule list
      tasktick ctl schedule show key:daily
      tasktick ctl schedule fires key:daily --outcome missed
      tasktick ctl schedule backfill key:daily --from 2026-12-01T00:00:00Z --dry-run
    """


group.add_command(add)
group.add_command(edit)
group.add_command(alias(edit, "set"))
group.add_command(fires)
group.add_command(explain.schedule)
group.add_command(backfill)


@group.command("list")
@click.option("--name", help="Only with this name.")
@click.option("--tag", metavar="NAME=VALUE", help="Only with this tag.")
@click.option("--q", "text", metavar="TEXT", help="Search name, key, cron and URL.")
@click.option("--paused/--not-paused", default=None, help="Only those that are paused, or are not.")
@click.option("--order", type=click.Choice(["asc", "desc"]), help="By id, oldest or newest first.")
@listing.paging
@server_options
def list_schedules(**given: Any) -> None:
    """List schedules, newest first.

    \b
    Examples:
      tasktick ctl schedule list --paused
      tasktick ctl schedule list --tag team=billing --all -o json
    """
    asked = {
        "name": given["name"],
        "tag": None if given["tag"] is None else ":".join(listing.name_and_value(given["tag"], "--tag")),
        "q": given["text"],
        "paused": given["paused"],
        "order": given["order"],
        **listing.pages(given["limit"], given["cursor"], every=given["every"]),
    }
    listing.show(schedules.find(asked), COLUMNS, _row, empty=_empty, every=given["every"], whole=WHOLE, spare=SPARE)


def _row(schedule: dict[str, Any], answer: Answer) -> list[Any]:
    next_fire = schedule.get("next_fire_at")
    return [
        schedule_words.name_of(schedule),
        schedule_words.state(schedule),
        next_fire,
        schedule_words.from_now(next_fire, schedule_words.now_of(answer)),
        schedule.get("last_fire_at"),
        schedule_words.outcomes(schedule),
        schedule.get("timezone"),
        schedule_words.when(schedule),
    ]


def _empty(filtered: bool) -> str:
    if filtered:
        return "No schedule matches. Leave out a filter, or look at all: tasktick ctl schedule list"
    example = 'tasktick ctl schedule add https://app.example/report --cron "0 9 * * *" --timezone Europe/Berlin'
    return f"There are no schedules yet. Make one: {example}"


@group.command()
@NAME
@server_options
def show(name: str) -> None:
    """Show a schedule in plain words, when it fires next, and what became of its last times.

    \b
    Examples:
      tasktick ctl schedule show key:daily
      tasktick ctl schedule show key:daily -o json
    """
    connected = session()
    answer = connected.send(schedules.read(name))
    if connected.as_json:
        render.document(answer)
        return
    render.record(schedule_words.in_full(answer.json() or {}, schedule_words.now_of(answer)), depth=2)
    _show_fires(connected.send(schedules.upcoming(name, AHEAD)), "Next")
    past = (connected.send(schedules.fires(name, {"limit": BACK})).json() or {}).get("data") or []
    if past:
        render.heading("Last")
        show_ledger(past)


def _show_fires(answer: Answer, title: str | None = None) -> None:
    found = (answer.json() or {}).get("fires") or []
    if not found:
        render.say("Nothing is to come.")
        return
    if title is not None:
        render.heading(title)
    columns, rows = schedule_words.fires(found, schedule_words.now_of(answer))
    render.table(columns, rows, whole=columns)


@group.command()
@NAME
@AFTER
@COUNT
@server_options
def upcoming(name: str, after: str | None, count: int) -> None:
    """Show when a schedule fires next.

    \b
    Examples:
      tasktick ctl schedule upcoming key:daily
      tasktick ctl schedule next key:daily --count 30 -o json
    """
    connected = session()
    answer = connected.send(schedules.upcoming(name, count, after))
    if connected.as_json:
        render.document(answer)
        return
    _show_fires(answer)
    shown = answer.json() or {}
    if not shown.get("fires"):
        _mind(shown)


group.add_command(alias(upcoming, "next"))


@group.command("preview")
@schedule_options.timing
@AFTER
@COUNT
@server_options
def preview(after: str | None, count: int, **given: Any) -> None:
    """Show when a schedule would fire, what it means in words, and what is odd about it.

    \b
    Examples:
      tasktick ctl schedule preview --cron "0 9 * * MON-FRI" --timezone Europe/Berlin
      tasktick ctl schedule preview --every 90m --count 3 -o json
      tasktick ctl schedule preview --cron @hourly --jitter 5m --calendar nights
    """
    wanted = schedule_options.times(given)
    schedule_options.require_rule(wanted)
    connected = session()
    answer = connected.send(schedules.preview(wanted, count, after))
    if connected.as_json:
        render.document(answer)
        return
    shown = answer.json() or {}
    render.say(render.word(shown.get("description")))
    _show_fires(answer)
    _mind(shown)


def _mind(shown: dict[str, Any]) -> None:
    """What is odd about it, and why nothing may be to come."""
    for warning in shown.get("warnings") or []:
        render.say(f"Mind: {render.word(warning.get('detail'))} ({render.word(warning.get('code'))})")


@group.command()
@NAMES
@click.option("--until", metavar="TIME", help="Go on by itself at this time.")
@click.option("--note", metavar="TEXT", help="Why, for whoever looks at it.")
@server_options
def pause(names: tuple[str, ...], until: str | None, note: str | None) -> None:
    """Let nothing of schedules start, until they are resumed, or until then.

    What is at work goes on. Times that pass meanwhile are skipped.

    \b
    Examples:
      tasktick ctl schedule pause key:daily --note "moving house"
      tasktick ctl schedule pause key:daily --until 2026-12-27T00:00:00+01:00
    """
    at = task_options.instant(until)
    _move(names, lambda name: schedules.pause(name, at, note, new_key()))


@group.command()
@NAMES
@server_options
def resume(names: tuple[str, ...]) -> None:
    """Let paused schedules fire again, from now on.

    \b
    Example:
      tasktick ctl schedule resume key:daily
    """
    _move(names, lambda name: schedules.resume(name, new_key()))


@group.command()
@NAME
@click.argument("at", metavar="TIME")
@server_options
def skip(name: str, at: str) -> None:
    """Leave out one time of a schedule, as `upcoming` shows it.

    \b
    Example:
      tasktick ctl schedule skip key:daily 2026-12-24T09:00:00+01:00
    """
    instant = task_options.instant(at) or at
    _move((name,), lambda one: schedules.skip(one, instant, new_key()))


@group.command()
@NAME
@click.argument("at", metavar="TIME")
@server_options
def unskip(name: str, at: str) -> None:
    """Let a time of a schedule run after all that was to be left out.

    \b
    Example:
      tasktick ctl schedule unskip key:daily 2026-12-24T09:00:00+01:00
    """
    instant = task_options.instant(at) or at
    _move((name,), lambda one: schedules.unskip(one, instant, new_key()))


def _move(names: tuple[str, ...], build: Callable[[str], Request]) -> None:
    connected = session()
    answers, done = connected.each(names, build)
    if connected.as_json:
        for answer in answers:
            render.document(answer)
    elif answers:
        render.table(MOVED, [_moved(answer) for answer in answers], whole=WHOLE)
    if not done:
        click.get_current_context().exit(1)


def _moved(answer: Answer) -> list[Any]:
    schedule = answer.json() or {}
    shown = dict(zip(COLUMNS, _row(schedule, answer), strict=True))
    return [schedule.get("id"), shown["state"], shown["next_fire"], shown["in"], listing.key_or_name(schedule)]


@group.command()
@NAME
@click.option("--to", "target_url", metavar="URL", help="Call this URL instead.")
@task_options.call
@click.option("--queue", help="In this queue instead.")
@click.option("--priority", type=click.IntRange(0, 9), help="With this priority instead: 0 goes first.")
@click.option("--as", "task_name", metavar="NAME", help="Call the task so instead.")
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="Tags in place of its own; repeatable.")
@click.option("--wait", is_flag=True, help="Follow the task until it ends; exit code 1 unless it succeeded.")
@server_options
def trigger(name: str, target_url: str | None, wait: bool, tags: tuple[str, ...], **given: Any) -> None:
    """Run a schedule's task now, beside its times; what is given replaces what the schedule has.

    \b
    Examples:
      tasktick ctl schedule trigger key:daily --wait
      tasktick ctl schedule trigger key:daily --body '{"day": "2026-12-24"}'
      tasktick ctl schedule trigger key:daily --queue urgent --priority 0
    """
    changes = {"queue": given.pop("queue"), "priority": given.pop("priority"), "name": given.pop("task_name")}
    changes["tags"] = dict(listing.name_and_value(one, "--tag") for one in tags) or None
    target = task_options.target(target_url, given)
    asked = {field: value for field, value in changes.items() if value is not None}
    connected = session()
    task_add.show(connected, connected.send(schedules.trigger(name, target, new_key(), asked)), wait=wait)


@group.command()
@NAMES
@click.option("--yes", is_flag=True, help="Do not ask.")
@server_options
def delete(names: tuple[str, ...], yes: bool) -> None:
    """Remove schedules: nothing more is to come of them. Tasks that have begun go on.

    \b
    Example:
      tasktick ctl schedule delete key:daily --yes
    """
    bulk.remove(names, schedules.delete, f"{len(names)} schedule(s), and what is ahead of them", yes=yes)
