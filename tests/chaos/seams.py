"""The seams at which an armed process kills itself: labelled crash points, wrapped around the product from outside.

Each seam is a function of the product by its name; if one is renamed, arming it fails loudly. A pass is one
time that execution goes through a label, and in the n-th the process is gone, or holds itself (SIGSTOP).
"""

import asyncio
import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from tasktick.dispatch import webhook, wire, wire_sender
from tasktick.store import migrate, one_step, sqlite, writer
from tests.chaos import postgres_seams
from tests.chaos.wrapping import swap

LABELS = (
    "before_commit",
    "after_commit_before_ack",
    "after_claim_before_send",
    "after_first_byte",
    "after_answer_before_end",
    "before_end_commit",
    "after_end_commit",
    "before_ledger_commit",
    "after_ledger_commit",
    "during_checkpoint",
    "during_migration",
    "after_look_before_byte",
    # Of a ring alone: leases taken or given back, a term renewed; a commit that was sent and not answered.
    "before_lease_commit",
    "after_lease_commit",
    "after_renewal",
    "in_commit",
)
ACKNOWLEDGED_BY = frozenset(
    {
        *("task_create", "task_create_alike", "task_insert", "task_insert_alike", "task_insert_whole"),
        *("task_change", "task_delete"),
    }
)
CHECKPOINT_ROWS = 20
FIRST_BYTE_S = 0.0005


class Seams:
    """Counts passes, and ends the process at the one that was asked for."""

    def __init__(self, label: str, passes: int, seed: int, *, hold: bool = False) -> None:
        assert label in LABELS, f"there is no crash point {label}"
        self._label = label
        self._left = passes
        self._signal = signal.SIGSTOP if hold else signal.SIGKILL
        self._random = Random(seed)
        self.queries: dict[int, Counter[str]] = defaultdict(Counter)

    def passing(self, label: str) -> None:
        """Execution goes through this label now."""
        if label != self._label:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), self._signal)

    def install(self) -> None:
        """Wrap what the label needs."""
        _note_queries(self)
        _wrap_commits(self)
        postgres_seams.wrap(self)
        if self._label == "during_migration":
            _wrap_migration(self)
        if self._label == "during_checkpoint":
            _wrap_checkpoint(self, self._random)
        if self._label in {"after_first_byte", "after_answer_before_end", "after_look_before_byte"}:
            _wrap_sender(self)


def _note_queries(seams: Seams) -> None:
    """Know which statements an open transaction has run."""

    def make(last: Callable[..., Any]) -> Callable[..., Any]:
        def noting(self: Any, query: str, parameters: dict[str, Any]) -> Any:
            seams.queries[id(self._raw)][query] += 1
            return last(self, query, parameters)

        return noting

    swap(sqlite.SqliteTransaction, "_last", make)


def _wrap_commits(seams: Seams) -> None:
    def make(write_with: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(raw: Any, work: Callable[[Any], Any]) -> Any:
            queries = seams.queries[id(raw)]
            queries.clear()

            def then(tx: Any) -> Any:
                result = work(tx)
                _before_commit(seams, queries)
                return result

            result = write_with(raw, then)
            _after_commit(seams, queries)
            return result

        return wrapped

    def make_one_step(write: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(self: Any, raw: Any, parts: Sequence[one_step.Bound]) -> one_step.Written:
            queries = Counter(part.query.removesuffix("_told") for part in parts)
            _before_commit(seams, queries)
            written: one_step.Written = write(self, raw, parts)
            _after_commit(seams, queries)
            return written

        return wrapped

    swap(writer, "write_with", make)
    swap(one_step.OneStep, "write", make_one_step)


def _before_commit(seams: Seams, queries: Counter[str]) -> None:
    seams.passing("before_commit")
    if queries["task_end"] or queries["task_succeed"]:
        seams.passing("before_end_commit")
    if queries["ledger_insert"]:
        seams.passing("before_ledger_commit")


def _after_commit(seams: Seams, queries: Counter[str]) -> None:
    if any(queries[name] for name in ACKNOWLEDGED_BY):
        seams.passing("after_commit_before_ack")
    if queries["task_claim"]:
        seams.passing("after_claim_before_send")
    if queries["task_end"] or queries["task_succeed"]:
        seams.passing("after_end_commit")
    if queries["ledger_insert"]:
        seams.passing("after_ledger_commit")


def _wrap_migration(seams: Seams) -> None:
    def make(statements: Callable[[str], list[str]]) -> Callable[[str], Iterator[str]]:
        def one_by_one(text: str) -> Iterator[str]:
            for statement in statements(text):
                yield statement
                seams.passing("during_migration")

        return one_by_one

    swap(migrate, "statements", make)


def _wrap_checkpoint(seams: Seams, random: Random) -> None:
    """Checkpoint often, and die somewhere in the middle of one."""

    def make(checkpoint: Callable[[Any], None]) -> Callable[[Any], None]:
        def watched(raw: Any) -> None:
            after_s = random.uniform(0.0, 0.004)

            def strike() -> None:
                time.sleep(after_s)
                seams.passing("during_checkpoint")

            threading.Thread(target=strike, daemon=True).start()
            checkpoint(raw)

        return watched

    swap(writer, "CHECKPOINT_IDLE_ROWS", lambda _: CHECKPOINT_ROWS)
    swap(writer, "CHECKPOINT_IDLE_SECONDS", lambda _: 0)
    swap(writer, "_checkpoint", make)


def _wrap_sender(seams: Seams) -> None:
    """Both ways of sending."""
    _wrap_session(seams)
    _wrap_wire(seams)


def _looked(seams: Seams) -> None:
    """The clock has just been looked at, and nothing has been written."""
    seams.passing("after_look_before_byte")
    asyncio.get_running_loop().call_later(FIRST_BYTE_S, seams.passing, "after_first_byte")


def _answered(seams: Seams, outcome: Any) -> None:
    if outcome.status is not None:
        seams.passing("after_answer_before_end")


def _wrap_session(seams: Seams) -> None:
    def make_connected(connected: Callable[..., None]) -> Callable[..., None]:
        def then_die(self: Any, handler: Any) -> None:
            connected(self, handler)
            _looked(seams)

        return then_die

    def make_send(send: Callable[..., Any]) -> Callable[..., Any]:
        async def then_lose_it(self: Any, request: Any) -> Any:
            outcome = await send(self, request)
            _answered(seams, outcome)
            return outcome

        return then_lose_it

    swap(webhook._Exchange, "connected", make_connected)
    swap(webhook.WebhookSender, "send", make_send)


def _wrap_wire(seams: Seams) -> None:
    def make_ask(ask: Callable[..., None]) -> Callable[..., None]:
        def die_before(self: Any, *given: Any) -> None:
            _looked(seams)
            ask(self, *given)

        return die_before

    def make_begin(begin: Callable[..., Any]) -> Callable[..., Any]:
        def then_lose_it(self: Any, request: Any, done: Callable[[Any], None]) -> Any:
            def lose_it(outcome: Any) -> None:
                _answered(seams, outcome)
                done(outcome)

            return begin(self, request, lose_it)

        return then_lose_it

    swap(wire.Wire, "ask", make_ask)
    swap(wire_sender.WireSender, "begin", make_begin)
