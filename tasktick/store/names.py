"""Keys that must be unique, and idempotency: the key is kept in the transaction of what it stands for.

A key of an unfinished task belongs to it until the task ends. An idempotency key belongs to the first
request that shows it, with the answer that it was given, for a window.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple

from tasktick.errors import Refused
from tasktick.store.protocol import Aborted, Transaction, only
from tasktick.store.rows import Name

TASK = "task"
IDEMPOTENCY = "idempotency"


class IdempotencyKey(msgspec.Struct, frozen=True):
    """What a client sent to make sure that its request counts once."""

    tenant: str
    name: str
    fingerprint: str
    now: int
    expires_at: int


class StoredAnswer(msgspec.Struct, frozen=True):
    """An answer as it was given, kept with the key."""

    status: int
    body: str
    headers: dict[str, str] = {}
    replayed: bool = False


async def find(tx: Transaction, tenant: str, kind: str, name: str) -> Name | None:
    """The row of this key, expired or not."""
    return only(await tx.rows("names_read", Name, rows=[{"tenant": tenant, "kind": kind, "name": name}]))


async def replay(tx: Transaction, key: IdempotencyKey) -> StoredAnswer | None:
    """The answer that this key was given before, if its window is open; another body under it is refused."""
    row = await find(tx, key.tenant, IDEMPOTENCY, key.name)
    if row is None or (row.expires_at is not None and row.expires_at <= key.now):
        return None
    return replayed(row, key.fingerprint)


def replayed(row: Name, fingerprint: str) -> StoredAnswer:
    """The stored answer, or the refusal of a key that stands for something else."""
    if row.fingerprint != fingerprint:
        raise Refused(
            "idempotency_key_reused",
            "This Idempotency-Key was used for a different request. Send the same request, or a new key.",
        )
    return StoredAnswer(row.status or 200, row.body or "", row.headers or {}, replayed=True)


async def remember(tx: Transaction, key: IdempotencyKey, object_id: str, answer: StoredAnswer) -> None:
    """Keep the answer; an expired row of the same key makes way."""
    await tx.run("names_expire_now", tenant=key.tenant, kind=IDEMPOTENCY, name=key.name, now=key.now)
    await take(tx, [answer_row(key, object_id, answer)])


async def take(tx: Transaction, rows: Sequence[Name]) -> None:
    """Take keys that were free when this transaction looked."""
    if await tx.run("names_insert", rows=[_row(row) for row in rows]) != len(rows):
        raise Aborted("Another transaction has just taken the key.")


def _row(name: Name) -> tuple[Any, ...]:
    """The row that `names_insert` reads: the fields in their order."""
    *fields, headers, body = astuple(name)
    return *fields, None if headers is None else msgspec.json.encode(headers).decode(), body


async def answer(tx: Transaction, key: IdempotencyKey, answer: StoredAnswer) -> None:
    """Keep the answer of a key that was taken before it was known."""
    await tx.run(
        "names_answer",
        tenant=key.tenant,
        kind=IDEMPOTENCY,
        name=key.name,
        fingerprint=key.fingerprint,
        status=answer.status,
        headers=msgspec.json.encode(answer.headers).decode(),
        body=answer.body,
    )


def answer_row(key: IdempotencyKey, object_id: str, answer: StoredAnswer) -> Name:
    """The row that keeps an answer."""
    return Name(
        tenant=key.tenant,
        kind=IDEMPOTENCY,
        name=key.name,
        object_id=object_id,
        created_at=key.now,
        expires_at=key.expires_at,
        fingerprint=key.fingerprint,
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
    )


async def once(
    tx: Transaction,
    key: IdempotencyKey | None,
    operation: Callable[[Transaction], Awaitable[tuple[str, StoredAnswer]]],
) -> StoredAnswer:
    """Do what a request asks for, unless its key says that it is done: then give the same answer."""
    if key is None:
        return (await operation(tx))[1]
    before = await replay(tx, key)
    if before is not None:
        return before
    object_id, answer = await operation(tx)
    await remember(tx, key, object_id, answer)
    return answer


async def purge(tx: Transaction, now: int, limit: int) -> int:
    """Remove some of the keys whose window has closed; how many."""
    return await tx.run("names_purge", now=now, limit=limit)
