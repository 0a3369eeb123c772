"""Nodes and leases: which incarnation runs until when, and which partitions it owns under which epoch.

A node has one row for each start, its term, and renews it; lease rows change with ownership alone. Another may take
a lease when its holder has ended, or its term has: by the database's time. On SQLite the lock on the data folder
proves that every other incarnation in the file is dead. On PostgreSQL it proves that of those which had the lock of
the same folder; what others may still be sending is left to the end of its lease.
"""

from collections.abc import Sequence

import msgspec

from tasktick.model.partition import ALL_PARTITIONS, Lease, NodeRow
from tasktick.store.protocol import Transaction


class Start(msgspec.Struct, frozen=True):
    """What a node says of itself when it starts. Without `ttl_ms` its term has no end."""

    incarnation: str
    name: str
    ttl_ms: int | None = None
    address: str | None = None
    version: str | None = None
    tzdata: str | None = None
    home: str = ""
    """What is locked as long as it lives: the file, the data folder."""
    proves_home: bool = True
    """Whether it alone has that now. Of several processes under one lock, only the first has."""


class Bearing(msgspec.Struct, frozen=True):
    """How a node stands to its store, by its own account."""

    clock_offset_ms: int | None = None
    """How far its clock is ahead of the store's, if that has one."""
    history_regressed: int = 0
    """How often something was missing that had been there."""


class View(msgspec.Struct, frozen=True):
    """Both tables at one instant of the database."""

    now: int
    nodes: list[NodeRow]
    leases: list[Lease]
    timeline: str = ""
    """Of the history that this is in: a failover begins another."""


async def start_node(tx: Transaction, start: Start, now: int) -> None:
    """Record this start; its predecessors on what is locked (the file, the data folder) are dead."""
    if start.proves_home:
        await tx.run("nodes_prove_dead", incarnation=start.incarnation, home=start.home, now=now)
    await join(tx, start, now)


async def prove_dead(tx: Transaction, now: int) -> None:
    """Whoever had this file before is dead: the lock on it is ours, and we are no node."""
    await tx.run("nodes_prove_dead", incarnation="", home="", now=now)


async def join(tx: Transaction, start: Start, now: int) -> None:
    """Record this start beside those of others."""
    await tx.run("node_insert", **msgspec.structs.asdict(start), now=now)


async def renew(
    tx: Transaction, incarnation: str, beat: int, ttl_ms: int, now: int, bearing: Bearing | None = None
) -> bool:
    """Prolong this node's term; false if the term is not the one that was seen.

    A holder may renew a term that has expired and that nobody took: what it still owns is in the view.
    """
    said = msgspec.structs.asdict(bearing or Bearing())
    return await tx.run("node_renew", incarnation=incarnation, beat=beat, ttl_ms=ttl_ms, now=now, **said) > 0


async def begin_anew(tx: Transaction, before: str, start: Start, now: int) -> None:
    """Go on as another incarnation. What the one before it sends is still being sent: it is not dead."""
    await leave(tx, before, now)
    await join(tx, start, now)


async def view(tx: Transaction, now: int) -> View:
    """How things stand. Who has a store of its own clock is told that one's time, not `now`."""
    now = int(await time(tx, now))
    nodes = await tx.rows("nodes_read", NodeRow, now=now)
    return View(now, nodes, await read(tx))


async def view_of_renewed(tx: Transaction, now: int) -> View:
    """How things stand, and in which history, as of a time that the store has just told."""
    nodes = await tx.rows("nodes_read", NodeRow, now=now)
    return View(now, nodes, await read(tx), await timeline(tx))


async def time(tx: Transaction, now: int) -> float:
    """The store's time: that of its server, to the part of a millisecond, or, where it has none, the caller's."""
    return (await tx.rows("clock_read", float, now=now))[0]


async def timeline(tx: Transaction) -> str:
    """Which history is being written."""
    return (await tx.rows("history_read", str))[0]


async def acquire(
    tx: Transaction, incarnation: str, now: int, partitions: Sequence[int] = ALL_PARTITIONS
) -> dict[int, int]:
    """Take those that are free and that no open claim holds; the epochs of all that this incarnation owns."""
    await tx.run("leases_acquire", partitions=partitions, incarnation=incarnation, now=now)
    return await owned(tx, incarnation)


async def owned(tx: Transaction, incarnation: str) -> dict[int, int]:
    """Epoch by partition, of this incarnation's."""
    return {lease.partition: lease.epoch for lease in await read(tx) if lease.incarnation == incarnation}


async def read(tx: Transaction) -> list[Lease]:
    """Every lease row."""
    return await tx.rows("leases_read", Lease)


async def release(tx: Transaction, incarnation: str, partitions: Sequence[int], now: int) -> int:
    """Give these back; how many it had."""
    return await tx.run("leases_release", incarnation=incarnation, partitions=partitions, now=now)


async def request(tx: Transaction, incarnation: str, partitions: Sequence[int]) -> None:
    """Ask the holders of these for them."""
    await tx.run("leases_request", incarnation=incarnation, partitions=partitions)


async def withdraw(tx: Transaction, incarnation: str, partitions: Sequence[int]) -> None:
    """Ask for these no more."""
    await tx.run("leases_withdraw", incarnation=incarnation, partitions=partitions)


async def take_turn_to_drain(tx: Transaction) -> None:
    """Until this transaction ends, nobody else drains a node: who would be left is as it is read from here on."""
    await tx.rows("drain_turn", bool | int)  # type: ignore[arg-type] # a union


async def drain(tx: Transaction, name: str, now: int) -> None:
    """This node is to own nothing, until it is said otherwise."""
    await tx.run("node_drain", name=name, now=now)


async def undrain(tx: Transaction, name: str) -> None:
    """This node takes its share again."""
    await tx.run("node_undrain", name=name)


async def leave(tx: Transaction, incarnation: str, now: int) -> None:
    """Give everything back, and take nothing more: this incarnation is about to end."""
    await tx.run("node_leave", incarnation=incarnation)
    await tx.run("leases_release", incarnation=incarnation, partitions=None, now=now)


async def end_node(tx: Transaction, incarnation: str, now: int) -> None:
    """Give everything back, and say that this incarnation has ended."""
    await tx.run("leases_release", incarnation=incarnation, partitions=None, now=now)
    await tx.run("node_end", incarnation=incarnation, now=now)


async def forget_nodes(tx: Transaction, before: int) -> int:
    """Remove the rows of incarnations that ended long ago and hold nothing."""
    return await tx.run("nodes_forget", before=before)
