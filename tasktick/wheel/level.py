"""One level of the wheel: 256 slots, and a mask that says which of them hold anything."""

from tasktick.wheel.ticks import SLOT_BITS, SLOTS


class Level:
    """Slots of `1 << shift` milliseconds each; slot i holds the due times whose digit here is i.

    The mask has bit i set exactly when slot i is not empty, so the earliest slot is one bit operation
    away. It is the earliest in time too: the wheel keeps here only what lies ahead within the present
    turn of this level, so indices grow with time.
    """

    __slots__ = ("occupied", "shift", "slots")

    def __init__(self, number: int) -> None:
        self.shift = SLOT_BITS * number
        self.occupied = 0
        self.slots: list[list[int]] = [[] for _ in range(SLOTS)]

    def earliest(self) -> int:
        """The index of the first slot that holds anything; the level must not be empty."""
        return (self.occupied & -self.occupied).bit_length() - 1

    def take(self, index: int) -> list[int]:
        """Empty a slot and return what it held."""
        held = self.slots[index]
        self.slots[index] = []
        self.occupied &= ~(1 << index)
        return held

    def start_of(self, index: int, elapsed_ms: int) -> int:
        """The first instant of a slot, in the turn of this level in which `elapsed_ms` lies."""
        turn = self.shift + SLOT_BITS
        return elapsed_ms >> turn << turn | index << self.shift
