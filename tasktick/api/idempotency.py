"""Requests that count once: the same key and the same body get the first answer again.

The answer is kept in the transaction of what it stands for. Within the process, a second request with a key
whose first one is still being handled is told so at once, rather than left to wait.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from tasktick.api.call import Call, Reply
from tasktick.errors import Refused
from tasktick.store import names
from tasktick.store.names import IdempotencyKey, StoredAnswer
from tasktick.store.protocol import Lane, Transaction

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
HOUR_MS = 3_600_000

_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?")


def key_of(call: Call) -> IdempotencyKey | None:
    """The key that a request shows, bound to what the request is."""
    name = call.headers.get(HEADER)
    if name is None:
        return None
    if _KEY.fullmatch(name) is None:
        detail = "An Idempotency-Key is 1 to 255 printable characters."
        raise Refused("validation_failed", detail, errors=[(HEADER, detail)])
    window_ms = call.ports.config.store.idempotency_hours * HOUR_MS
    return IdempotencyKey(call.tenant, name, _fingerprint(call), call.now, call.now + window_ms)


def _fingerprint(call: Call) -> str:
    """What is equal for equal requests: method, path and body, byte for byte."""
    seen = hashlib.sha256(f"{call.method} {call.path}\n".encode())
    seen.update(call.body)
    return seen.hexdigest()


async def once(call: Call, operation: Callable[[Transaction], Awaitable[tuple[str, StoredAnswer]]]) -> StoredAnswer:
    """Run an operation in a transaction, once per key."""
    key = key_of(call)
    with call.in_flight.held(key):
        return await call.ports.database.write(lambda tx: names.once(tx, key, operation), Lane.CREATE)


async def begin(call: Call, key: IdempotencyKey | None) -> StoredAnswer | None:
    """For what takes more than one transaction: what the key was answered before; else it is taken, and pends.

    A pending answer has no body. Whoever finds one goes on where the first stopped.
    """
    if key is None:
        return None
    taken = key

    async def operation(tx: Transaction) -> StoredAnswer | None:
        before = await names.replay(tx, taken)
        if before is None:
            await names.remember(tx, taken, "", StoredAnswer(HTTPStatus.OK, ""))
        return before

    return await call.ports.database.write(operation)


def stored(reply: Reply) -> StoredAnswer:
    """An answer as it is kept."""
    return StoredAnswer(reply.status, reply.body.decode(), dict(reply.headers))


def reply(answer: StoredAnswer) -> Reply:
    """A stored answer as it is sent: as it was given, but for the note that it is a repetition."""
    headers = answer.headers | {REPLAYED: "true"} if answer.replayed else answer.headers
    return Reply(answer.status, answer.body.encode(), headers)
