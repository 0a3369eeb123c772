"""Who owns what: partitions are the unit of ownership, a term is the proof.

A term is (epoch, incarnation), compared for equality: after a failover an epoch alone can be issued twice.
"""

import msgspec

from tasktick.model.ids import PARTITIONS

ALL_PARTITIONS = tuple(range(PARTITIONS))


class Lease(msgspec.Struct, frozen=True):
    """The row that says who owns a partition, under which term (epoch, incarnation)."""

    partition: int
    epoch: int
    incarnation: str | None
