"""Named queries of several statements as a single step of SQLite, which is a transaction by itself.

Each statement gives the interpreter away and gets it back when the event loop lets go of it, which takes half a
millisecond where that has much to do: while some callers are answered and heard, that is most of what it takes to write
what others bring. So all of it is bound to one INSERT into a view whose trigger is the statements. Both are temporary:
they are this connection's own, and in no file.

A query that ends with a SELECT answers that, one cell, as what the INSERT returns. One that cannot be carried out like
this raises its own name (`RAISE(ABORT, 'task_create')`), which undoes all that is in the step.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from tasktick.errors import StoreBroken
from tasktick.store.connect import IntegrityError, RawConnection
from tasktick.store.queries import called
from tasktick.store.sqlite import bind, known, named, parameters_of, rollback

_GUARD = "SELECT RAISE("


class Apart(Exception):
    """The query of this name is not for one step; nothing of the step is written."""

    def __init__(self, query: str) -> None:
        super().__init__(query)
        self.query = query


class Bound(msgspec.Struct, frozen=True, gc=False):
    """A named query with its parameters as they travel."""

    query: str
    parameters: dict[str, Any]
    chars: int


class Written(msgspec.Struct, frozen=True, gc=False):
    """What a step came to: rows that were changed, all of which are on disk, and what each of its queries answers."""

    changes: int
    answers: list[Any]


class _Made(msgspec.Struct, frozen=True, gc=False):
    """How some queries are one step."""

    view: str
    trigger: str
    statement: str
    # Of each query in its turn: what the statement calls its parameters, and whether it answers something.
    places: list[dict[str, str]]
    answers: list[bool]


class OneStep:
    """Carries queries out on one connection."""

    def __init__(self) -> None:
        self._there: set[tuple[str, ...]] = set()

    def write(self, raw: RawConnection, parts: Sequence[Bound]) -> Written:
        """Carry these out, all of them or none. What is raised says whether anything may be on disk: only `StoreBroken`
        does."""
        assert parts, "a step does something"
        queries = tuple(part.query for part in parts)
        made = _made_of(queries)
        if raw.in_transaction:
            raise StoreBroken("A transaction was left open: what is written now would be committed by nobody.")
        if queries not in self._there:
            try:
                raw.execute(made.view)
                raw.execute(made.trigger)
            except Exception as error:
                raise StoreBroken(f"The store failed: {error}") from error
            self._there.add(queries)
        given = {
            place: part.parameters[name]
            for part, places in zip(parts, made.places, strict=True)
            for name, place in places.items()
        }
        before = raw.total_changes
        try:
            done = raw.execute(made.statement, given)
            # To fetch what is answered is to commit. Where nothing is, to ask would only give the interpreter away.
            row = done.fetchone() if any(made.answers) else None
        except MemoryError as error:  # it may have come after the commit
            raise StoreBroken("There was no memory for a commit, and its fate is unknown.") from error
        except Exception as error:
            rollback(raw)
            if isinstance(error, IntegrityError) and str(error) in queries:
                raise Apart(str(error)) from error
            ours = known(error)
            if ours is error:
                raise
            raise ours from error
        cells = iter(row or ())
        return Written(raw.total_changes - before, [next(cells) if has_one else None for has_one in made.answers])


def bound(query: str, parameters: dict[str, Any]) -> Bound:
    """What is written, ready to be handed to the connection's thread."""
    texts = {name: bind(parameters[name]) for name in parameters_of(query)}
    return Bound(query, texts, sum(len(value) for value in texts.values() if isinstance(value, str)))


@cache
def _made_of(queries: tuple[str, ...]) -> _Made:
    places = [{name: f"{name}_{at}" for name in parameters_of(query)} for at, query in enumerate(queries)]
    columns = [place for of_one in places for place in of_one.values()]
    parted = [_parted(named(query)) for query in queries]
    body = "".join(
        f"{called(one, _column(of_one))};\n"
        for (statements, _), of_one in zip(parted, places, strict=True)
        for one in statements
    )
    answers = [
        called(answer, _parameter(of_one))
        for (_, answer), of_one in zip(parted, places, strict=True)
        if answer is not None
    ]
    view = "_and_".join(queries)
    quoted, given = ", ".join(f'"{one}"' for one in columns), ", ".join(f":{one}" for one in columns)
    named_answers = (f"({one}) AS answer_{at}" for at, one in enumerate(answers))
    returned = f" RETURNING {', '.join(named_answers)}" if answers else ""
    return _Made(
        f"CREATE TEMP VIEW IF NOT EXISTS {view} ({quoted}) AS SELECT {', '.join('NULL' for _ in columns)}",
        f"CREATE TEMP TRIGGER IF NOT EXISTS {view}_in_one_step INSTEAD OF INSERT ON {view} BEGIN\n{body}END",
        f"INSERT INTO {view} ({quoted}) VALUES ({given}){returned}",  # noqa: S608 - our own names
        places,
        [answer is not None for _, answer in parted],
    )


def _parted(statements: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """What a query does, and the SELECT at its end, which is what it answers."""
    last = statements[-1]
    if last.startswith("SELECT") and not last.startswith(_GUARD):
        return statements[:-1], last
    return statements, None


def _column(places: Mapping[str, str]) -> Callable[[str], str]:
    return lambda name: f'NEW."{places[name]}"'


def _parameter(places: Mapping[str, str]) -> Callable[[str], str]:
    return lambda name: f":{places[name]}"
