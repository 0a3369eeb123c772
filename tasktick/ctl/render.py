"""Prints: tables for people, documents for programs, problems on standard error.

What a server says is data of strangers (a task's name, a receiver's answer). Control characters, and the
characters that turn the direction of text, are shown as escapes and never reach the terminal.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tasktick.client.core import Answer, Problem

if TYPE_CHECKING:
    from rich.console import RenderableType

# C0, DEL, C1, line and paragraph separators, marks that turn the direction of text, lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
# The same but for what JSON has escaped already: these can only stand inside a string.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_WIDTH_PIPED = 100_000
# A terminal that is narrower wraps lines itself; cut to it, ids and states would be gone.
_WIDTH_LEAST = 70
NOTHING = "-"
STYLES = {
    "succeeded": "green",
    "dead": "red",
    "failed": "red",
    "retrying": "yellow",
    "running": "cyan",
    "expired": "red",
    "missed": "red",
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


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, whole: Sequence[str] = ("id", "state", "attempt")
) -> None:
    """Print rows; columns in `whole` are never broken, so that an id can be copied."""
    from rich.table import Table
    from rich.text import Text

    printed = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        printed.add_column(column.upper(), no_wrap=column in whole, overflow="fold")
    for row in rows:
        words = [word(value) for value in row]
        printed.add_row(*(Text(one, style=STYLES.get(one, "")) for one in words))
    _print(printed)


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


def _print(printed: "RenderableType") -> None:
    """As wide as the terminal; piped, as wide as it needs and without styles."""
    from rich.console import Console

    on_terminal = sys.stdout.isatty()
    out = StringIO()
    console = Console(
        file=out, force_terminal=on_terminal, width=None if on_terminal else _WIDTH_PIPED, highlight=False
    )
    console.width = max(console.width, _WIDTH_LEAST)
    console.print(printed)
    for line in out.getvalue().splitlines():
        click.echo(line.rstrip())


def document(answer: Answer) -> None:
    """Print what the API answered, as it stands; only what a terminal would act on is escaped, as JSON does."""
    answer.json()  # what is no JSON is a problem, not output
    if answer.body:
        text = answer.body.decode()
        click.echo(_UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text).rstrip("\n"))


def say(text: str) -> None:
    """Tell a person something that is no part of the answer."""
    click.echo(text, err=True)


def problem(refusal: Problem, about: str | None = None) -> None:
    """Say why the server refused, which fields are at fault, and by what to find it in the log."""
    prefix = f"{clean(about)}: " if about else ""
    say(f"Error: {prefix}{clean(refusal.detail)} ({clean(refusal.code)})")
    for fault in refusal.faults:
        say(f"  {clean(fault.pointer)}: {clean(fault.detail)}")
    if refusal.retry_after:
        say(f"  Try again in {clean(refusal.retry_after)} s.")
    if refusal.request_id:
        say(f"  Request {clean(refusal.request_id)}")
