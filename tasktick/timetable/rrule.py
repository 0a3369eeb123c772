"""Recurrence rules (RFC 5545) over naive local time: stepping from one reading to the next, and counting.

A rule of whole days (yearly to daily) is a set of days in each period, times a set of times of the day; one of less
(hourly to secondly) is a grid that starts at DTSTART, of which the parts let some readings through. Nothing is walked
from the start: the period of a reading is found by arithmetic. Only COUNT is, once, and becomes the last reading.
"""

from bisect import bisect_left
from calendar import monthrange
from datetime import date
from functools import lru_cache
from math import gcd

import msgspec

from tasktick.errors import Refused
from tasktick.timetable import rrule_grammar, zones
from tasktick.timetable.rrule_days import EPOCH_ORDINAL, DayParts, day_number
from tasktick.timetable.rrule_grammar import Written

YEAR_LAST = 9_998
DAY_S = 86_400
PARSED_MAX = 1_024
PERIODS_KEPT_MAX = 600
# The calendar repeats itself after 400 years: what has no day in so many never has one.
YEARS_OF_ALL = 400
# COUNT is walked through once, and what it ends must come within so long.
COUNTED_MAX_S = 200 * 366 * DAY_S
UNITS_S = {"HOURLY": 3_600, "MINUTELY": 60, "SECONDLY": 1}

Days = tuple[int, ...]
"""Days since the epoch, in order."""


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
    _kept: dict[int, Days] = {}
    _picked: dict[int, tuple[int, ...]] = {}
    _counted: dict[int, tuple[int, ...]] = {}

    @property
    def is_wildcard(self) -> bool:
        """It runs through the day, so it follows the clock."""
        return self.written.frequency in UNITS_S

    @property
    def times_a_day(self) -> int:
        """How many times of a day there are for a rule of whole days."""
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    def next_local(self, from_ms: int) -> int | None:
        """The first matching reading at or after `from_ms`; None if there is no more."""
        from_s = max(-(-from_ms // 1_000), self.start_s)
        if self.last_s is not None and from_s > self.last_s:
            return None
        found = self._next_on_grid(from_s) if self.is_wildcard else self._next_of_days(from_s)
        if found is None or (self.last_s is not None and found > self.last_s):
            return None
        return found * 1_000

    def count(self, from_ms: int, to_ms: int) -> int:
        """How many readings match from `from_ms` to before `to_ms`."""
        low, high = max(-(-from_ms // 1_000), self.start_s), -(-to_ms // 1_000)
        if self.last_s is not None:
            high = min(high, self.last_s + 1)
        if high <= low:
            return 0
        return self._count_grid(low, high) if self.is_wildcard else self._count_days(low, high)

    # ------------------------------------------------------------------------------- rules of whole days

    def _next_of_days(self, from_s: int) -> int | None:
        period = self._period_of(from_s // DAY_S)
        first = period
        while True:
            start = self._first_day_of(period)
            if start is None or period - first > self._periods_max:
                return None
            if self.written.numbers("BYSETPOS"):
                chosen = self._chosen(period)
                index = bisect_left(chosen, from_s)
                if index < len(chosen):
                    return chosen[index]
            else:
                found = self._first_time(self._days_of(period), from_s)
                if found is not None:
                    return found
            period += self.written.interval

    @property
    def _periods_max(self) -> int:
        """So many periods without a day mean that none has one."""
        years = YEARS_OF_ALL * self.written.interval
        return {"YEARLY": years, "MONTHLY": years * 12, "WEEKLY": years * 53, "DAILY": years * 366}[
            self.written.frequency
        ]

    def _first_time(self, days: Days, from_s: int) -> int | None:
        day, second = divmod(from_s, DAY_S)
        index = bisect_left(days, day)
        if index < len(days) and days[index] == day:
            time = self._time_from(second)
            if time is not None:
                return day * DAY_S + time
            index += 1
        if index == len(days):
            return None
        return days[index] * DAY_S + self._time(0)

    def _time(self, number: int) -> int:
        """The nth time of the day."""
        rest, second = divmod(number, len(self.seconds))
        hour, minute = divmod(rest, len(self.minutes))
        return self.hours[hour] * 3_600 + self.minutes[minute] * 60 + self.seconds[second]

    def _time_from(self, second_of_day: int) -> int | None:
        number = self._times_before(second_of_day)
        return self._time(number) if number < self.times_a_day else None

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
            _make_room(self._picked)
            kept = self._picked[period] = tuple(sorted(found))
        return kept

    def _count_days(self, low: int, high: int) -> int:
        counted = 0
        period = self._period_of(low // DAY_S)
        while (start := self._first_day_of(period)) is not None and start * DAY_S < high:
            if self.written.numbers("BYSETPOS"):
                chosen = self._chosen(period)
                counted += bisect_left(chosen, high) - bisect_left(chosen, low)
            else:
                days = self._days_of(period)
                counted += self._count_before(days, high) - self._count_before(days, low)
            period += self.written.interval
        return counted

    def _count_before(self, days: Days, before_s: int) -> int:
        day, second = divmod(before_s, DAY_S)
        index = bisect_left(days, day)
        counted = index * self.times_a_day
        if index < len(days) and days[index] == day:
            counted += self._times_before(second)
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
        return day if day <= _LAST_DAY else None

    def _days_of(self, period: int) -> Days:
        kept = self._kept.get(period)
        if kept is None:
            _make_room(self._kept)
            kept = self._kept[period] = tuple(day for day in self._candidates(period) if self.days.let_through(day))
        return kept

    def _candidates(self, period: int) -> range | list[int]:
        first = self._first_day_of(period)
        assert first is not None, "the caller looked"
        match self.written.frequency:
            case "DAILY":
                return range(first, first + 1)
            case "WEEKLY":
                return range(first, first + 7)
            case "MONTHLY":
                return range(first, first + monthrange(period // 12, period % 12 + 1)[1])
            case _:
                found: list[int] = []
                for month in sorted(self.days.months) or range(1, 13):
                    begin = day_number(period, month, 1)
                    found += range(begin, begin + monthrange(period, month)[1])
                return found

    # ------------------------------------------------------------------------------- rules of less than a day

    @property
    def _step_s(self) -> int:
        return UNITS_S[self.written.frequency] * self.written.interval

    def _next_on_grid(self, from_s: int) -> int | None:
        day, second = divmod(from_s, DAY_S)
        empty = 0
        while day <= _LAST_DAY:
            if self.days.let_through(day):
                times = self._times_of(day)
                index = bisect_left(times, second)
                if index < len(times):
                    return day * DAY_S + times[index]
                empty = 0 if times else empty
            empty += 1
            if empty > YEARS_OF_ALL * 366:
                return None
            day, second = day + 1, 0
        return None

    def _times_of(self, day: int) -> tuple[int, ...]:
        """The seconds of a day on the grid that the parts let through: the same for all days of one phase."""
        step_s = self._step_s
        phase = (self._grid_start - day * DAY_S) % step_s
        kept = self._counted.get(phase)
        if kept is None:
            _make_room(self._counted)
            kept = self._counted[phase] = tuple(self._expanded(phase, step_s))
        return kept

    @property
    def _grid_start(self) -> int:
        """The start, cut down to the unit: what is finer is said by the parts, or taken from the start."""
        unit_s = UNITS_S[self.written.frequency]
        return self.start_s // unit_s * unit_s

    def _expanded(self, phase: int, step_s: int) -> list[int]:
        hours, minutes, seconds = set(self.hours), set(self.minutes), set(self.seconds)
        found = []
        for second in range(phase, DAY_S, step_s):
            if second // 3_600 not in hours:
                continue
            if self.written.frequency == "HOURLY":
                found += [second + minute * 60 + one for minute in self.minutes for one in self.seconds]
            elif second // 60 % 60 in minutes:
                if self.written.frequency == "MINUTELY":
                    found += [second + one for one in self.seconds]
                elif second % 60 in seconds:
                    found.append(second)
        return found

    def _count_grid(self, low: int, high: int) -> int:
        (first, first_s), (last, last_s) = divmod(low, DAY_S), divmod(high, DAY_S)
        counted = 0
        for day in range(first, last + 1):
            if self.days.let_through(day):
                times = self._times_of(day)
                begin = bisect_left(times, first_s) if day == first else 0
                end = bisect_left(times, last_s) if day == last else len(times)
                counted += end - begin
        return counted

    def ever_fires(self) -> bool:
        """Whether it has any reading at all."""
        if self.is_wildcard and not self._meets_grid():
            return False
        return self.next_local(self.start_s * 1_000) is not None

    def _meets_grid(self) -> bool:
        """Whether any phase of the grid meets a time of the day that the parts let through."""
        step_s = self._step_s
        apart = gcd(step_s, DAY_S)
        phases = range(self._grid_start % apart, step_s, apart)
        return any(self._expanded(phase, step_s) for phase in phases[:DAY_S])


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
        _kept={},
        _picked={},
        _counted={},
    )


def _last_of(rule: Rrule, count: int) -> int:
    """The reading with which a rule that counts comes to its end."""
    at_ms = rule.start_s * 1_000 - 1
    for _ in range(count):
        found = rule.next_local(at_ms + 1)
        if found is None:
            break
        if found // 1_000 - rule.start_s > COUNTED_MAX_S:
            why = "COUNT does not come to its end within 200 years: leave it out, or say UNTIL."
            raise Refused("validation_failed", why, errors=[(rrule_grammar.POINTER, why)])
        at_ms = found
    return at_ms // 1_000


def _make_room(kept: dict[int, tuple[int, ...]]) -> None:
    if len(kept) >= PERIODS_KEPT_MAX:
        kept.clear()


_LAST_DAY = day_number(YEAR_LAST, 12, 31)
