"""The crash points of a process on PostgreSQL; the counterparts of those of `seams`, under the same labels."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from tasktick.store import postgres, postgres_links, postgres_writer
from tasktick.store.protocol import Alone
from tests.chaos.wrapping import swap

ACKNOWLEDGED_BY = frozenset(
    {
        *("task_create", "task_create_alike", "task_insert", "task_insert_alike", "task_insert_whole"),
        *("task_change", "task_delete"),
    }
)
OF_LEASES = frozenset({"leases_acquire", "leases_release"})
# The answer to a commit that was sent is a while on its way.
IN_COMMIT_S = 0.0003


class Passing(Protocol):
    """Who is told that execution goes through a label."""

    def passing(self, label: str) -> None: ...


def wrap(seams: Passing) -> None:
    """Put the labels around every write."""
    noted: dict[int, Counter[str]] = {}

    def note(last: Callable[..., Any]) -> Callable[..., Any]:
        async def noting(self: Any, query: str, /, *arguments: Any, **parameters: Any) -> Any:
            noted.setdefault(id(self._raw), Counter())[query] += 1
            return await last(self, query, *arguments, **parameters)

        return noting

    def make(write_with: Callable[..., Any]) -> Callable[..., Any]:
        async def wrapped(raw: Any, work: Callable[[Any], Any], *rest: Any, **named: Any) -> Any:
            queries = noted[id(raw)] = Counter()

            async def then(tx: Any) -> Any:
                result = await work(tx)
                _before(seams, queries)
                return result

            result = await write_with(raw, then, *rest, **named)
            _after(seams, queries)
            return result

        return wrapped

    def make_commit(commit: Callable[..., Any]) -> Callable[..., Any]:
        async def dying(*given: Any, **named: Any) -> Any:
            asyncio.get_running_loop().call_later(IN_COMMIT_S, seams.passing, "in_commit")
            return await commit(*given, **named)

        return dying

    swap(postgres.PostgresTransaction, "rows", note)
    swap(postgres.PostgresTransaction, "run", note)
    swap(postgres_writer, "write_with", make)
    _wrap_alone(seams)
    swap(postgres_links, "write_unmarked", make)
    swap(postgres, "_commit", make_commit)


def _wrap_alone(seams: Passing) -> None:
    """Of a statement that is a transaction by itself."""

    def make_alone(write_alone: Callable[..., Any]) -> Callable[..., Any]:
        async def wrapped(raw: Any, alone: Alone, *rest: Any) -> bool:
            queries = Counter([alone.query])
            _before(seams, queries)
            asyncio.get_running_loop().call_later(IN_COMMIT_S, seams.passing, "in_commit")
            written: bool = await write_alone(raw, alone, *rest)
            if written:
                _after(seams, queries)
            return written

        return wrapped

    swap(postgres_writer, "write_alone", make_alone)


def _before(seams: Passing, queries: Counter[str]) -> None:
    seams.passing("before_commit")
    if queries["task_end"] or queries["task_succeed"]:
        seams.passing("before_end_commit")
    if queries["ledger_insert"]:
        seams.passing("before_ledger_commit")
    if any(queries[name] for name in OF_LEASES):
        seams.passing("before_lease_commit")


def _after(seams: Passing, queries: Counter[str]) -> None:
    if any(queries[name] for name in ACKNOWLEDGED_BY):
        seams.passing("after_commit_before_ack")
    if queries["task_claim"]:
        seams.passing("after_claim_before_send")
    if queries["task_end"] or queries["task_succeed"]:
        seams.passing("after_end_commit")
    if queries["ledger_insert"]:
        seams.passing("after_ledger_commit")
    if any(queries[name] for name in OF_LEASES):
        seams.passing("after_lease_commit")
    if queries["node_renew"]:
        seams.passing("after_renewal")
