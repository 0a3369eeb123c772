"""Answers that hold a secret: shown to whoever made it, and again only to who repeats the same request.

What is kept with an Idempotency-Key is sealed, and bound to the API key that asked: another key of the tenant,
which may be allowed less, does not get the secret by sending the same words.
"""

import hashlib
from collections.abc import Awaitable, Callable
from secrets import token_bytes

import msgspec

from tasktick.api.call import Call, Reply
from tasktick.api.idempotency import key_of, reply
from tasktick.store import names
from tasktick.store.names import StoredAnswer
from tasktick.store.protocol import Transaction

Operation = Callable[[Transaction], Awaitable[tuple[str, StoredAnswer]]]

# What cannot be guessed comes from the system, not from a seed.
random_bytes = token_bytes


async def shown_once(call: Call, operation: Operation) -> Reply:
    """Run an operation in a transaction, once per key; its answer is kept sealed."""
    key = key_of(call)
    if key is None:
        return reply((await call.ports.database.write(operation))[1])
    bound = hashlib.sha256(f"{key.fingerprint} {call.principal.key_id}".encode()).hexdigest()
    key = msgspec.structs.replace(key, fingerprint=bound)
    vault, context = call.ports.vault, f"answer:{key.tenant}:{key.name}"

    async def sealed(tx: Transaction) -> tuple[str, StoredAnswer]:
        object_id, answer = await operation(tx)
        return object_id, msgspec.structs.replace(answer, body=vault.seal(answer.body, context))

    with call.in_flight.held(key):
        given = await call.ports.database.write(lambda tx: names.once(tx, key, sealed))
    return reply(msgspec.structs.replace(given, body=vault.open(given.body, context)))
