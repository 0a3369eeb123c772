"""Bugs planted on purpose. Each must be caught by its suite, else what the checker says is worth nothing."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from tasktick.dispatch import webhook, wire, wire_sender
from tasktick.dispatch.outcome import RESET
from tasktick.dispatch.request_bytes import request_bytes, target_of
from tasktick.store import database, lanes, postgres, queries, sqlite, writer
from tests.chaos.wrapping import swap

UNSYNCED_S = 0.05


def ack_before_commit() -> None:
    """Answers go out while the transaction is still open, from the first batch on: a start looks at what it wrote."""
    has_begun = False

    def make(right: Callable[..., Any]) -> Callable[..., Any]:
        async def commit_later(self: writer.SqliteWriter, jobs: list[lanes.Job]) -> None:
            nonlocal has_begun
            has_begun |= any(job.batch is not None for job in jobs)
            if not has_begun:
                await right(self, jobs)
                return
            groups = writer._grouped(jobs)
            loop = asyncio.get_running_loop()

            def run(raw: Any) -> None:
                raw.execute("BEGIN IMMEDIATE")
                outcomes, *_ = writer._run(raw, sqlite.SqliteTransaction(raw), groups, marks=True)
                loop.call_soon_threadsafe(self._settle, [job for group in groups for job in group.jobs], outcomes)
                time.sleep(UNSYNCED_S)
                raw.execute("COMMIT")

            await self._link.call(run)

        return commit_later

    swap(writer.SqliteWriter, "_commit", make)


def rescue_by_id() -> None:
    """Whatever is running is rescued, by its id alone: no lease, no fence, not even whose hands it is in."""
    found = dict(queries.load("sqlite"))
    found["task_expired_leases"] = changed(
        found["task_expired_leases"],
        ("AND lease_until <= :now", "AND :now > 0"),
        ("AND id NOT IN (SELECT value FROM json_each(:own))", "AND :own IS NOT NULL"),
    )
    found["task_end_check"] = changed(
        found["task_end_check"],
        ("AND t.fence = row.value->>1 AND t.claim_id = row.value->>2", ""),
        ("row.value->>3 IS NULL", "1"),
    )
    found["task_end"] = changed(
        found["task_end"], ("AND tasks.fence = row.value->>1 AND tasks.claim_id = row.value->>2", "")
    )
    swap(sqlite, "load", lambda _: lambda dialect: found)


def changed(statements: tuple[str, ...], *changes: tuple[str, str]) -> tuple[str, ...]:
    for before, after in changes:
        assert any(before in one for one in statements), f"the bug cannot be planted: {before!r} is not there"
        statements = tuple(one.replace(before, after) for one in statements)
    return statements


def synchronous_normal() -> None:
    """A commit is not on disk when it returns."""
    pragmas = tuple(one.replace("synchronous = FULL", "synchronous = NORMAL") for one in sqlite.WRITER_PRAGMAS)
    assert pragmas != sqlite.WRITER_PRAGMAS, "the bug cannot be planted: it does not say FULL"
    swap(database, "WRITER_PRAGMAS", lambda _: pragmas)


def resend() -> None:
    """A request is written a second time if a kept connection dies under it, as HTTP clients do by themselves."""

    def make_start(start: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def with_resend(self: Any) -> None:
            await start(self)
            self._session._retry_connection = True

        return with_resend

    def make_ended(ended: Callable[..., None]) -> Callable[..., None]:
        def or_again(self: wire_sender.WireSender, one: wire.Wire, call: wire.WireCall) -> None:
            if one.idle_since_ms and one.reader.anomaly is RESET:  # it was kept, and has died
                target = target_of(call.request.method, call.request.url)
                data = request_bytes(target, call.request)
                call.wire, call.pending = None, wire.Pending(target, data)
                self._drop(one)
                self._connect(call, call.pending)
            else:
                ended(self, one, call)

        return or_again

    swap(webhook.WebhookSender, "start", make_start)
    swap(wire_sender.WireSender, "ended", make_ended)


def no_look_at_the_clock() -> None:
    """What was claimed is sent, however long ago that was."""

    def at_any_time(request: Any) -> Any:
        return msgspec.structs.replace(request, start_by_ms=float("inf"))

    def make_send(send: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        async def send_at_any_time(self: Any, request: Any) -> Any:
            return await send(self, at_any_time(request))

        return send_at_any_time

    def make_begin(begin: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
        return lambda self, request, done: begin(self, at_any_time(request), done)

    swap(webhook.WebhookSender, "send", make_send)
    swap(wire_sender.WireSender, "begin", make_begin)


def _plant_postgres(*changes: tuple[str, str]) -> None:
    """Another claim on PostgreSQL."""
    found = dict(queries.load("postgres"))
    found["task_claim"] = changed(found["task_claim"], *changes)
    swap(postgres, "load", lambda _: lambda dialect: found)


def no_guard_on_postgres() -> None:
    """A claim on PostgreSQL looks at no lease: the wheel says that the partition is ours."""
    _plant_postgres(
        ("get_bit(leased.partitions, asked.partition_id) = 1", "leased.partitions IS DISTINCT FROM B'0'"),
        ("FOR KEY SHARE", ""),
    )


def guard_without_lock() -> None:
    """A claim on PostgreSQL looks at the lease, and does not hold it until it has committed."""
    _plant_postgres(("FOR KEY SHARE", ""))


def for_share_unordered() -> None:
    """A claim on PostgreSQL holds the lease so that nobody may even ask for it, in whatever order."""
    _plant_postgres(("ORDER BY partition_id\n        FOR KEY SHARE", "FOR SHARE"))


PLANTS: dict[str, Callable[[], None]] = {
    "ack_before_commit": ack_before_commit,
    "rescue_by_id": rescue_by_id,
    "synchronous_normal": synchronous_normal,
    "resend": resend,
    "no_look_at_the_clock": no_look_at_the_clock,
    "no_guard_on_postgres": no_guard_on_postgres,
    "guard_without_lock": guard_without_lock,
    "for_share_unordered": for_share_unordered,
}
