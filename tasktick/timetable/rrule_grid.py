"""Rules of less than a day: a grid of equal steps from the start, of which the parts let some readings through.

Where a step is no whole part of a day, the grid meets other times of the day on other days, and begins again after a
cycle of days. It is solved on which of them it meets any that is let through, so that nothing is walked through.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from math import gcd

import msgspec

from tasktick.timetable.rrule_days import LAST_DAY, DayParts

UNITS_S = {"HOURLY": 3_600, "MINUTELY": 60, "SECONDLY": 1}
DAY_S = 86_400
TIMES_KEPT_MAX = 256


class Times(msgspec.Struct, frozen=True):
    """What is let through of a day, and in which steps the grid goes through it."""

    unit_s: int
    step_s: int
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every second of the day is let through."""
        return len(self.hours) * len(self.minutes) * len(self.seconds) == DAY_S

    @property
    def units(self) -> Sequence[int]:
        """The seconds of a day at which a unit begins that is let through."""
        if self.is_whole:
            return range(0, DAY_S, self.unit_s)
        minutes = (0,) if self.unit_s == 3_600 else self.minutes
        seconds = (0,) if self.unit_s > 1 else self.seconds
        hours = [hour * 3_600 + minute * 60 for hour in self.hours for minute in minutes]
        return array("i", [one + second for one in hours for second in seconds])


class Grid(msgspec.Struct, frozen=True):
    """A grid, and what is let through of it."""

    start_s: int
    """A unit begins there."""
    times: Times
    cycle: int
    """After so many days it meets the same times of the day again."""
    met_on: Sequence[int]
    """The days since the epoch, by their remainder of a cycle, on which it meets any that is let through."""

    @property
    def meets(self) -> bool:
        """Whether it meets any at all."""
        return bool(self.met_on)

    def next(self, days: DayParts, from_s: int) -> int | None:
        """The first reading at or after this one that is let through; None if there is none."""
        day, second = divmod(from_s, DAY_S)
        while True:
            found = self._next_day(days, day)
            if found is None:
                return None
            times = self._times_of(found)
            index = bisect_left(times, second) if found == day else 0
            if index < len(times):
                return found * DAY_S + times[index]
            day, second = found + 1, 0

    def count(self, days: DayParts, low: int, high: int) -> int:
        """How many readings are let through from one to before another."""
        (first, first_s), (last, last_s) = divmod(low, DAY_S), divmod(high, DAY_S)
        counted = -bisect_left(self._times_of(first), first_s) if days.next_day(first) == first else 0
        if last_s and days.next_day(last) == last:
            counted += bisect_left(self._times_of(last), last_s)
        if self.cycle == 1:
            return counted + days.count(first, last) * len(self._times_of(first))
        lengths: dict[int, int] = {}
        day = self._next_day(days, first)
        while day is not None and day < last:
            place = day % self.cycle
            if place not in lengths:
                lengths[place] = len(self._times_of(day))
            counted += lengths[place]
            day = self._next_day(days, day + 1)
        return counted

    def _next_day(self, days: DayParts, day: int) -> int | None:
        """The first day at or after this one that is let through, and on which the grid meets a time."""
        while day <= LAST_DAY:
            found = days.next_day(day)
            if found is None:
                return None
            day = self._met_from(found)
            if day == found:
                return found
        return None

    def _met_from(self, day: int) -> int:
        """The first day at or after this one on which the grid meets a time that is let through."""
        cycle = self.cycle
        if len(self.met_on) == cycle:
            return day
        remainder = day % cycle
        index = bisect_left(self.met_on, remainder)
        if index < len(self.met_on):
            return day + self.met_on[index] - remainder
        return day + cycle - remainder + self.met_on[0]

    def _times_of(self, day: int) -> Sequence[int]:
        return _times(self.times, (self.start_s - day * DAY_S) % self.times.step_s)


def grid(start_s: int, times: Times) -> Grid:
    """A grid that starts in the unit of a reading: what is finer is said by the parts, or taken from the start."""
    start_s = start_s // times.unit_s * times.unit_s
    apart = gcd(times.step_s, DAY_S)
    cycle = times.step_s // apart
    if times.is_whole and times.step_s <= DAY_S:
        return Grid(start_s, times, cycle, range(cycle))
    # A time of the day is met by the days for which  day * DAY_S + time - start_s  is a multiple of the step.
    inverse = pow(DAY_S // apart, -1, cycle)
    met = {(start_s - one) // apart * inverse % cycle for one in times.units if (start_s - one) % apart == 0}
    return Grid(start_s, times, cycle, array("i", sorted(met)))


@lru_cache(maxsize=TIMES_KEPT_MAX)
def _times(times: Times, phase: int) -> Sequence[int]:
    """The seconds of a day with which a grid begins there that are let through."""
    if times.is_whole and times.unit_s == 1:
        return range(phase, DAY_S, times.step_s)
    hours, minutes, seconds = set(times.hours), set(times.minutes), set(times.seconds)
    met = array("i")
    for second in range(phase, DAY_S, times.step_s):
        if second // 3_600 not in hours:
            continue
        if times.unit_s == 3_600:
            met.extend(second + minute * 60 + one for minute in times.minutes for one in times.seconds)
        elif second // 60 % 60 in minutes:
            if times.unit_s == 60:
                met.extend(second + one for one in times.seconds)
            elif second % 60 in seconds:
                met.append(second)
    return met
