"""Who owns what: partitions are the unit of ownership, a term is the proof.

A term is (epoch, incarnation), compared for equality: after a failover an epoch alone can be issued twice.
"""

import msgspec

from tasktick.model.ids import PARTITIONS

ALL_PARTITIONS = tuple(range(PARTITIONS))


class Lease(msgspec.Struct, frozen=True):
    """The row that says who owns a partition, under which term (epoch, incarnation).

    `wanted_by` has asked for it; `free_since` is the database's instant of its release.
    """

    partition: int
    epoch: int
    incarnation: str | None = None
    wanted_by: str | None = None
    free_since: int | None = None


class NodeRow(msgspec.Struct, frozen=True):
    """One start of a node, as the database has it. Instants are the database's. One that leaves is drained too."""

    incarnation: str
    name: str
    expires_at: int
    drained: bool = False
    started_at: int = 0
    address: str | None = None
    version: str | None = None
    tzdata: str | None = None
    dead_at: int | None = None
    leaving: bool = False
    clock_offset_ms: int | None = None
    history_regressed: int = 0
