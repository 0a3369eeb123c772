"""`ctl calendar`: times in which schedules that name them do not fire."""

from collections.abc import Callable, Iterator
from copy import copy
from typing import IO, Any

import click

from tasktick.client import calendars
from tasktick.client.core import Answer, Request
from tasktick.ctl import bulk, listing, render, task_options
from tasktick.ctl.connect import Session, server_options, session

SHOWN_MAX = 50
COLUMNS = ("name", "timezone", "days", "ranges", "weekly", "updated_at", "note")
NAME = click.argument("name", metavar="NAME")
BEGINS = b"BEGIN:VCALENDAR"
# Between the two ends of a span.
TO = ".."


@click.group("calendar")
def group() -> None:
    """Calendars: times in which the schedules that name them do not fire.

    \b
    Examples:
      tasktick ctl calendar put holidays --file holidays.ics
      tasktick ctl calendar put nights --weekly "MON-FRI 18:00-08:00" --timezone Europe/Berlin
      tasktick ctl schedule edit key:daily --calendar holidays
    """


@group.command("list")
@listing.paging
@server_options
def list_calendars(limit: int | None, cursor: str | None, every: bool) -> None:
    """List calendars.

    \b
    Example:
      tasktick ctl calendar list
    """
    listing.show(
        calendars.find(listing.pages(limit, cursor, every=every)),
        COLUMNS,
        lambda one, _: _row(one),
        empty=lambda _: "There are no calendars. Make one: tasktick ctl calendar put holidays --file holidays.ics",
        every=every,
    )


def _row(one: dict[str, Any]) -> list[Any]:
    counts = {"days": len(one.get("dates") or ())} | {part: len(one.get(part) or ()) for part in ("ranges", "weekly")}
    return [counts.get(column, one.get(column)) for column in COLUMNS]


@group.command()
@NAME
@server_options
def show(name: str) -> None:
    """Show what stands in a calendar.

    \b
    Example:
      tasktick ctl calendar show holidays
    """
    connected = session()
    _print(connected, connected.send(calendars.read(name)))


_get = copy(show)
_get.name, _get.short_help = "get", "The same as show."
group.add_command(_get)


@group.command()
@NAME
@click.option(
    "--file", type=click.File("rb"), metavar="FILE", help="An iCalendar file, or what the API takes, as JSON."
)
@click.option("--date", "dates", metavar="DATE[..DATE]", multiple=True, help="A day, or days; repeatable.")
@click.option(
    "--range", "ranges", metavar="TIME..TIME", multiple=True, help="From a time to before another; repeatable."
)
@click.option("--weekly", metavar="DAYS [TIME-TIME]", multiple=True, help="Of each week; repeatable.")
@click.option("--timezone", metavar="ZONE", help="Of its times.  [default: that of the schedule that asks]")
@click.option("--note", metavar="TEXT", help="A note to whoever looks at it.")
@server_options
def put(
    name: str,
    file: IO[bytes] | None,
    dates: tuple[str, ...],
    ranges: tuple[str, ...],
    weekly: tuple[str, ...],
    timezone: str | None,
    note: str | None,
) -> None:
    """Make a calendar, or replace all that stands in it.

    What an iCalendar file has and a calendar cannot hold is told, and left out.

    \b
    Examples:
      tasktick ctl calendar put holidays --file holidays.ics
      tasktick ctl calendar put freeze --date 2026-12-20..2027-01-02 --note "no deployments"
      tasktick ctl calendar put nights --weekly "MON-FRI 18:00-08:00" --weekly SAT,SUN --timezone Europe/Berlin
      tasktick ctl calendar put move --range 2026-03-01T22:00:00+01:00..2026-03-02T04:00:00+01:00
    """
    said: dict[str, Any] = {
        "dates": [_days(one) for one in dates] or None,
        "ranges": [_range(one) for one in ranges] or None,
        "weekly": [_window(one) for one in weekly] or None,
        "timezone": timezone,
        "note": note,
    }
    given = task_options.only_given(said)
    if (file is None) == (not given):
        raise click.UsageError("Say what stands in it, by flags or with --file.")
    connected = session()
    _print(connected, connected.send(calendars.put(name, given) if file is None else _from_file(name, file.read())))


def _from_file(name: str, data: bytes) -> Request:
    if data.removeprefix(b"\xef\xbb\xbf").lstrip()[: len(BEGINS)].upper() == BEGINS:
        return calendars.put_icalendar(name, data.strip())
    if data.lstrip()[:1] not in (b"{", b"["):
        begins = BEGINS.decode()
        raise click.UsageError(f"What --file holds is neither iCalendar, which begins with {begins}, nor JSON.")
    return calendars.put(name, task_options.raw_json(data, "What --file holds"))


def _days(text: str) -> Any:
    first, dots, last = text.partition(TO)
    return {"from": first, "to": last} if dots else first


def _range(text: str) -> dict[str, Any]:
    first, dots, last = text.partition(TO)
    if not dots:
        raise click.UsageError(f"--range is two times with {TO} between them.")
    return {"from": task_options.instant(first), "to": task_options.instant(last)}


def _window(text: str) -> dict[str, Any]:
    days, _, times = text.partition(" ")
    first, dash, last = times.strip().partition("-")
    if times and not dash:
        raise click.UsageError("--weekly is days and two times, such as `MON-FRI 18:00-08:00`.")
    return {"days": days, "from": first, "to": last} if times else {"days": days}


@group.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@server_options
def delete(names: tuple[str, ...], yes: bool) -> None:
    """Remove calendars that no schedule names.

    \b
    Example:
      tasktick ctl calendar delete freeze --yes
    """
    bulk.remove(names, calendars.delete, f"{len(names)} calendar(s)", yes=yes)


def _print(connected: Session, answer: Answer) -> None:
    if connected.as_json:
        render.document(answer)
        return
    found: dict[str, Any] = answer.json() or {}
    left_out = found.pop("left_out", None) or []
    render.record(_in_words(found), depth=2)
    for one in left_out:
        render.say(f"Left out: {render.word(one.get('event') or 'a line')}: {render.word(one.get('detail'))}")


def _in_words(found: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What stands in it, a line for each of its times."""
    for name, value in found.items():
        spell = _SPELLED.get(name)
        if spell is None:
            yield name, value
            continue
        for place, one in enumerate(value[:SHOWN_MAX]):
            yield "" if place else name, spell(one)
        if len(value) > SHOWN_MAX:
            yield "", f"and {len(value) - SHOWN_MAX:,} more: -o json has all of them"


def _spelled_days(one: Any) -> str:
    return one if isinstance(one, str) else f"{one.get('from')} to {one.get('to')}"


def _spelled_range(one: dict[str, Any]) -> str:
    words = [f"{one.get('from')} to {one.get('to')}"]
    words += [str(one[name]) for name in ("timezone", "rrule") if one.get(name)]
    if one.get("except"):
        words.append(f"except {', '.join(map(str, one['except']))}")
    return ", ".join(words) + (f": {one['summary']}" if one.get("summary") else "")


def _spelled_window(one: dict[str, Any]) -> str:
    first, last = one.get("from"), one.get("to")
    return f"{one.get('days')} {'all day' if first == last else f'{first} to {last}'}"


_SPELLED: dict[str, Callable[[Any], str]] = {
    "dates": _spelled_days,
    "ranges": _spelled_range,
    "weekly": _spelled_window,
}
