"""How partitions move to where placement puts them: what to request, to take, to give up.

A partition moves from a living owner only on request: the heir writes its request on the lease row, the owner stops
and releases it, the heir takes it. A view that is older or newer than another's delays a move; it never leaves a
partition to nobody, since an owner gives up only what its heir waits for. Safety is the epoch's, not this plan's.
"""

from collections.abc import Iterable

import msgspec

from tasktick.cluster.ring import live, placement
from tasktick.model.partition import Lease, NodeRow

# A partition that was free for so many TTLs may be taken by anyone: whoever should take it does not.
FREE_TTLS = 2


class HandOver(msgspec.Struct, frozen=True):
    """Stop, flush, release: this incarnation waits for it."""

    partition: int
    to: str


class Plan(msgspec.Struct, frozen=True):
    """What to do next, each in order of partition. What it says to acquire may be taken by another meanwhile."""

    # Write our request on these rows.
    request: tuple[int, ...] = ()
    # Remove it: they are not ours to want any more.
    withdraw: tuple[int, ...] = ()
    acquire: tuple[int, ...] = ()
    hand_over: tuple[HandOver, ...] = ()


def plan(nodes: Iterable[NodeRow], leases: Iterable[Lease], me: str, now: int, ttl_ms: int) -> Plan:
    """What this incarnation should do, by one view of both tables at one instant of the database.

    One whose own term has expired does nothing: it must renew first, and it may have lost everything.
    """
    rows = {node.incarnation: node for node in nodes}
    living = live(rows.values(), now)
    if me not in living:
        return Plan()
    owners = placement(rows.values(), now)
    request, withdraw, acquire, hand_over = [], [], [], []
    for lease in sorted(leases, key=lambda lease: lease.partition):
        heir = owners.get(lease.partition)
        held = lease.incarnation is not None and lease.incarnation in living
        if lease.wanted_by == me and heir != me:
            withdraw.append(lease.partition)
        if lease.incarnation == me:
            if heir is not None and heir != me and lease.wanted_by == heir:
                hand_over.append(HandOver(lease.partition, heir))
        elif heir == me:
            if not held:
                acquire.append(lease.partition)
            elif lease.wanted_by != me:
                request.append(lease.partition)
        elif not held and not living[me].drained and _free_for_ms(lease, rows, now) >= FREE_TTLS * ttl_ms:
            acquire.append(lease.partition)
    return Plan(tuple(request), tuple(withdraw), tuple(acquire), tuple(hand_over))


def _free_for_ms(lease: Lease, rows: dict[str, NodeRow], now: int) -> int:
    """For how long nobody has owned it: since its release, or since the term of its holder expired.

    What is not known to have been free for a time has been free for none: its heir takes it at once anyway.
    """
    if lease.incarnation is None:
        return now - lease.free_since if lease.free_since is not None else 0
    holder = rows.get(lease.incarnation)
    return now - holder.expires_at if holder is not None else 0
