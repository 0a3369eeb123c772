"""Ids: a UUIDv7 (RFC 9562) whose last byte is the partition, as 32 lower-case hex characters.

Bits, from the left: 48 of Unix milliseconds, version 7, a 12-bit count that keeps the ids of one
millisecond in order, variant, 54 random bits, 8 bits of partition. So ids sort by the time they were
made, rows made together lie together on disk, and the owner of a task is read off its id.
On the wire an id wears a prefix (`tsk_`); inside it does not.
"""

import hashlib
from random import Random

from tasktick.errors import not_found

PARTITION_BITS = 8
PARTITIONS = 2**PARTITION_BITS
KEY_PREFIX = "key:"

_COUNT_MAX = 0xFFF
_HEX = frozenset("0123456789abcdef")
ID_CHARS = 32


class IdMaker:
    """Makes ids that grow, from the time and the random source it is given."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._last_ms = -1
        self._count = 0

    def new(self, now_ms: int, partition: int) -> str:
        """A new id in this partition, above every id that this maker has made in this run."""
        if now_ms > self._last_ms:
            self._last_ms, self._count = now_ms, 0
        else:
            self._count += 1
            if self._count > _COUNT_MAX:  # the millisecond is full, or the clock stepped back: borrow the next
                self._last_ms, self._count = self._last_ms + 1, 0
        upper = (self._last_ms << 16) | 0x7000 | self._count
        lower = (0b10 << 62) | (self._random.getrandbits(54) << 8) | partition
        return ((upper << 64) | lower).to_bytes(ID_CHARS // 2, "big").hex()

    def several(self, now_ms: int, count: int) -> list[str]:
        """So many new ones at once, anywhere."""
        return [self.new(now_ms, self._random.getrandbits(PARTITION_BITS)) for _ in range(count)]

    def partition(self, key: str | None, idempotency_key: str | None) -> int:
        """Where a new task lives: by its key, else by its idempotency key, else anywhere."""
        name = key if key is not None else idempotency_key
        return self._random.getrandbits(PARTITION_BITS) if name is None else partition_of_name(name)


def partition_of_name(name: str) -> int:
    """The partition of a name, equal on every node and in every version."""
    return hashlib.sha256(name.encode()).digest()[0]


def partition_of(task_id: str) -> int:
    """The partition that an id carries."""
    return int(task_id[-2:], 16)


def wire(prefix: str, internal: str) -> str:
    """An id as clients see it."""
    return f"{prefix}_{internal}"


def parse(prefix: str, name: str, what: str = "task") -> str:
    """The internal id of a wire id; one that cannot be an id is one that is not here."""
    head, _, internal = name.partition("_")
    if head != prefix or len(internal) != ID_CHARS or not _HEX.issuperset(internal):
        raise not_found(what, name)
    return internal
