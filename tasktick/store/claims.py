"""How attempts begin in the store, and which are lost. What does not match is stale, and nothing happens.

A claim needs the live term of the task's partition. How attempts end is in `endings`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tasktick.model.ids import ID_CHARS, PARTITIONS, partition_of
from tasktick.model.task import Claimed, Foreseen, Payload, Taken
from tasktick.model.value import Value
from tasktick.store import lateness
from tasktick.store.counts import RUNNING, Deltas
from tasktick.store.due import BEGINNING
from tasktick.store.protocol import Alone, Batch, Lane, Transaction
from tasktick.store.rows import decoder

# Payloads come with a claim as far as each is within its share: 500 of the largest would hold up the writer, and fill
# the memory.
PAYLOADS_CHARS_MAX = 4_194_304
PAYLOAD_CHARS_SURE = 16_384
# What is kept of a payload that is read ahead is its values: each header is some 150 bytes, and where one character is
# none of ASCII each takes up to four.
PARTS_SMALL = 10
WIDE_CHARS_SMALL = 256


class ClaimRequest(Value, frozen=True):
    """Who claims, under which terms (epoch by partition), and for how long."""

    node: str
    incarnation: str
    epochs: Mapping[int, int]
    claim_id: int
    now: int
    early_ms: int
    start_delay_ms: int
    margin_ms: int
    # Tasks that were due before the clock was set back, by the time that they were due: moved, they are not.
    was_due: Mapping[str, int] = {}
    # How often the claimer knows to have renewed its term.
    beat: int = 0


class Asked(msgspec.Struct, frozen=True):
    """A claim that is asked for: of which tasks, and what is known of them."""

    ids: list[str]
    request: ClaimRequest
    foreseen: Mapping[str, Foreseen]


class _Claim(msgspec.Struct, frozen=True, array_like=True):
    """What came of one: when, the ids of what is as it was read ahead, and the rest as it is."""

    now: int
    foreseen: str
    others: list[Taken]


async def claim(tx: Transaction, ids: list[str], request: ClaimRequest) -> list[Claimed]:
    """Mark these tasks as running, in one guarded statement; what comes back may be sent."""
    return [one.claimed for one in await take(tx, ids, request)]


async def take(
    tx: Transaction, ids: list[str], request: ClaimRequest, foreseen: Mapping[str, Foreseen] | None = None
) -> list[Taken]:
    """The same, with what is to be sent, unless that is large; of what was `foreseen`, nothing is read again."""
    known = foreseen or {}
    parameters = _parameters(ids, request, known)
    found = await tx.rows("task_claim", _Claim, **parameters)
    taken = [one for claim in found for one in _taken(claim, request, known)]
    if taken:
        claimed = [one.claimed for one in taken]
        deltas = Deltas()
        for one in claimed:
            deltas.moved(one.tenant, one.claimed_from, RUNNING, one.id, one.picked_at, one.attempt)
        await deltas.write(tx)
        await lateness.tell_claimed(tx, claimed)
    if len(taken) == len(ids):
        return taken
    # Some are stale; or the claim is asked for again, to learn its fate, and has been told of.
    claimed_now = {one.claimed.id for one in taken}
    others = [one for one in ids if one not in claimed_now]
    asked = {"claim_id": request.claim_id, "chars_max": parameters["chars_max"]}
    return taken + await tx.rows("task_claimed", Taken, ids=others, **asked)


async def _take_each(tx: Transaction, asked: list[Any]) -> list[list[Taken]]:
    return [await take(tx, one.ids, one.request, one.foreseen) for one in asked]


def _alone(asked: list[Any]) -> Alone | None:
    """The same as a single statement, of a file: it writes nothing, if a fire among them is late. Nothing of an earlier
    try is there ever: what a file has not committed is gone."""
    if len(asked) > 1:
        return None
    (one,) = asked

    def read(cell: str) -> list[list[Taken]]:
        return [[taken for claim in decoder(_Claim).decode(cell) for taken in _taken(claim, one.request, one.foreseen)]]

    return Alone("task_claim_told", _parameters(one.ids, one.request, one.foreseen), [], len(one.ids), read)


def _parameters(ids: list[str], request: ClaimRequest, known: Mapping[str, Foreseen]) -> dict[str, Any]:
    """What `task_claim` reads."""
    epochs, was_due = request.epochs, request.was_due
    return {
        "rows": [
            (one, at, epochs[at], was_due.get(one), *_seen(known.get(one))) for one, at in _placed(ids) if at in epochs
        ],
        "epochs": lambda: by_partition(epochs),
        "was_due": was_due or None,
        "incarnation": request.incarnation,
        "node": request.node,
        "claim_id": request.claim_id,
        "now": request.now,
        "early_ms": request.early_ms,
        "start_delay_ms": request.start_delay_ms,
        "margin_ms": request.margin_ms,
        "beat": request.beat,
        "chars_max": max(PAYLOAD_CHARS_SURE, PAYLOADS_CHARS_MAX // max(len(ids), 1)),
    }


def _placed(ids: Iterable[str]) -> Iterable[tuple[str, int]]:
    """Each with its partition, once."""
    return ((one, partition_of(one)) for one in dict.fromkeys(ids))


def _seen(one: Foreseen | None) -> tuple[int | None, int | None, int | None]:
    return (None, None, None) if one is None else (one.version, one.wake_at, one.late_at)


def _taken(claim: _Claim, request: ClaimRequest, known: Mapping[str, Foreseen]) -> list[Taken]:
    """What it took, the foreseen as their rows are now."""
    hexes, epochs = claim.foreseen, request.epochs
    now, until = claim.now, claim.now + request.start_delay_ms + request.margin_ms
    ids = (hexes[at : at + ID_CHARS] for at in range(0, len(hexes), ID_CHARS))
    return [known[one].claimed(now, until, request.claim_id, epochs[partition_of(one)]) for one in ids] + claim.others


# Claims, each as it is asked for; what is answered is what each took.
CLAIM = Batch(
    "claim",
    Lane.FIRE,
    _take_each,
    rows_of=lambda asked: len(asked.ids),
    alone=_alone,
    is_prompt=True,
)


async def read_ahead(tx: Transaction, ids: list[str], chars_max: int) -> list[Foreseen]:
    """What claims of these will bring, of those that wait and whose payloads are small: so many characters at most."""
    found = await tx.rows("task_foreseen", Foreseen, ids=ids, chars_max=chars_max)
    return [one for one in found if one.taken.payload is not None and _is_small(one.taken.payload)]


def _is_small(payload: Payload) -> bool:
    """Whether it takes no more memory than its characters let one expect."""
    target = payload.target
    parts = len(target.headers) + len(target.sealed_headers) + len(payload.retry.delays_ms) + len(target.success)
    return parts <= PARTS_SMALL and (target.body.isascii() or len(target.body) <= WIDE_CHARS_SMALL)


def by_partition(epochs: Mapping[int, int]) -> str:
    """As PostgreSQL reads an array: of each partition in turn, NULL where it is not ours."""
    return f"{{{','.join(str(epochs.get(at, 'NULL')) for at in range(PARTITIONS))}}}"


async def expired_leases(
    tx: Transaction,
    now: int,
    own: list[str],
    limit: int,
    partitions: list[str] | None = None,
    since: int = BEGINNING,
) -> list[Claimed]:
    """Attempts in these partitions whose lease has passed after `since`, but for those in the asker's own hands."""
    if partitions == []:
        return []
    given = {"own": own, "limit": limit, "partitions": partitions, "since": since}
    return await tx.rows("task_expired_leases", Claimed, now=now, **given)


async def orphans(tx: Transaction, limit: int, partitions: list[str] | None = None) -> list[Claimed]:
    """Attempts in these partitions of processes that are proven dead."""
    if partitions == []:
        return []
    return await tx.rows("task_orphans", Claimed, limit=limit, partitions=partitions)
