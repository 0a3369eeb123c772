"""Which days a recurrence rule lets through, a year at a time: bit n of a mask is set for the nth day, from 0.

What a year lets through depends on the weekday on which it begins, on whether it is a leap year, and, for the weeks
at its ends, on whether its neighbours are. There are few such kinds of year, so a mask is found once for each, and a
search looks at years, not at days.
"""

from calendar import isleap
from collections.abc import Iterable
from datetime import date
from itertools import accumulate

import msgspec

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
YEAR_LAST = 9_998
# The calendar repeats itself after 400 years: what has no day in so many never has one.
YEARS_OF_ALL = 400

_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LEAP_LENGTHS = (31, 29, *_LENGTHS[2:])
_STARTS = tuple(accumulate(_LENGTHS, initial=0))
_LEAP_STARTS = tuple(accumulate(_LEAP_LENGTHS, initial=0))
_EVERY_SEVENTH = sum(1 << day for day in range(0, 371, 7))
_WEEK = (1 << 7) - 1


def day_number(year: int, month: int, day: int) -> int:
    """Days since the epoch."""
    return date(year, month, day).toordinal() - EPOCH_ORDINAL


def year_of(day: int) -> int:
    """The year in which a day lies."""
    return date.fromordinal(day + EPOCH_ORDINAL).year


LAST_DAY = day_number(YEAR_LAST, 12, 31)
_KINDS = tuple(
    date(year, 1, 1).weekday() * 8 + isleap(year - 1) * 4 + isleap(year) * 2 + isleap(year + 1)
    for year in range(2000, 2000 + YEARS_OF_ALL)
)


class DayParts(msgspec.Struct, frozen=True):
    """The parts of a rule that speak of days; an empty one lets every day through."""

    months: frozenset[int]
    month_days: frozenset[int]
    year_days: frozenset[int]
    week_numbers: frozenset[int]
    weekdays: frozenset[int]
    nth_weekdays: frozenset[tuple[int, int]]
    is_of_year: bool
    """The nth weekday is counted in the year, not in the month."""
    week_start: int
    _masks: dict[int, int] = {}

    def of_year(self, year: int) -> int:
        """The days of a year that every part lets through."""
        kind = _KINDS[year % YEARS_OF_ALL]
        kept = self._masks.get(kind)
        if kept is None:
            kept = self._masks[kind] = self._of_kind(2000 + _KINDS.index(kind))
        return kept

    def next_day(self, day: int) -> int | None:
        """The first of these days at or after this one; None if there is none up to the end of calendars."""
        if day > LAST_DAY:
            return None
        year = year_of(day)
        later = self.of_year(year) >> day - day_number(year, 1, 1)
        if later:
            return day + _lowest(later)
        for following in range(year + 1, min(year + YEARS_OF_ALL, YEAR_LAST) + 1):
            mask = self.of_year(following)
            if mask:
                return day_number(following, 1, 1) + _lowest(mask)
        return None

    def between(self, first: int, length: int) -> list[int]:
        """Those of some days that follow each other, a year at most."""
        mask, found = self._of_days(first, length), []
        while mask:
            found.append(first + _lowest(mask))
            mask &= mask - 1
        return found

    def count(self, first: int, beyond: int) -> int:
        """How many there are from one day to before another."""
        if beyond <= first:
            return 0
        years = range(year_of(first), year_of(beyond))
        whole = sum(self.of_year(year).bit_count() for year in years)
        return whole + self._before(beyond) - self._before(first)

    def _before(self, day: int) -> int:
        """How many there are of its year before this day."""
        year = year_of(day)
        return (self.of_year(year) & ((1 << day - day_number(year, 1, 1)) - 1)).bit_count()

    def _of_days(self, first: int, length: int) -> int:
        year = year_of(first)
        begin = day_number(year, 1, 1)
        mask = self.of_year(year) >> first - begin
        rest = begin + 365 + isleap(year) - first
        if rest < length and year < YEAR_LAST:
            mask |= self.of_year(year + 1) << rest
        return mask & ((1 << length) - 1)

    # ------------------------------------------------------------------------------- the mask of a year

    def _of_kind(self, year: int) -> int:
        length, begins_on = 365 + isleap(year), date(year, 1, 1).weekday()
        mask = (1 << length) - 1
        if self.months or self.month_days:
            mask &= self._of_months(year)
        if self.year_days:
            of_year = {day - 1 if day > 0 else length + day for day in self.year_days}
            mask &= _bits(day for day in of_year if 0 <= day < length)
        if self.week_numbers:
            mask &= self._of_weeks(year)
        if self.weekdays or self.nth_weekdays:
            some = 0
            for weekday in self.weekdays:
                some |= _EVERY_SEVENTH << (weekday - begins_on) % 7
            mask &= some | self._of_nth_weekdays(year)
        return mask

    def _of_months(self, year: int) -> int:
        mask = 0
        for month, (start, length) in enumerate(_months_of(year), 1):
            if self.months and month not in self.months:
                continue
            if not self.month_days:
                mask |= ((1 << length) - 1) << start
            for day in self.month_days:
                place = day - 1 if day > 0 else length + day
                if 0 <= place < length:
                    mask |= 1 << start + place
        return mask

    def _of_nth_weekdays(self, year: int) -> int:
        mask, begins_on = 0, date(year, 1, 1).weekday()
        stretches = ((0, 365 + isleap(year)),) if self.is_of_year else _months_of(year)
        for start, length in stretches:
            for weekday, which in self.nth_weekdays:
                first = (weekday - begins_on - start) % 7
                last = first + (length - 1 - first) // 7 * 7
                place = first + 7 * (which - 1) if which > 0 else last + 7 * (which + 1)
                if 0 <= place < length:
                    mask |= 1 << start + place
        return mask

    def _of_weeks(self, year: int) -> int:
        """Weeks of this year, and what of the last of the year before and the first of the next lies in it."""
        mask, begin = 0, day_number(year, 1, 1)
        for of in (year - 1, year, year + 1):
            first = _first_week(of, self.week_start)
            weeks = (_first_week(of + 1, self.week_start) - first) // 7
            for number in self.week_numbers:
                place = number - 1 if number > 0 else weeks + number
                if 0 <= place < weeks:
                    at = first + 7 * place - begin
                    mask |= _WEEK << at if at >= 0 else _WEEK >> -at
        return mask


def _months_of(year: int) -> tuple[tuple[int, int], ...]:
    """With which day of the year each month begins, and how many it has."""
    lengths = _LEAP_LENGTHS if isleap(year) else _LENGTHS
    starts = _LEAP_STARTS if isleap(year) else _STARTS
    return tuple(zip(starts, lengths, strict=False))


def _first_week(year: int, week_start: int) -> int:
    """The day with which week 1 begins: a week is of the year that has at least four of its days."""
    fourth = day_number(year, 1, 4)
    return fourth - (fourth + 3 - week_start) % 7


def _bits(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def _lowest(mask: int) -> int:
    """The number of the lowest bit that is set."""
    return (mask & -mask).bit_length() - 1
