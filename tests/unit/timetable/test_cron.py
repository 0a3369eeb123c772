"""Stepping over naive local time: days, times, and how many there are."""

from datetime import UTC, datetime, timedelta

import pytest

from tasktick.timetable.cron import Cron, parse
from tasktick.timetable.grammar import SECOND

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def reading(text: str) -> int:
    """A local time in milliseconds, as if the local clock were UTC's."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)


def stepped(cron: Cron, text: str, count: int) -> list[str]:
    """The next readings at or after one."""
    out: list[str] = []
    at: int | None = reading(text)
    for _ in range(count):
        assert at is not None
        at = cron.next_local(at)
        assert at is not None
        out.append((EPOCH + timedelta(milliseconds=at)).strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00"))
        at += 1
    return out


def days(text: str, year: int, month: int) -> list[int]:
    mask = parse(text).matching_days(year, month)
    return [day for day in range(32) if mask >> day & 1]


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("*/15 9-10 * * *", "2026-02-10T09:40", ["2026-02-10 09:45", "2026-02-10 10:00", "2026-02-10 10:15"]),
        ("0 9 * * MON-FRI", "2026-02-13T09:00", ["2026-02-13 09:00", "2026-02-16 09:00", "2026-02-17 09:00"]),
        ("59 23 31 12 *", "2026-12-31T23:59:00.001", ["2027-12-31 23:59", "2028-12-31 23:59"]),
        ("0 0 29 2 *", "2096-02-29T00:01", ["2104-02-29 00:00"]),
        ("0 0 31 * *", "2026-01-31T12:00", ["2026-03-31 00:00", "2026-05-31 00:00"]),
        ("30,45 59 23 * * *", "2026-02-10T23:59:31", ["2026-02-10 23:59:45", "2026-02-11 23:59:30"]),
        ("*/20 * * * * *", "2026-02-10T23:59:41", ["2026-02-11 00:00", "2026-02-11 00:00:20"]),
        ("0 0 29 2 */7", "2026-01-01T00:00", ["2032-02-29 00:00", "2060-02-29 00:00", "2088-02-29 00:00"]),
    ],
)
def test_steps(text: str, after: str, expected: list[str]) -> None:
    assert stepped(parse(text), after, len(expected)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # February 2026 begins on a Sunday and has 28 days.
        ("0 0 L * *", [28]),
        ("0 0 LW * *", [27]),
        ("0 0 1W * *", [2]),
        ("0 0 28W * *", [27]),
        ("0 0 7W * *", [6]),
        ("0 0 8W,L * *", [9, 28]),
        ("0 0 29W,10 * *", [10]),
        ("0 0 * * 5#2", [13]),
        ("0 0 * * SUN#1,0#4", [1, 22]),
        ("0 0 * * 7#2", [8]),
        ("0 0 * * MON#5,TUE", [3, 10, 17, 24]),
        ("0 0 * * 5L", [27]),
        ("0 0 * * L6", [28]),
        ("0 0 1 * MON", [1, 2, 9, 16, 23]),
        ("0 0 */10 * MON", []),
        ("0 0 */8 * MON", [9]),
        ("0 0 8-14 * */7", [8]),
        ("0 0 LW * 0#1", [1, 27]),
        ("0 0 * * 1-7/3", [2, 5, 1, 8, 9, 12, 15, 16, 19, 22, 23, 26]),
        ("0 0 * * SAT-SUN", [1, 7, 8, 14, 15, 21, 22, 28]),
        ("0 0 * * SUN-SUN", [1, 8, 15, 22]),
        ("0 0 * 3 *", []),
    ],
)
def test_days_of_a_month(text: str, expected: list[int]) -> None:
    assert days(text, 2026, 2) == sorted(expected)


def test_a_saturday_the_first_goes_to_the_third() -> None:
    assert days("0 0 1W * *", 2026, 8) == [3]


def test_a_sunday_the_last_goes_back_two_days() -> None:
    assert days("0 0 31W * *", 2026, 5) == [29]
    assert days("0 0 LW * *", 2026, 5) == [29]


def test_the_calendar_ends() -> None:
    assert parse("0 0 29 2 *").next_local(reading("9997-01-01")) is None


@pytest.mark.parametrize("text", ["* * * * *", "7-50/3 1,5,23 */3 * MON-FRI", "*/7 3,4 1,2 L * *", "0 0 LW 2,8 *"])
def test_counting_is_stepping(text: str) -> None:
    cron = parse(text)
    for low, high in [
        ("2026-02-10T03:04:05", "2026-02-12T04:05:06"),
        ("2026-01-31T03:59:59", "2026-02-01T03:00"),
        ("2026-02-10T03:00", "2026-02-10T03:00"),
        ("2026-02-10T04:00", "2026-02-10T03:00"),
    ]:
        at, end = cron.next_local(reading(low)), reading(high)
        steps = 0
        while at is not None and at < end:
            steps, at = steps + 1, cron.next_local(at + 1)
        assert cron.count(reading(low), end) == steps


def test_a_part_is_found_by_its_name() -> None:
    assert parse("0 9 * * *").part("hour") == parse("0 9 * * *").parts[1]
    assert parse("0 9 * * *").part(SECOND.name) is None


def test_equal_texts_are_parsed_once() -> None:
    assert parse("0 9 * * *") is parse("0 9 * * *")
