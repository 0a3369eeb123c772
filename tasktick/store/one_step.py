"""A named query of several statements as a single step of SQLite, which is a transaction by itself.

Each statement gives the interpreter away and gets it back when the event loop lets go of it, which takes half a
millisecond where that has much to do: while some callers are answered and heard, that is most of what it takes to write
what others bring. So all of it is bound to one INSERT into a view whose trigger is the statements. Both are temporary:
they are this connection's own, and in no file.
"""

from functools import cache
from typing import Any

import msgspec

from tasktick.errors import StoreBroken
from tasktick.store.connect import RawConnection
from tasktick.store.queries import called
from tasktick.store.sqlite import bind, known, named, parameters_of, rollback


class Bound(msgspec.Struct, frozen=True, gc=False):
    """A named query with its parameters as they travel."""

    query: str
    parameters: dict[str, Any]
    chars: int


class OneStep:
    """Carries queries out on one connection."""

    def __init__(self) -> None:
        self._there: set[str] = set()

    def write(self, raw: RawConnection, bound: Bound) -> int:
        """How many rows were changed, all of which are on disk. What is raised says whether anything may be: only
        `StoreBroken` does."""
        view, trigger, statement = _made_of(bound.query)
        if raw.in_transaction:
            raise StoreBroken("A transaction was left open: what is written now would be committed by nobody.")
        if bound.query not in self._there:
            try:
                raw.execute(view)
                raw.execute(trigger)
            except Exception as error:
                raise StoreBroken(f"The store failed: {error}") from error
            self._there.add(bound.query)
        before = raw.total_changes
        try:
            raw.execute(statement, bound.parameters)
        except MemoryError as error:  # it may have come after the commit
            raise StoreBroken("There was no memory for a commit, and its fate is unknown.") from error
        except Exception as error:
            rollback(raw)
            ours = known(error)
            if ours is error:
                raise
            raise ours from error
        return raw.total_changes - before


def bound(query: str, parameters: dict[str, Any]) -> Bound:
    """What is written, ready to be handed to the connection's thread."""
    texts = {name: bind(parameters[name]) for name in parameters_of(query)}
    return Bound(query, texts, sum(len(value) for value in texts.values() if isinstance(value, str)))


@cache
def _made_of(query: str) -> tuple[str, str, str]:
    """The view, its trigger, and the statement that sets it off."""
    names = parameters_of(query)
    columns = ", ".join(f'"{name}"' for name in names)
    body = ";\n".join(called(one, lambda name: f'NEW."{name}"') for one in named(query))
    return (
        f"CREATE TEMP VIEW IF NOT EXISTS {query} ({columns}) AS SELECT {', '.join('NULL' for _ in names)}",
        f"CREATE TEMP TRIGGER IF NOT EXISTS {query}_in_one_step INSTEAD OF INSERT ON {query} BEGIN\n{body};\nEND",
        f"INSERT INTO {query} ({columns}) VALUES ({', '.join(f':{name}' for name in names)})",  # noqa: S608 - our own names
    )
