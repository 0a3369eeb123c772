"""On which line of a TOML or JSON file something stands: the standard library's parsers do not tell. Pure.

What cannot be told is left out: a place has then the line of what it stands in.
"""

import json
import re
import tomllib
from collections.abc import Callable

Place = tuple[str | int, ...]

_TABLE = re.compile(r"\s*(\[.+\])\s*(?:#.*)?")
_PAIR = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|\n|[^\s\[\]{},:"]+')


def finder(lines: dict[Place, int]) -> Callable[[Place], int]:
    """The line of a place, or of the nearest that it stands in; 0 if none is known."""

    def line_of(place: Place) -> int:
        while place and place not in lines:
            place = place[:-1]
        return lines.get(place, 0)

    return line_of


def of_toml(text: str) -> dict[Place, int]:
    """By the headers of tables, and the names before a `=`."""
    lines: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        if found := _TABLE.fullmatch(line):
            table = _path(found[1]) or table
            _note(lines, table, number)
        elif found := _PAIR.match(line):
            _note(lines, (*table, *_path(f"{found[1]} = 0")), number)
    return lines


def _note(lines: dict[Place, int], place: Place, number: int) -> None:
    for length in range(1, len(place) + 1):
        lines.setdefault(place[:length], number)


def _path(text: str) -> Place:
    """The names of a header or of a dotted key."""
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # a line of a longer text that only looks like one
        return ()
    names: list[str] = []
    inner: object = value
    while isinstance(inner, dict) and inner:
        name = next(iter(inner))
        names.append(name)
        inner = inner[name]
    return tuple(names)


def of_json(text: str) -> dict[Place, int]:
    """By the names of objects and the places in arrays."""
    lines: dict[Place, int] = {}
    place: list[str | int] = []
    number, name = 1, ""
    for found in _TOKEN.finditer(text):
        mark = found[0]
        match mark:
            case "\n":
                number += 1
            case "{" | "[":
                place.append("" if mark == "{" else 0)
            case "}" | "]":
                del place[-1:]
            case "," if place:
                place[-1] = place[-1] + 1 if isinstance(place[-1], int) else ""
            case ":" if place:
                place[-1] = name
                lines.setdefault(tuple(place), number)
            case _ if mark[0] == '"':
                name = _text(mark)
    return lines


def _text(mark: str) -> str:
    try:
        return str(json.loads(mark))
    except ValueError:
        return mark
