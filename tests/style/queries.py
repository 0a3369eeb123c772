"""Checkers of named SQL: the same names in every dialect, each one used, each use defined."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from tests.style.tree import Source

# What was meant as a header, and what the store's loader takes for one.
HEADER = re.compile(r"^\s*--\s*name\s*:\s*(?P<name>\S*).*$", re.MULTILINE | re.IGNORECASE)
EXACT_HEADER = re.compile(r"-- name: [a-z][a-z0-9_]*\s*")
QUERY_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
NOT_DIALECTS = frozenset({"migrations"})
# What one database has that the other has no use for; only the driver of that one may use it.
OWN_FILES = {
    "postgres": frozenset({"history.sql", "marks.sql", "migration.sql", "moving.sql", "server.sql"}),
    "sqlite": frozenset({"one_step.sql"}),
}
OWN_USERS = {"postgres": "tasktick/store/postgres", "sqlite": "tasktick/store/one_step"}


def by_dialect(sources: Iterable[Source]) -> dict[str, dict[str, list[str]]]:
    """dialect -> query name -> where it is defined (file within the dialect)."""
    found: dict[str, dict[str, list[str]]] = {}
    for source in sources:
        folders = source.parts[source.parts.index("sql") + 1 : -1]
        if not folders or NOT_DIALECTS.intersection(folders):
            continue
        names = found.setdefault(folders[0], defaultdict(list))
        for header in HEADER.finditer(source.text):
            names[header["name"]].append("/".join((*folders[1:], source.name)))
    return found


def malformed(sources: Iterable[Source]) -> list[str]:
    """A header is written as the loader reads it, or its query would belong to the one before it."""
    return [
        f"{source.path}: {found.group().strip()!r} is no header; write `-- name: some_name`"
        for source in sources
        for found in HEADER.finditer(source.text)
        if not EXACT_HEADER.fullmatch(found.group().strip())
    ]


def misnamed(dialects: Mapping[str, Mapping[str, list[str]]]) -> list[str]:
    """A query has one definition and a name in snake_case."""
    return [
        f"{dialect}: {name} is defined in {', '.join(files)}"
        for dialect, names in dialects.items()
        for name, files in names.items()
        if len(files) != 1 or not QUERY_NAME.fullmatch(name)
    ]


def differing(dialects: Mapping[str, Mapping[str, list[str]]]) -> list[str]:
    """The same query has the same name, in the same file, in every dialect."""
    everywhere = {
        (name, file)
        for dialect, names in dialects.items()
        for name in names
        for file in names[name]
        if file not in OWN_FILES.get(dialect, ())
    }
    return [
        f"{dialect}: has no {name} in {file}"
        for dialect, names in dialects.items()
        for name, file in sorted(everywhere)
        if file not in names.get(name, [])
    ]


def unused(dialects: Mapping[str, Mapping[str, list[str]]], users: Iterable[Source]) -> list[str]:
    """Every query is named by the code of the store."""
    mentioned = {word for source in users for word in _words(source)}
    return [
        f"{dialect}: nothing uses {name} ({', '.join(files)})"
        for dialect, names in dialects.items()
        for name, files in names.items()
        if name not in mentioned
    ]


def _words(source: Source) -> set[str]:
    words: set[str] = set()
    for node in ast.walk(source.tree):
        match node:
            case ast.Attribute(attr=word) | ast.Constant(value=str(word)):
                words.add(word)
            case _:
                pass
    return words


def undefined(
    dialects: Mapping[str, Mapping[str, list[str]]], users: Iterable[Source], methods: frozenset[str]
) -> list[str]:
    """Every query that the code calls by name is there. `methods` are those that take a query's name."""
    return [
        f"{source.path}:{node.lineno}: {dialect} has no query {name!r}"
        for source in users
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and (name := _query_of(node, methods)) is not None
        for dialect, names in dialects.items()
        if name not in names and not _is_own(name, source, dialects)
    ]


def _is_own(name: str, user: Source, dialects: Mapping[str, Mapping[str, list[str]]]) -> bool:
    return any(
        user.path.startswith(OWN_USERS[dialect]) and files.intersection(dialects.get(dialect, {}).get(name, []))
        for dialect, files in OWN_FILES.items()
    )


def _query_of(call: ast.Call, methods: frozenset[str]) -> str | None:
    match call:
        case ast.Call(func=ast.Attribute(attr=method), args=[ast.Constant(value=str(name)), *_]):
            return name if method in methods else None
        case _:
            return None
