"""Who owns what: partitions are the unit of ownership, a term is the proof."""

import msgspec

from tasktick.model.ids import PARTITIONS

ALL_PARTITIONS = tuple(range(PARTITIONS))


class Term(msgspec.Struct, frozen=True):
    """(epoch, incarnation) of a lease. Equal or not: an epoch alone can be issued twice after a failover."""

    epoch: int
    incarnation: str


class Lease(msgspec.Struct, frozen=True):
    """The row that says who owns a partition, under which term."""

    partition: int
    epoch: int
    incarnation: str | None
