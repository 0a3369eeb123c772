"""The near future in memory: a wheel of ids and times, and the rows of what is due within seconds. Pure.

`loaded_until` is how far the wheel knows the store: what is due later is left to the loader, and so is what a full
wheel does not take, until it is near. What comes in through here is a hint and may be doubled; the wheel folds
equal entries, the claim settles the rest.
"""

from collections.abc import Iterable, Sequence

from tasktick.model.task import Due, Timer
from tasktick.wheel.wheel import Wheel

NEAR_ROWS_MAX = 50_000


class Horizon:
    """What will be due, and when to look next. It comes out `early_ms` ahead, to be claimed and sent on time."""

    def __init__(self, now: int, *, early_ms: int, near_ms: int, timers_max: int) -> None:
        # Its clock is ahead of ours by as much as we are early.
        self._wheel = Wheel(now + early_ms)
        self._timers_max = timers_max
        # By the number that stands for them in the wheel.
        self._near: dict[int, Due] = {}
        self.early_ms = early_ms
        self._near_ms = near_ms
        self.loaded_until = now

    def __len__(self) -> int:
        return len(self._wheel)

    @property
    def is_full(self) -> bool:
        """Whether the wheel holds as much as it may: it then takes only what is near."""
        return len(self._wheel) >= self._timers_max

    def takes_until(self, now: int) -> int:
        """Until when it takes what is due; what comes later is left to the loader."""
        near_until = now + self._near_ms
        return near_until if self.is_full else max(near_until, self.loaded_until)

    def add(self, rows: Iterable[Due], now: int) -> int:
        """Take in waiting tasks, as far as the wheel reaches; how many it took."""
        near_until = now + self._near_ms
        known_until = self.takes_until(now)
        entries: list[tuple[int, int]] = []
        for row in rows:
            if row.wake_at > known_until:
                continue
            key = int(row.id, 16)
            known = self._near.get(key)
            if known is not None and known.wake_at == row.wake_at:
                continue
            if row.wake_at <= near_until and len(self._near) < NEAR_ROWS_MAX:
                self._near[key] = row
            entries.append((row.wake_at, key))
        self._wheel.insert_many(entries)
        return len(entries)

    def add_timers(self, times: Sequence[int], keys: Sequence[int]) -> None:
        """Take in what the loader has read of the further future: instants, and the numbers of ids."""
        self._wheel.insert_many(zip(times, keys, strict=True))

    def hear(self, timers: Iterable[Timer], now: int) -> int:
        """Take in what others say waits, as far as the wheel reaches; its row is read when its time has come."""
        known_until = self.takes_until(now)
        heard = [timer for timer in timers if timer.wake_at <= known_until]
        self.add_timers([timer.wake_at for timer in heard], [int(timer.id, 16) for timer in heard])
        return len(heard)

    def forget(self, task_id: str) -> None:
        """The task no longer waits, or waits for another time; its entry in the wheel comes out as nothing."""
        self._near.pop(int(task_id, 16), None)

    def expire(self, now: int) -> tuple[list[Due], list[str]]:
        """What is to be picked up now: the rows that are known, and the ids whose rows must be read."""
        known: list[Due] = []
        unknown: list[str] = []
        near, until = self._near, now + self.early_ms
        for key in self._wheel.advance(until):
            row = near.get(key)
            if row is None:
                unknown.append(f"{key:032x}")
            elif row.wake_at <= until:
                del near[key]
                known.append(row)
        return known, unknown

    def next_look(self) -> int | None:
        """When `expire` has something to do, at the earliest; None if nothing waits."""
        expiry = self._wheel.next_expiry()
        return None if expiry is None else expiry - self.early_ms
