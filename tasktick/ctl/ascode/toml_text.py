"""Writes TOML, which the standard library only reads. Pure."""

import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_ESCAPED = re.compile(r'[\\"\x00-\x1f\x7f]')
_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
INT_MAX = 2**63


def can_say(value: Any) -> bool:
    """Whether TOML has a way to write it: it knows no null, and no integer over 64 bits."""
    match value:
        case None:
            return False
        case Mapping():
            return all(map(can_say, value.values()))
        case list():
            return all(map(can_say, value))
        case int():
            return -INT_MAX <= value < INT_MAX
        case _:
            return True


def dump(document: Mapping[str, Any], inline: frozenset[str] = frozenset()) -> str:
    """A document: values before tables; tables by these names are written on one line."""
    return "\n\n".join("\n".join(lines) for lines in _tables(document, (), inline)) + "\n"


def _tables(table: Mapping[str, Any], at: tuple[str, ...], inline: frozenset[str]) -> list[list[str]]:
    own: list[str] = []
    below: list[list[str]] = []
    for name, value in table.items():
        if isinstance(value, Mapping) and value and name not in inline:
            below += _tables(value, (*at, name), inline)
        elif value is not None:
            own.append(f"{key(name)} = {written(value)}")
    if not own:
        return below
    return [[f"[{'.'.join(map(key, at))}]", *own] if at else own, *below]


def key(name: str) -> str:
    """A name as TOML has it."""
    return name if _BARE.fullmatch(name) else _text(name)


def written(value: Any) -> str:
    """A value on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case list():
            return f"[{', '.join(map(written, value))}]"
        case Mapping():
            inner = ", ".join(f"{key(name)} = {written(one)}" for name, one in value.items())
            return f"{{ {inner} }}" if inner else "{}"
        case _:
            assert isinstance(value, int | float), "who has more than TOML can say asks `can_say` first"
            return repr(value)


def _text(text: str) -> str:
    return '"' + _ESCAPED.sub(lambda found: _SHORT.get(found[0], f"\\u{ord(found[0]):04X}"), text) + '"'
