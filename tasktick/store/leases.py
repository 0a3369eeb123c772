"""Nodes and leases: which incarnation runs, and which partitions it owns under which epoch.

On SQLite the lock on the data folder proves that every other incarnation in the file is dead. On PostgreSQL it proves
that of those which had the lock of the same folder; others are kept out by the lock on the database, and what they may
still be sending is left to the end of its lease. Either way a start takes all partitions at once; the epoch grows with
each acquisition all the same.
"""

from tasktick.model.partition import ALL_PARTITIONS, Lease
from tasktick.store.protocol import Transaction


async def start_node(tx: Transaction, incarnation: str, name: str, now: int, home: str = "") -> None:
    """Record this start; its predecessors on what is locked (the file, the data folder) are dead."""
    await tx.run("nodes_prove_dead", incarnation=incarnation, home=home, now=now)
    await tx.run("node_insert", incarnation=incarnation, name=name, home=home, now=now)


async def acquire(tx: Transaction, incarnation: str) -> dict[int, int]:
    """Take every partition that is free; the epochs of all that this incarnation owns."""
    await tx.run("leases_acquire", partitions=ALL_PARTITIONS, incarnation=incarnation)
    return await owned(tx, incarnation)


async def owned(tx: Transaction, incarnation: str) -> dict[int, int]:
    """Epoch by partition, of this incarnation's."""
    return {lease.partition: lease.epoch for lease in await read(tx) if lease.incarnation == incarnation}


async def read(tx: Transaction) -> list[Lease]:
    """Every lease row."""
    return await tx.rows("leases_read", Lease)


async def end_node(tx: Transaction, incarnation: str, now: int) -> None:
    """Give everything back, and say that this incarnation has ended."""
    await tx.run("leases_release", incarnation=incarnation)
    await tx.run("node_end", incarnation=incarnation, now=now)


async def forget_nodes(tx: Transaction, before: int) -> int:
    """Remove the rows of incarnations that ended long ago and hold nothing."""
    return await tx.run("nodes_forget", before=before)
