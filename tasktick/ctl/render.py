"""Prints: tables for people, documents for programs, problems on standard error.

What a server says is data of strangers (a task's name, a receiver's answer). Control characters, and the
characters that turn the direction of text, are shown as escapes and never reach the terminal.

On a terminal a table has one line for each row: times are short and local, and what has no room ends in `…`, but
ids, states and times; before that, columns in which nothing stands are left out. Piped, every cell is whole, and times
are as the API says them; so what may be long stands in the last column, where it makes no other row wider.
"""

import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from io import StringIO
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tasktick.client.core import Answer, Problem

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# C0, DEL, C1, line and paragraph separators, marks that turn the direction of text, lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
# The same but for what JSON has escaped already: these can only stand inside a string.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_WIDTH_PIPED = 100_000
# A terminal that is narrower wraps lines itself; cut to it, ids and states would be gone.
_WIDTH_LEAST = 70
_WIDE = 100
# What a cell that is cut keeps at least.
_CELL_LEAST = 6
_SCHEME = re.compile(r"^https?://")
WHOLE = ("id", "state", "attempt", "tries")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
NOTHING = "-"
STYLES = {
    "succeeded": "green",
    "dead": "red",
    "failed": "red",
    "retrying": "yellow",
    "running": "cyan",
    "expired": "red",
    "missed": "red",
    "live": "green",
    "draining": "yellow",
    "leaving": "yellow",
    "suspect": "yellow",
}


def clean(text: str) -> str:
    """Text that does to a terminal what it says, and no more."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def word(value: Any) -> str:
    """A value of an answer, in a cell."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case str():
            return clean(value) or NOTHING
        case float():
            return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
        case list() if all(isinstance(one, str) for one in value):
            return clean(", ".join(value)) or NOTHING
        case Mapping() | list():
            return clean(msgspec.json.encode(value).decode()) if value else NOTHING
        case _:
            return clean(str(value))


def short_time(text: str, now: time.struct_time) -> str:
    """A time of the API in the local zone: its time if that is today, else its day too, or its year."""
    local = datetime.fromisoformat(text).astimezone()
    if (local.year, local.month, local.day) == (now.tm_year, now.tm_mon, now.tm_mday):
        return local.strftime("%H:%M:%S")
    return local.strftime("%m-%d %H:%M" if local.year == now.tm_year else "%Y-%m-%d")


def moment(value: Any) -> str:
    """A time in a line of its own: short and local on a terminal, else as the API says it."""
    said = word(value)
    return short_time(said, time.localtime()) if sys.stdout.isatty() and _TIME.fullmatch(said) else said


def widths(naturals: Sequence[int], fixed: Sequence[bool], room: int) -> list[int]:
    """How wide each column is: a fixed one as it needs, the others as they need or their share of what is left."""
    found = list(naturals)
    left = room - sum(width for width, is_fixed in zip(naturals, fixed, strict=True) if is_fixed)
    flexible = sorted((width, at) for at, width in enumerate(naturals) if not fixed[at])
    for done, (width, at) in enumerate(flexible):
        share = left // (len(flexible) - done)
        found[at] = min(width, max(share, _CELL_LEAST))
        left -= found[at]
    return found


def kept(naturals: Sequence[int], spared: Sequence[int], room: int, gap: int) -> list[int]:
    """Which columns there is room for: all, or without as many of those that can be spared as it takes, in order."""
    left = list(range(len(naturals)))
    for at in spared:
        if sum(naturals[one] for one in left) + gap * (len(left) - 1) > room:
            left.remove(at)
    return left


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, whole: Sequence[str] = WHOLE, spare: Sequence[str] = ()
) -> None:
    """Print rows, one a line; columns in `whole`, and times, are never cut, so that an id can be copied.

    A terminal that is too narrow for all leaves out those that are empty in every row, then those in `spare`.
    """
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    on_terminal = sys.stdout.isatty()
    now = time.localtime()
    words = [[word(value) for value in row] for row in rows]
    timed = [all(_TIME.fullmatch(row[at]) or row[at] == NOTHING for row in words) for at in range(len(columns))]
    if on_terminal:
        words = [[short_time(one, now) if _TIME.fullmatch(one) else one for one in row] for row in words]
    naturals = [max(map(cell_len, [column, *(row[at] for row in words)])) for at, column in enumerate(columns)]
    width = max(_console(StringIO()).width, _WIDTH_LEAST)
    gap = 2 if width >= _WIDE else 1
    empty = [at for at in range(1, len(columns)) if all(row[at] == NOTHING for row in words)]
    spared = [*empty, *(at for name in spare if (at := columns.index(name)) not in empty)]
    shown = kept(naturals, spared, width, gap)
    fixed = [columns[at] in whole or timed[at] for at in shown]
    columns, naturals = [columns[at] for at in shown], [naturals[at] for at in shown]
    words = [[row[at] for at in shown] for row in words]
    printed = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    room = widths(naturals, fixed, width - gap * (len(columns) - 1))
    for column, cells in zip(columns, room, strict=True):
        printed.add_column(column.upper(), no_wrap=True, overflow="ellipsis", width=cells)
    for row in words:
        fitted = [
            one if cell_len(one) <= cells else _SCHEME.sub("", one, 1) for one, cells in zip(row, room, strict=True)
        ]
        printed.add_row(*(Text(one, style=STYLES.get(one, "")) for one in fitted))
    # What cannot be cut may need more than there is: the terminal wraps it, nothing is lost.
    _print(printed, sum(naturals) + gap * len(columns))


def heading(text: str) -> None:
    """Print what the table that follows is of, apart from what is before it."""
    click.echo(f"\n{text}")


def record(pairs: Iterable[tuple[str, Any]], *, depth: int = 1) -> None:
    """Print one object: a line for each field that says something, and for each field of its parts, to a depth."""
    from rich.table import Table
    from rich.text import Text

    printed = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    printed.add_column(no_wrap=True, style="bold")
    printed.add_column(overflow="fold")
    for name, value in _parts(pairs, depth):
        said = word(value)
        if said != NOTHING:
            printed.add_row(Text(clean(name)), Text(said, style=STYLES.get(said, "")))
    _print(printed)


def _parts(pairs: Iterable[tuple[str, Any]], depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in pairs:
        if isinstance(value, dict) and depth:
            yield from _parts(((f"{name}.{part}", one) for part, one in value.items()), depth - 1)
        else:
            yield name, value


def _console(out: StringIO) -> "Console":
    from rich.console import Console

    on_terminal = sys.stdout.isatty()
    return Console(file=out, force_terminal=on_terminal, width=None if on_terminal else _WIDTH_PIPED, highlight=False)


def _print(printed: "RenderableType", least: int = 0) -> None:
    """As wide as the terminal; piped, as wide as it needs and without styles."""
    out = StringIO()
    console = _console(out)
    console.width = max(console.width, _WIDTH_LEAST, least)
    console.print(printed)
    for line in out.getvalue().splitlines():
        click.echo(line.rstrip())


def cells(lines: Sequence[Sequence[tuple[str, str]]]) -> None:
    """Print a picture of characters, each with its style."""
    from rich.text import Text

    for line in lines:
        _print(Text.assemble(*line))


def document(answer: Answer) -> None:
    """Print what the API answered, as it stands; only what a terminal would act on is escaped, as JSON does."""
    answer.json()  # what is no JSON is a problem, not output
    if answer.body:
        json_text(answer.body)


def json_text(body: bytes) -> None:
    """Print JSON as it stands, but for what a terminal would act on."""
    click.echo(_UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", body.decode()).rstrip("\n"))


def say(text: str) -> None:
    """Tell a person something that is no part of the answer."""
    click.echo(text, err=True)


def problem(refusal: Problem, about: str | None = None) -> None:
    """Say why the server refused, which fields are at fault, and by what to find it in the log."""
    said, faults = refusal.detail, refusal.faults
    first = faults[0].detail if faults else ""
    if first and said.endswith(first):  # the summary of a refusal quotes its first fault, which is said in any case
        said = said.removesuffix(first).removesuffix("The first: ").rstrip()
        if not said and len(faults) == 1:
            said, faults = f"{faults[0].pointer}: {first}", ()
    prefix = f"{clean(about)}: " if about else ""
    say(f"Error: {prefix}{clean(said)} ({clean(refusal.code)})")
    for fault in faults:
        say(f"  {clean(fault.pointer)}: {clean(fault.detail)}" if fault.pointer else f"  {clean(fault.detail)}")
    if refusal.retry_after:
        say(f"  Try again in {clean(refusal.retry_after)} s.")
    if refusal.request_id:
        say(f"  Request {clean(refusal.request_id)}")
