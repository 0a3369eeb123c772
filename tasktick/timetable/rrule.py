"""Recurrence rules (RFC 5545) over naive local time: stepping from one reading to the next, and counting.

A rule of whole days (yearly to daily) is a set of days in each period, times a set of times of the day; one of less
(hourly to secondly) is a grid that starts at DTSTART, of which the parts let some readings through. Nothing is walked
from the start: the period of a reading is found by arithmetic, and a search leaps from one day that is let through to
the next. COUNT is counted out once, and becomes the last reading.
"""

from bisect import bisect_left
from datetime import date
from functools import lru_cache

import msgspec

from tasktick.errors import Refused
from tasktick.timetable import rrule_grammar, zones
from tasktick.timetable.rrule_days import EPOCH_ORDINAL, LAST_DAY, YEAR_LAST, DayParts, day_number
from tasktick.timetable.rrule_grammar import Written
from tasktick.timetable.rrule_grid import UNITS_S, Grid, Times, grid

DAY_S = 86_400
PARSED_MAX = 1_024
PICKED_MAX = 8
# After 400 years the calendar repeats itself: so many periods in a row are all that there are.
PERIODS_OF_ALL = {"YEARLY": 400, "MONTHLY": 4_800, "WEEKLY": 20_871, "DAILY": 146_097}
DAYS_OF_PERIOD = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7, "DAILY": 1}
# What COUNT ends must come within so long.
COUNTED_MAX_S = 200 * 366 * DAY_S
COUNTED_AT_ONCE_S = 512 * DAY_S


class Rrule(msgspec.Struct, eq=False):
    """A rule that is ready to be stepped through."""

    text: str
    written: Written
    start_s: int
    last_s: int | None
    days: DayParts
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]
    grid: Grid | None = None
    """Of a rule of less than a day."""
    _picked: dict[int, tuple[int, ...]] = {}

    @property
    def is_wildcard(self) -> bool:
        """It runs through the day, so it follows the clock."""
        return self.grid is not None

    @property
    def times_a_day(self) -> int:
        """How many times of a day there are for a rule of whole days."""
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    def next_local(self, from_ms: int) -> int | None:
        """The first matching reading at or after `from_ms`; None if there is no more."""
        from_s = max(-(-from_ms // 1_000), self.start_s)
        if self.last_s is not None and from_s > self.last_s:
            return None
        found = self._next_of_days(from_s) if self.grid is None else self.grid.next(self.days, from_s)
        if found is None or (self.last_s is not None and found > self.last_s):
            return None
        return found * 1_000

    def count(self, from_ms: int, to_ms: int) -> int:
        """How many readings match from `from_ms` to before `to_ms`."""
        low, high = max(-(-from_ms // 1_000), self.start_s), -(-to_ms // 1_000)
        high = min(high, (LAST_DAY + 1) * DAY_S if self.last_s is None else self.last_s + 1)
        if high <= low:
            return 0
        return self._count_days(low, high) if self.grid is None else self.grid.count(self.days, low, high)

    # ------------------------------------------------------------------------------- rules of whole days

    def _next_of_days(self, from_s: int) -> int | None:
        day, second = divmod(from_s, DAY_S)
        if self.written.numbers("BYSETPOS"):
            return self._next_chosen(day, from_s)
        found = self._next_day(day)
        if found == day:
            number = self._times_before(second)
            if number < self.times_a_day:
                return day * DAY_S + self._time(number)
            found = self._next_day(day + 1)
        return None if found is None else found * DAY_S + self._time(0)

    def _next_day(self, day: int) -> int | None:
        """The first day at or after this one that is let through, and lies in a period of the rule."""
        while True:
            found = self.days.next_day(day)
            if found is None or self.written.interval == 1:
                return found
            begin = self._first_day_of(self._period_of(found))
            if begin is None or begin <= found:
                return None if begin is None else found
            day = begin

    def _next_chosen(self, day: int, from_s: int) -> int | None:
        """The same where BYSETPOS names places: in a period with days there may be none of them."""
        period = self._period_of(day)
        for _ in range(PERIODS_OF_ALL[self.written.frequency]):
            begin = self._first_day_of(period)
            found = None if begin is None else self.days.next_day(begin)
            if found is None:
                return None
            of_day = self._period_of(found)
            if of_day == period:
                chosen = self._chosen(period)
                index = bisect_left(chosen, from_s)
                if index < len(chosen):
                    return chosen[index]
            period = of_day if of_day > period else period + self.written.interval
        return None

    def _time(self, number: int) -> int:
        """The nth time of the day."""
        rest, second = divmod(number, len(self.seconds))
        hour, minute = divmod(rest, len(self.minutes))
        return self.hours[hour] * 3_600 + self.minutes[minute] * 60 + self.seconds[second]

    def _times_before(self, second_of_day: int) -> int:
        hour, rest = divmod(second_of_day, 3_600)
        minute, second = divmod(rest, 60)
        hours = bisect_left(self.hours, hour)
        number = hours * len(self.minutes) * len(self.seconds)
        if hours < len(self.hours) and self.hours[hours] == hour:
            minutes = bisect_left(self.minutes, minute)
            number += minutes * len(self.seconds)
            if minutes < len(self.minutes) and self.minutes[minutes] == minute:
                number += bisect_left(self.seconds, second)
        return number

    def _chosen(self, period: int) -> tuple[int, ...]:
        """The readings of a period at the places that BYSETPOS names."""
        kept = self._picked.get(period)
        if kept is None:
            days = self._days_of(period)
            found = set()
            whole = len(days) * self.times_a_day
            for place in self.written.numbers("BYSETPOS"):
                number = place - 1 if place > 0 else whole + place
                if 0 <= number < whole:
                    day, time = divmod(number, self.times_a_day)
                    found.add(days[day] * DAY_S + self._time(time))
            if len(self._picked) >= PICKED_MAX:
                self._picked.clear()
            kept = self._picked[period] = tuple(sorted(found))
        return kept

    def _count_days(self, low: int, high: int) -> int:
        if self.written.numbers("BYSETPOS"):
            return self._count_chosen(low, high)
        (first, first_s), (last, last_s) = divmod(low, DAY_S), divmod(high, DAY_S)
        counted = self._days_between(first, last) * self.times_a_day
        if self._next_day(first) == first:
            counted -= self._times_before(first_s)
        if last_s and self._next_day(last) == last:
            counted += self._times_before(last_s)
        return counted

    def _days_between(self, first: int, beyond: int) -> int:
        """How many days that are let through, and lie in a period, there are from one to before another."""
        if self.written.interval == 1:
            return self.days.count(first, beyond)
        counted, day = 0, self._next_day(first)
        while day is not None and day < beyond:
            end = min(self._end_of(self._period_of(day)), beyond)
            counted += self.days.count(day, end)
            day = self._next_day(end)
        return counted

    def _count_chosen(self, low: int, high: int) -> int:
        counted = 0
        found = self._next_chosen(low // DAY_S, low)
        while found is not None and found < high:
            period = self._period_of(found // DAY_S)
            chosen = self._chosen(period)
            counted += bisect_left(chosen, high) - bisect_left(chosen, low)
            end = self._end_of(period)
            found = self._next_chosen(end, end * DAY_S)
        return counted

    # ------------------------------------------------------------------------------- periods

    def _period_of(self, day: int) -> int:
        """The number of the first period of this rule that ends on this day or later."""
        number, first = self._number_of(day), self._number_of(self.start_s // DAY_S)
        behind = -(number - first) % self.written.interval
        return max(number + behind, first)

    def _number_of(self, day: int) -> int:
        match self.written.frequency:
            case "DAILY":
                return day
            case "WEEKLY":
                return (day + 3 - self.written.week_start) // 7  # the epoch was a Thursday
            case frequency:
                moment = date.fromordinal(day + EPOCH_ORDINAL)
                return moment.year if frequency == "YEARLY" else moment.year * 12 + moment.month - 1

    def _first_day_of(self, period: int) -> int | None:
        """The day with which a period begins; None past the end of calendars."""
        match self.written.frequency:
            case "DAILY":
                day = period
            case "WEEKLY":
                day = period * 7 - 3 + self.written.week_start
            case "YEARLY":
                return day_number(period, 1, 1) if period <= YEAR_LAST else None
            case _:
                return day_number(period // 12, period % 12 + 1, 1) if period // 12 <= YEAR_LAST else None
        return day if day <= LAST_DAY else None

    def _end_of(self, period: int) -> int:
        """The day after the last of a period that is there."""
        following = self._first_day_of(period + 1)
        return LAST_DAY + 1 if following is None else following

    def _days_of(self, period: int) -> list[int]:
        first = self._first_day_of(period)
        assert first is not None, "the caller looked"
        return self.days.between(first, self._end_of(period) - first)

    def ever_fires(self) -> bool:
        """Whether it has any reading at all."""
        written = self.written
        if self.grid is not None:
            return self.grid.meets and self._has_any()
        places = written.numbers("BYSETPOS")
        if places and min(map(abs, places)) > DAYS_OF_PERIOD[written.frequency] * self.times_a_day:
            return False
        if written.frequency == "DAILY" and not written.interval % 7 and self.days.weekdays:
            # All of its days are of one weekday.
            first = date.fromordinal(self.start_s // DAY_S + EPOCH_ORDINAL)
            if first.weekday() not in self.days.weekdays:
                return False
        return self._has_any()

    def _has_any(self) -> bool:
        return self.next_local(self.start_s * 1_000) is not None


@lru_cache(maxsize=PARSED_MAX)
def parse(text: str, timezone: str) -> Rrule:
    """A rule, or a refusal that says what is wrong with it. Equal texts of a zone give the same object."""
    written = rrule_grammar.read(text, timezone)
    until_ms = written.until_ms
    if until_ms is not None and written.until_is_instant:
        until_ms += zones.offset_ms(timezone, until_ms)
    rule = _of(text, written, None if until_ms is None else until_ms // 1_000)
    if not rule.ever_fires():
        why = "It never fires: no day or time is let through by all of its parts."
        raise Refused("cron_never_fires", why, errors=[(rrule_grammar.POINTER, why)])
    if written.count is None:
        return rule
    return _of(text, written, _last_of(rule, written.count))


def _of(text: str, written: Written, last_s: int | None) -> Rrule:
    start = date.fromordinal(written.start_ms // 1_000 // DAY_S + EPOCH_ORDINAL)
    start_s = written.start_ms // 1_000
    months, month_days = written.numbers("BYMONTH"), written.numbers("BYMONTHDAY")
    days = written.days
    if not (written.numbers("BYWEEKNO") or written.numbers("BYYEARDAY") or month_days or days):
        # What the rule leaves open is as it was at the start.
        match written.frequency:
            case "YEARLY":
                months, month_days = months or (start.month,), (start.day,)
            case "MONTHLY":
                month_days = (start.day,)
            case "WEEKLY":
                days = ((start.weekday(), 0),)
    second_of_day = start_s % DAY_S
    finer = rrule_grammar.FREQUENCIES.index(written.frequency)
    at_start = (second_of_day // 3_600, second_of_day // 60 % 60, second_of_day % 60)
    times = [
        written.numbers(name) or ((at_start[place],) if finer < 4 + place else tuple(range(size)))
        for place, (name, size) in enumerate((("BYHOUR", 24), ("BYMINUTE", 60), ("BYSECOND", 60)))
    ]
    unit_s = UNITS_S.get(written.frequency)
    return Rrule(
        text=text,
        written=written,
        start_s=start_s,
        last_s=last_s,
        days=DayParts(
            months=frozenset(months),
            month_days=frozenset(month_days),
            year_days=frozenset(written.numbers("BYYEARDAY")),
            week_numbers=frozenset(written.numbers("BYWEEKNO")),
            weekdays=frozenset(day for day, which in days if not which),
            nth_weekdays=frozenset((day, which) for day, which in days if which),
            is_of_year=written.frequency == "YEARLY" and not months,
            week_start=written.week_start,
        ),
        hours=times[0],
        minutes=times[1],
        seconds=times[2],
        grid=None if unit_s is None else grid(start_s, Times(unit_s, unit_s * written.interval, *times)),
    )


def _last_of(rule: Rrule, count: int) -> int:
    """The reading with which a rule that counts comes to its end."""
    at_s, span_s = rule.start_s, COUNTED_AT_ONCE_S
    while count:
        first_ms = rule.next_local(at_s * 1_000)
        if first_ms is None:
            break
        at_s = first_ms // 1_000
        if at_s - rule.start_s > COUNTED_MAX_S:
            why = "COUNT does not come to its end within 200 years: leave it out, or say UNTIL."
            raise Refused("validation_failed", why, errors=[(rrule_grammar.POINTER, why)])
        counted = rule.count(first_ms, (at_s + span_s) * 1_000)
        if counted < count:
            count -= counted
            at_s += span_s
        elif span_s > 1:
            span_s = max(1, span_s // 8)
        else:
            return at_s
    return at_s - 1
