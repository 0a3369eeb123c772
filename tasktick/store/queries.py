"""Loads the named statements of a dialect: `-- name: task_claim`, then SQL up to the next name.

A name may hold several statements, separated by `;` at the end of a line; they run in order, and the
last one's rows or changes are the result. `-- fragment: columns` names a piece of text that a line
`-- include: columns` in the same file puts in its place, also in another fragment, and `-- include: claims.columns` in
another file, or in a fragment there, if it is that of `claims.sql`; nothing is ever put together at run time.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import msgspec

_HEAD = re.compile(r"^-- (name|fragment): ([a-z][a-z0-9_]*)[ \t]*$", re.MULTILINE)
# Text in quotes, which is left alone, or a parameter; `::` is a cast.
_PARAMETER = re.compile(r"'[^']*'|(?<![:\w]):([a-z][a-z0-9_]*)")
_INCLUDE = re.compile(r"^[ \t]*-- include: ((?:[a-z][a-z0-9_]*\.)?[a-z][a-z0-9_]*)[ \t]*$", re.MULTILINE)


@cache
def load(dialect: str) -> dict[str, tuple[str, ...]]:
    """Every statement of the dialect, by name."""
    found: dict[str, tuple[str, ...]] = {}
    folder = files("tasktick.store") / "sql" / dialect
    texts = {file.name: file.read_text() for file in folder.iterdir() if file.name.endswith(".sql")}
    fragments: dict[str, str] = {}
    for file, text in texts.items():
        fragments.update(fragments_of(text, f"{file.removesuffix('.sql')}."))
    for file, text in sorted(texts.items()):
        for name, statements in parse(text, fragments).items():
            if name in found:
                raise ValueError(f"{dialect}/{file} defines the statement {name!r} a second time")
            found[name] = statements
    return found


def parse(text: str, others: Mapping[str, str] = MappingProxyType({})) -> dict[str, tuple[str, ...]]:
    """The statements of one file, by name; with the fragments of others."""
    fragments = {**others, **fragments_of(text)}
    found: dict[str, tuple[str, ...]] = {}
    for kind, name, body in _pieces(text):
        if kind == "name":
            if name in found:
                raise ValueError(f"the statement {name!r} is defined a second time in one file")
            found[name] = split(_included(fragments, body))
    return found


def fragments_of(text: str, prefix: str = "") -> dict[str, str]:
    """The fragments of one file, by name behind this prefix; what they include of this file is named with it too."""
    own = {name: body.strip("\n") for kind, name, body in _pieces(text) if kind == "fragment"}

    def named(one: re.Match[str]) -> str:
        return one[0] if "." in one[1] else one[0].replace(f": {one[1]}", f": {prefix}{one[1]}")

    return {f"{prefix}{name}": _INCLUDE.sub(named, body) for name, body in own.items()}


def _pieces(text: str) -> list[tuple[str, str, str]]:
    """What kind each is of, its name, and its text."""
    parts = _HEAD.split(text)[1:]
    return list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))


def _included(fragments: Mapping[str, str], body: str) -> str:
    """With its fragments in their places, and those that they include."""
    return _INCLUDE.sub(lambda one: _included(fragments, _fragment(fragments, one[1])), body)


def _fragment(fragments: Mapping[str, str], name: str) -> str:
    if name not in fragments:
        raise ValueError(f"there is no fragment {name!r}")
    return fragments[name]


def split(body: str) -> tuple[str, ...]:
    """The statements of a body; comment lines fall away."""
    lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
    statements = re.split(r";[ \t]*$", "\n".join(lines), flags=re.MULTILINE)
    return tuple(one.strip() for one in statements if one.strip())


class Positional(msgspec.Struct, frozen=True):
    """A statement whose parameters are numbered, and their names in that order."""

    text: str
    names: tuple[str, ...]


def positional(statement: str) -> Positional:
    """The statement with `$1` where it says `:name`; a name has one number wherever it stands."""
    places: dict[str, int] = {}
    text = called(statement, lambda name: f"${places.setdefault(name, len(places) + 1)}")
    return Positional(text, tuple(places))


def called(statement: str, word: Callable[[str], str]) -> str:
    """The statement with this in the place of each of its parameters."""
    return _PARAMETER.sub(lambda found: found[0] if found[1] is None else word(found[1]), statement)
