"""Checks and their pings in the store.

Rows that are to be written are read held, so that what is decided about them still holds when it is written: a ping and
a look at the same check come one after the other, whichever node they come from, and each turn is told once.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tasktick.errors import Refused, not_found
from tasktick.model.checkin import Away, Check, Ping
from tasktick.model.ids import KEY_PREFIX, parse, wire
from tasktick.store import names
from tasktick.store.protocol import Transaction, only
from tasktick.store.rows import Name, columns

CHECK, PREFIX = "check", "chi"
LATE, DOWN, UP, FAILED = "check.late", "check.down", "check.up", "check.failed"
PAUSED, RESUMED = "check.paused", "check.resumed"
TYPES = (LATE, DOWN, UP, FAILED, PAUSED, RESUMED)
# A check keeps so many of its pings, and a tenant has so many checks.
PINGS_KEPT = 1_000
CHECKS_MAX = 10_000
BEYOND_ALL = 2**62
STANDING = (
    "id",
    "updated_at",
    "status",
    "status_at",
    "reason",
    "anchor_at",
    "expected_at",
    "runs",
    "failures",
    "pings",
    "last_ping_at",
    "last_ping_kind",
    "last_success_at",
    "last_duration_ms",
    "next_at",
)


class CheckFilter(msgspec.Struct, frozen=True):
    """What a client may filter checks by; None does not filter."""

    status: str | None = None
    paused: bool | None = None
    tag_name: str | None = None
    tag_value: str | None = None
    text: str | None = None


class Watched(msgspec.Struct, frozen=True, array_like=True):
    """When anybody was last there, and the last time that nobody was."""

    seen_at: int = 0
    away_from: int | None = None
    away_until: int | None = None

    @property
    def away(self) -> Away | None:
        """When nobody was there."""
        if self.away_from is None or self.away_until is None:
            return None
        return Away(self.away_from, self.away_until)


async def create(tx: Transaction, check: Check) -> None:
    """Make a check, whose key is its own as long as it exists."""
    (count,) = await tx.rows("checks_count", int, tenant=check.tenant, limit=CHECKS_MAX)
    if count >= CHECKS_MAX:
        raise Refused("quota_exceeded", f"A tenant has at most {CHECKS_MAX} checks. Delete some.")
    if check.key is not None:
        held = await names.find(tx, check.tenant, CHECK, check.key)
        if held is not None:
            holder = wire(PREFIX, held.object_id)
            detail = f"The key {check.key!r} belongs to the check {holder}. Change that one, or choose another key."
            raise Refused("key_taken", detail, errors=[("/key", f"taken by {holder}")])
        row = Name(check.tenant, CHECK, check.key, check.id, check.created_at)
        await names.take(tx, [row])
    await tx.run("check_watch_begin", now=check.created_at)
    await tx.run("check_insert", rows=[_definition_row(check)])


async def define(tx: Transaction, check: Check) -> None:
    """Write what a client says about it, and where it stands since."""
    await tx.run("check_define", rows=[_definition_row(check)])
    await stand(tx, [check])


async def stand(tx: Transaction, checks: Iterable[Check]) -> None:
    """Write where these stand; they are held by this transaction."""
    rows = [_standing_row(one) for one in checks]
    if rows:
        await tx.run("check_stand", rows=rows)


def _standing_row(check: Check) -> list[Any]:
    row = [getattr(check, name) for name in STANDING]
    row[STANDING.index("runs")] = msgspec.json.encode(check.runs).decode()
    return row


def _definition_row(check: Check) -> dict[str, Any]:
    row = columns(check)
    row["tags"] = msgspec.json.encode(check.tags).decode()
    row["rule"] = None if check.rule is None else msgspec.json.encode(check.rule).decode()
    del row["runs"]
    return row


async def resolve(tx: Transaction, tenant: str, name: str) -> str:
    """The internal id of `chi_…` or `key:…`."""
    if not name.startswith(KEY_PREFIX):
        return parse(PREFIX, name, CHECK)
    held = await names.find(tx, tenant, CHECK, name.removeprefix(KEY_PREFIX))
    if held is None:
        raise not_found(CHECK, name)
    return held.object_id


async def read(tx: Transaction, tenant: str, ids: list[str]) -> list[Check]:
    """Checks of this tenant, in the order asked for."""
    found = {one.id: one for one in await tx.rows("checks_read", Check, ids=ids, tenant=tenant)}
    return [found[one] for one in ids if one in found]


async def find(tx: Transaction, tenant: str, name: str) -> Check:
    """One check of this tenant by id or key, or the refusal."""
    found = only(await read(tx, tenant, [await resolve(tx, tenant, name)]))
    if found is None:
        raise not_found(CHECK, name)
    return found


async def held(tx: Transaction, ids: Sequence[str]) -> list[Check]:
    """These, to be written by this transaction."""
    return await tx.rows("checks_held", Check, ids=sorted(ids))


async def held_one(tx: Transaction, tenant: str, name: str) -> Check:
    """One check of this tenant, to be written by this transaction, or the refusal."""
    found = only([one for one in await held(tx, [await resolve(tx, tenant, name)]) if one.tenant == tenant])
    if found is None:
        raise not_found(CHECK, name)
    return found


async def held_by_ping(tx: Transaction, hashes: Iterable[str]) -> list[Check]:
    """Whose pings these are, to be written by this transaction."""
    return await tx.rows("checks_held_by_ping", Check, hashes=sorted(set(hashes)))


async def is_known(tx: Transaction, ping_hash: str) -> bool:
    """Whether a check is pinged by this."""
    return bool(await tx.rows("check_known", str, ping_hash=ping_hash))


async def ids_page(tx: Transaction, tenant: str, by: CheckFilter, beyond: str | None, limit: int) -> list[str]:
    """Ids of a tenant's checks that match, the newest first."""
    wanted = {name: getattr(by, name) for name in CheckFilter.__struct_fields__}
    return await tx.rows("check_ids_page", str, tenant=tenant, beyond=beyond or "~", limit=limit, **wanted)


async def due(tx: Transaction, now: int, limit: int, partitions: list[str] | None = None) -> list[str]:
    """Checks of these partitions (all, if None) that want to be looked at by now."""
    if partitions == []:
        return []
    return await tx.rows("checks_due", str, now=now, limit=limit, partitions=partitions)


async def watched(tx: Transaction) -> Watched:
    """When anybody was there to hear pings."""
    return only(await tx.rows("check_watch_read", Watched)) or Watched()


async def note_seen(tx: Transaction, now: int, away_after_ms: int) -> None:
    """Somebody is there now."""
    await tx.run("check_watch_seen", now=now, away_after_ms=away_after_ms)


async def delete(tx: Transaction, check: Check) -> None:
    """Remove a check with its pings."""
    await tx.run("names_free", kind=CHECK, ids=[check.id])
    await tx.run("check_delete", id=check.id)


async def keep(tx: Transaction, pings: Sequence[Ping]) -> None:
    """Keep these pings, and let go those that a check has too many of."""
    await tx.run("pings_insert", rows=[columns(one) for one in pings])
    latest = {one.check_id: one.number for one in pings}
    rows = [[name, number - PINGS_KEPT] for name, number in sorted(latest.items()) if number > PINGS_KEPT]
    if rows:
        await tx.run("pings_trim", rows=rows)


async def pings(tx: Transaction, check_id: str, kind: str | None, beyond: int, limit: int) -> list[Ping]:
    """Pings of a check, the latest first."""
    return await tx.rows("pings_page", Ping, check_id=check_id, kind=kind, beyond=beyond, limit=limit)


async def purge(tx: Transaction, before: int, limit: int) -> int:
    """Remove some pings that are old; how many."""
    return await tx.run("pings_purge", before=before, limit=limit)
