"""Which days a recurrence rule lets through: each part that speaks of days, asked about one day."""

from calendar import isleap, monthrange
from datetime import date

import msgspec

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


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

    def let_through(self, day: int) -> bool:
        """Whether every part that speaks of days lets this one through."""
        moment = date.fromordinal(day + EPOCH_ORDINAL)
        if self.months and moment.month not in self.months:
            return False
        length = monthrange(moment.year, moment.month)[1]
        if self.month_days and self.month_days.isdisjoint((moment.day, moment.day - length - 1)):
            return False
        if self.year_days:
            of_year = day - day_number(moment.year, 1, 1) + 1
            if self.year_days.isdisjoint((of_year, of_year - 366 - isleap(moment.year))):
                return False
        if self.week_numbers and self.week_numbers.isdisjoint(_week(day, self.week_start)):
            return False
        if not self.weekdays and not self.nth_weekdays:
            return True
        if moment.weekday() in self.weekdays:
            return True
        if not self.nth_weekdays:
            return False
        if self.is_of_year:
            place, length = day - day_number(moment.year, 1, 1), 365 + isleap(moment.year)
        else:
            place = moment.day - 1
        before, after = place // 7 + 1, -((length - 1 - place) // 7 + 1)
        return not self.nth_weekdays.isdisjoint(((moment.weekday(), before), (moment.weekday(), after)))


def _week(day: int, week_start: int) -> tuple[int, int]:
    """The number of the week of a day, from the start and from the end of the year that the week is of.

    A week is of the year that has at least four of its days.
    """
    first = day - (day + 3 - week_start) % 7
    year = date.fromordinal(first + 3 + EPOCH_ORDINAL).year
    weeks_first = _first_week(year, week_start)
    number = (first - weeks_first) // 7 + 1
    weeks = (_first_week(year + 1, week_start) - weeks_first) // 7
    return number, number - weeks - 1


def _first_week(year: int, week_start: int) -> int:
    """The day with which week 1 begins: that of the fourth of January."""
    fourth = day_number(year, 1, 4)
    return fourth - (fourth + 3 - week_start) % 7


def day_number(year: int, month: int, day: int) -> int:
    return date(year, month, day).toordinal() - EPOCH_ORDINAL
