"""A file of schedules, read: its owner, its schedules and calendars, and where in the file each thing stands."""

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import msgspec

from tasktick.ctl.ascode import lines
from tasktick.ctl.ascode.lines import Place, finder

FILE_BYTES_MAX = 4 * 1024 * 1024
DEPTH_MAX = 32
FORMATS = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".json": "json"}
PARTS = ("owner", "schedules", "calendars")
NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}", re.ASCII)
INT_MAX = 2**64


class Fault(msgspec.Struct, frozen=True):
    """What is wrong, and where: the line is 0 if it is not known."""

    file: str
    line: int
    place: str
    detail: str

    def __str__(self) -> str:
        at = f"{self.file}:{self.line}" if self.line else self.file
        return f"{at}: {self.place}: {self.detail}" if self.place else f"{at}: {self.detail}"


class Faulty(Exception):
    """Files that cannot be taken, with every fault; `by_server` if it was the server that found them."""

    def __init__(self, faults: Sequence[Fault], *, by_server: bool = False) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)
        self.by_server = by_server


class Unreadable(ValueError):
    """A text that is none of its format."""

    def __init__(self, detail: str, line: int = 0) -> None:
        super().__init__(detail)
        self.line = line


class Declared(msgspec.Struct, frozen=True):
    """What a file declares."""

    file: str
    owner: str
    schedules: dict[str, Any]
    calendars: dict[str, Any]
    line_of: Callable[[Place], int]

    def fault(self, place: Place, detail: str) -> Fault:
        """A fault at a place of it."""
        return Fault(self.file, self.line_of(place), spelled(place), detail)


def spelled(place: Iterable[str | int]) -> str:
    """A place as people write it."""
    return ".".join(str(part) if NAME.fullmatch(str(part)) and "." not in str(part) else f'"{part}"' for part in place)


def format_of(name: str, said: str | None) -> str:
    """The format of a file, by what was said, else by its suffix."""
    found = said or FORMATS.get(Path(name).suffix.lower())
    if found is None:
        raise Faulty([Fault(name, 0, "", f"Its format is not known: name it {', '.join(FORMATS)}, or say --format.")])
    return found


def read(name: str, data: bytes, said: str | None = None) -> Declared:
    """A file, or every fault of its frame; what stands in a schedule is judged by the server."""
    form = format_of(name, said)
    if len(data) > FILE_BYTES_MAX:
        raise Faulty([Fault(name, 0, "", f"This has over {FILE_BYTES_MAX // 2**20} MiB: make several files of it.")])
    try:
        text = data.decode("utf-8-sig")
        document, line_of = _READERS[form](text)
        document = plain(document)
    except UnicodeDecodeError:
        raise Faulty([Fault(name, 0, "", "This is not UTF-8.")]) from None
    except RecursionError:
        raise Faulty([Fault(name, 0, "", "This is nested too deep.")]) from None
    except Unreadable as error:
        raise Faulty([Fault(name, error.line, "", str(error))]) from error
    return _framed(name, document, line_of)


def _framed(name: str, document: Any, line_of: Callable[[Place], int]) -> Declared:
    if not isinstance(document, dict):
        raise Faulty([Fault(name, 0, "", "This must have an owner, and schedules by their keys.")])
    owner = document.get("owner")
    tables = {part: document.get(part) or {} for part in PARTS[1:]}
    ours = {part: table if isinstance(table, dict) else {} for part, table in tables.items()}
    declared = Declared(name, str(owner), ours["schedules"], ours["calendars"], line_of)
    faults = [declared.fault((part,), _no_part(part)) for part in document if part not in PARTS]
    if not isinstance(owner, str) or NAME.fullmatch(owner) is None:
        faults.append(declared.fault(("owner",), "Say who owns this: 1 to 128 characters of A-Z a-z 0-9 _ . : -"))
    for part, table in tables.items():
        if not isinstance(table, dict):
            faults.append(declared.fault((part,), "This is a table by key."))
            continue
        for key, content in table.items():
            if NAME.fullmatch(key) is None:
                faults.append(declared.fault((part, key), "A key is 1 to 128 characters of A-Z a-z 0-9 _ . : -"))
            elif not isinstance(content, dict):
                faults.append(declared.fault((part, key), "This must be a table."))
    if faults:
        raise Faulty(faults)
    return declared


def _no_part(part: str) -> str:
    if part == "queues":
        return "Queues are not declared in files yet: leave them out."
    return f"There is no such part; there are {', '.join(PARTS)}."


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it: dates become text, and what JSON cannot say is refused."""
    if depth > DEPTH_MAX:
        raise Unreadable(f"This is nested deeper than {DEPTH_MAX} levels.")
    match value:
        case dict():
            return {str(name): plain(one, depth + 1) for name, one in value.items()}
        case list():
            return [plain(one, depth + 1) for one in value]
        case datetime() | date() | time():
            return value.isoformat()
        case float() if not math.isfinite(value):
            raise Unreadable("A number is finite: write infinity or NaN as a text.")
        case bool():
            return value
        case int() if not -INT_MAX < value < INT_MAX:
            raise Unreadable(f"The number {str(value)[:40]} is too large: write it as a text.")
        case _:
            return value


def _toml(text: str) -> tuple[Any, Callable[[Place], int]]:
    try:
        return tomllib.loads(text), finder(lines.of_toml(text))
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise Unreadable(f"This is no TOML: {error}.", int(line[1]) if line else 0) from None


def _json(text: str) -> tuple[Any, Callable[[Place], int]]:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) < len(found):
            names = [name for name, _ in found]
            twice = next(name for name in names if names.count(name) > 1)
            raise Unreadable(f"The name {twice[:128]!r} stands twice in one object.")
        return made

    try:
        return json.loads(text, object_pairs_hook=pairs), finder(lines.of_json(text))
    except json.JSONDecodeError as error:
        raise Unreadable(f"This is no JSON: {error.msg}.", error.lineno) from None


def _yaml(text: str) -> tuple[Any, Callable[[Place], int]]:
    from tasktick.ctl.ascode.yaml_text import load

    return load(text)


_READERS: dict[str, Callable[[str], tuple[Any, Callable[[Place], int]]]] = {"toml": _toml, "json": _json, "yaml": _yaml}
