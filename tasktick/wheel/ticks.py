"""Ticks, slots and levels: the arithmetic of the wheel, and how an entry is packed into one integer."""

SLOT_BITS = 8
SLOTS = 1 << SLOT_BITS
SLOT_MASK = SLOTS - 1

# Six levels of 256 slots of 1 ms cover 2^48 ms: every instant until the year 10889, counted from the
# epoch itself. So no slot is ever used for two turns, and nothing wraps.
LEVELS = 6
LAST_TICK = (1 << (SLOT_BITS * LEVELS)) - 1

KEY_BITS = 128
KEY_MASK = (1 << KEY_BITS) - 1


# The level on which an entry waits is that of the highest digit (base 256) in which its due time and the
# wheel's time differ; here it is by the length of `due ^ elapsed` in bits.
LEVEL_BY_LENGTH = tuple(max(length - 1, 0) // SLOT_BITS for length in range(SLOT_BITS * LEVELS + 1))


def pack(key: int, due_ms: int) -> int:
    """One integer for both, ordered by due time and then by key."""
    return due_ms << KEY_BITS | key


def due_of(entry: int) -> int:
    """The due time of a packed entry."""
    return entry >> KEY_BITS
