"""A hierarchical timing wheel (Varghese and Lauck, 1987) on absolute milliseconds.

Write instants in base 256. An entry waits on the level of the highest digit in which its due time
differs from the wheel's own time, in the slot of its digit there: what is due within the same 256 ms
waits on level 0, where a slot is one millisecond; what is due within the same 65 s on level 1, where a
slot is 256 ms; and so on, up to level 5, whose slots are 35 years. When the wheel's time reaches the
start of a slot of a higher level, the slot's entries are filed anew, each on a lower level: the digit
in which they differed is now equal. So an entry moves at most five times in its life, an insert is
constant work, and as all digits above an entry's level are equal to the wheel's, the lowest level that
holds anything holds the earliest entry, and its lowest slot is the earliest.

Time that nothing waits in costs nothing: the wheel goes from occupied slot to occupied slot. A slot
that lies wholly in the past (the process was suspended, the clock was set forward) is sorted and handed
out as it is, not filed down level by level. So is a slot of one millisecond: ids are ordered by their
time of creation, and neighbours in the order of the store's index make cheaper batches.

A slot is a list of integers, `due << 128 | key`. Three ways to hold a million entries over ten minutes,
measured on Python 3.11 (to file an entry and to move it down to its millisecond; bytes by tracemalloc):

    lists of packed integers       0.65 us    57 B
    array('Q') of three words      1.18 us    25 B
    bytearray of 24-byte records   1.37 us    26 B

Lists it is: every task passes through here while it is being fired, and a full wheel of a million is
57 MB. Should memory ever matter more than half a microsecond, the arrays are a change to `Level` and to
`Wheel._file`. The collector has nothing to follow in either: integers are not tracked.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from tasktick.wheel.level import Level
from tasktick.wheel.ticks import (
    KEY_BITS,
    KEY_MASK,
    LAST_TICK,
    LEVEL_BY_LENGTH,
    LEVELS,
    SLOT_MASK,
    due_of,
    pack,
)


class Wheel:
    """Keys by due time; see the package for what it promises.

    A key may wait for several instants at once and comes out at each. The same key for the same instant
    counts as one: the loader reads the near future again each second, and need not remember what it has
    inserted. (Doubles fold together when their slot is due; until then `len` counts each.)
    """

    __slots__ = ("_behind", "_count", "_elapsed_ms", "_levels")

    def __init__(self, now_ms: int) -> None:
        self._elapsed_ms = min(max(now_ms, 0), LAST_TICK)
        self._levels = [Level(number) for number in range(LEVELS)]
        # What was inserted at or behind the wheel's time: a heap, as only a clock that was set back
        # makes any of it wait, and then each for its own instant.
        self._behind: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def insert(self, key: int, due_ms: int) -> None:
        """Hold a key until it is due; what is due already comes out of the next `advance`."""
        self.insert_many(((due_ms, key),))

    def insert_many(self, entries: Iterable[tuple[int, int]]) -> None:
        """Insert pairs of (due_ms, key). Fastest in order of due time, which is how an index is read."""
        elapsed_ms = self._elapsed_ms
        inserted = 0
        # Of the last one: the slot, and what its due time was divided by to find it. Neighbours share it.
        slot: list[int] = []
        shift = 0
        quotient: int | None = None
        try:
            for due_ms, key in entries:
                if key >> KEY_BITS:
                    raise ValueError(f"a key is a number of 128 bits, this is not: {key:#x}")
                if due_ms >> shift != quotient:
                    if due_ms <= elapsed_ms:
                        heappush(self._behind, due_ms << KEY_BITS | key)
                        inserted += 1
                        continue
                    # An instant after the last tick (in the year 10889) waits for the last tick.
                    due_ms = min(due_ms, LAST_TICK)
                    slot, shift = self._slot_for(due_ms)
                    quotient = due_ms >> shift
                slot.append(due_ms << KEY_BITS | key)
                inserted += 1
        finally:
            self._count += inserted

    def advance(self, now_ms: int) -> list[int]:
        """Move to `now_ms`; return the keys due at or before it, by due time and key, each once."""
        due = self._take_behind(now_ms)
        if now_ms > self._elapsed_ms:
            self._take_passed(min(now_ms, LAST_TICK), due)
        if not due:
            return due
        self._count -= len(due)
        return list(dict.fromkeys([entry & KEY_MASK for entry in due]))

    def next_expiry(self) -> int | None:
        """When to advance next: the earliest due time, or an instant before it; None if nothing waits.

        It is exact for what is due within the present 256 ms or behind the wheel's time, and otherwise
        the start of the slot in which the earliest entry waits.
        """
        if self._behind:
            return due_of(self._behind[0])
        for level in self._levels:
            if level.occupied:
                return level.start_of(level.earliest(), self._elapsed_ms)
        return None

    def _take_behind(self, now_ms: int) -> list[int]:
        """What was inserted behind the wheel's time and is due at `now_ms`, packed, in order."""
        behind = self._behind
        if not behind:
            return []
        if now_ms >= self._elapsed_ms:
            self._behind = []
            behind.sort()
            return behind
        # The clock was set back: nothing goes before its time by the clock that there is now.
        due: list[int] = []
        end = pack(0, now_ms + 1)
        while behind and behind[0] < end:
            due.append(heappop(behind))
        return due

    def _take_passed(self, now_ms: int, due: list[int]) -> None:
        """Empty every slot that starts at or before `now_ms`: append what is due, file the rest anew."""
        while (level := self._lowest_level()) is not None:
            index = level.earliest()
            start_ms = level.start_of(index, self._elapsed_ms)
            if start_ms > now_ms:
                break
            # Filing is relative to the wheel's time: move it first.
            self._elapsed_ms = start_ms
            held = level.take(index)
            last_ms = start_ms + (1 << level.shift) - 1
            if last_ms <= now_ms:
                held.sort()
                due += held
            else:
                self._file(held)
        self._elapsed_ms = now_ms

    def _slot_for(self, due_ms: int) -> tuple[list[int], int]:
        """Where an instant ahead waits, which from now on is occupied, and the shift of that level."""
        level = self._levels[LEVEL_BY_LENGTH[(due_ms ^ self._elapsed_ms).bit_length()]]
        index = due_ms >> level.shift & SLOT_MASK
        level.occupied |= 1 << index
        return level.slots[index], level.shift

    def _file(self, entries: Iterable[int]) -> None:
        """Put packed entries, none due before the wheel's time, where they wait: the hottest loop here."""
        elapsed_ms = self._elapsed_ms
        levels = self._levels
        for entry in entries:
            due_ms = entry >> KEY_BITS
            level = levels[LEVEL_BY_LENGTH[(due_ms ^ elapsed_ms).bit_length()]]
            index = due_ms >> level.shift & SLOT_MASK
            slot = level.slots[index]
            if not slot:
                level.occupied |= 1 << index
            slot.append(entry)

    def _lowest_level(self) -> Level | None:
        """The lowest level that holds anything: it has the earliest entry."""
        for level in self._levels:
            if level.occupied:
                return level
        return None
