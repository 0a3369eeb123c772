"""`ctl forecast`: what is to come, as bars in the terminal."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from tasktick.client import insight
from tasktick.ctl import render
from tasktick.ctl.bars import bar
from tasktick.ctl.connect import server_options, session

STEP_NAMES = {3_600: "hour", 900: "15 minutes", 60: "minute"}
# Up to so many hours the steps are short, if nothing else is said.
SHORT_HOURS = 6
WIDTH_PIPED = 80
WIDTH_LEAST = 40
BAR_LEAST = 10
# A minute is a herd that has at least so many fires, and so large a part of all in the hours around it.
HERD_FIRES = 20
HERD_PART = 0.25
NAMES_SHOWN = 5


@click.command("forecast")
@click.option("--hours", type=click.IntRange(1, 168), default=24, show_default=True, help="How far ahead.")
@click.option("--by", type=click.Choice(["minute", "quarter", "hour"]), help="The length of a bar's time.")
@click.option("--queue", metavar="NAME", help="Only of this queue.")
@click.option("--host", metavar="NAME", help="Only for this host, such as app.example:443.")
@server_options
def command(hours: int, by: str | None, queue: str | None, host: str | None) -> None:
    """Show what is to come, with the limits applied that will hold it.

    Each bar is what falls due in its time; the light part is what still waits at its end. Steps of a minute in which
    nothing happens are left out. An operator sees all tenants, or with --tenant one.

    \b
    Examples:
      tasktick ctl forecast
      tasktick ctl forecast --hours 168 --queue mail
      tasktick ctl forecast --hours 1 --by minute -o json
    """
    connected = session()
    chosen = by or ("quarter" if hours <= SHORT_HOURS else "hour")
    answer = connected.send(insight.forecast(hours, chosen, queue, host))
    if connected.as_json:
        render.document(answer)
        return
    found: dict[str, Any] = answer.json() or {}
    if not found.get("buckets"):
        render.say(f"Nothing is to come in the next {hours} h. See what there is: tasktick ctl schedule list")
        return
    _draw(found)
    _summary(found)
    for hint in hints(found):
        render.say(hint)


def _draw(found: Mapping[str, Any]) -> None:
    rows = filled(found)
    most = max(row["fires"] + row["backlog"] for row in rows)
    numbers = [f"{row['fires']:,}" for row in rows]
    marks = [_marks(found, row["at"]) for row in rows]
    times = [_time(row["at"], rows[place - 1]["at"] if place else None) for place, row in enumerate(rows)]
    taken = max(map(len, times)) + max(map(len, numbers)) + max(map(len, marks)) + 4
    room = max(BAR_LEAST, _width() - taken)
    lines = []
    for row, number, mark, time in zip(rows, numbers, marks, times, strict=True):
        due, waits = bar(row["fires"], row["backlog"], most, room)
        style = "yellow" if mark else "cyan"
        lines.append(
            [
                (f"{time:<{max(map(len, times))}}  ", ""),
                (f"{number:>{max(map(len, numbers))}} ", ""),
                (due, style),
                (waits, "red"),
                (f" {mark}" if mark else "", "bold"),
            ]
        )
    render.cells(lines)


def filled(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The buckets, with those in which nothing happens; by the minute without."""
    buckets: list[dict[str, Any]] = list(found["buckets"])
    step_s = int(found["step"])
    if step_s < 900:
        return buckets
    by_time = {_instant(one["at"]): one for one in buckets}
    at, end, rows = _instant(found["from"]), _instant(found["to"]), list[dict[str, Any]]()
    while at < end:
        written = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        rows.append(by_time.get(at, {"at": written, "fires": 0, "starts": 0, "delayed": 0, "backlog": 0}))
        at += timedelta(seconds=step_s)
    return rows


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _time(text: str, before: str | None) -> str:
    """When a bar begins: local on a terminal, with its day where that is another; else as the API says it."""
    if not sys.stdout.isatty():
        return render.word(text)
    local = _instant(text).astimezone()
    if before is None or _instant(before).astimezone().date() != local.date():
        return local.strftime("%a %d  %H:%M")
    return local.strftime("        %H:%M")


def _marks(found: Mapping[str, Any], at: str) -> str:
    """What is to be seen in a bar's time: the fullest minute of all, midnight."""
    begin = _instant(at)
    end = begin + timedelta(seconds=int(found["step"]))
    words = []
    peaks = found.get("peaks") or []
    if peaks and begin <= _instant(peaks[0]["at"]) < end:
        words.append("peak")
    if any(begin <= _instant(one["at"]) < end and is_midnight(one) and is_herd(found, one) for one in peaks):
        words.append("midnight herd")
    return f"< {', '.join(words)}" if words else ""


def is_midnight(peak: Mapping[str, Any]) -> bool:
    """Whether it is midnight by UTC, or where this terminal is."""
    at = _instant(peak["at"])
    return any((one.hour, one.minute) == (0, 0) for one in (at, at.astimezone()))


def is_herd(found: Mapping[str, Any], peak: Mapping[str, Any]) -> bool:
    """Whether much of what falls due around a minute does so in that one alone."""
    at = _instant(peak["at"])
    around = sum(
        one["fires"]
        for one in found["buckets"]
        if abs(_instant(one["at"]) - at) < timedelta(seconds=max(3_600, int(found["step"])))
    )
    return bool(peak["fires"] >= HERD_FIRES and peak["fires"] >= HERD_PART * around)


def _summary(found: Mapping[str, Any]) -> None:
    totals = found["totals"]
    step = STEP_NAMES.get(int(found["step"]), f"{found['step']} s")
    click.echo(
        f"\n{totals['fires']:,} fires, a bar for each {step}. {totals['delayed']:,} start later than they are due; "
        f"at most {totals['backlog_max']:,} wait."
    )
    for word in ("queue", "host", "tenant"):
        parts = found["by"][word]
        shown = [f"{render.clean(one['name'])} {one['fires']:,}" for one in parts["top"][:NAMES_SHOWN]]
        more = parts["names"] - len(shown)
        if parts["names"] > 1:
            click.echo(f"By {word}: {', '.join(shown)}{f' and {more:,} more' if more > 0 else ''}")


def hints(found: Mapping[str, Any]) -> Sequence[str]:
    """What to think about."""
    said = [f"Mind: {render.word(one.get('detail'))}" for one in found.get("notes") or []]
    for peak in found.get("peaks") or []:
        when = render.moment(peak["at"])
        if peak["backlog"]:
            cleared_at = peak["cleared_at"]
            until = (
                "not all start within this time" if cleared_at is None else f"all start by {render.moment(cleared_at)}"
            )
            said.append(f"{peak['fires']:,} fall due at {when}, more than may start at once: {until}.")
        if is_herd(found, peak) and _instant(peak["at"]).minute == 0:
            said.append(
                f"{peak['fires']:,} fall due in the one minute of {when}. A jitter spreads them: "
                "tasktick ctl schedule edit ID --jitter 10m"
            )
    return said


def _width() -> int:
    return max(WIDTH_LEAST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH_PIPED
