"""What recurrence rules mean, and what is refused with a word on what to write."""

from datetime import UTC, datetime, timedelta

import pytest

from tasktick.errors import Refused
from tasktick.timetable import rrule

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def readings(text: str, count: int, start: str = "2026-01-01T00:00:00", timezone: str = "UTC") -> list[str]:
    """The first local times of a rule from a time on."""
    rule = rrule.parse(text, timezone)
    at = (datetime.fromisoformat(start).replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
    found = []
    for _ in range(count):
        reading = rule.next_local(at)
        if reading is None:
            break
        found.append((EPOCH + timedelta(milliseconds=reading)).strftime("%a %Y-%m-%d %H:%M:%S"))
        at = reading + 1
    return found


def test_the_last_workday_of_a_month() -> None:
    text = "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17;BYMINUTE=30"
    assert readings(text, 3) == ["Fri 2026-01-30 17:30:00", "Fri 2026-02-27 17:30:00", "Tue 2026-03-31 17:30:00"]


def test_every_other_week_is_counted_from_the_start() -> None:
    text = "DTSTART:20260105T090000\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH"
    assert readings(text, 4) == [
        "Mon 2026-01-05 09:00:00",
        "Thu 2026-01-08 09:00:00",
        "Mon 2026-01-19 09:00:00",
        "Thu 2026-01-22 09:00:00",
    ]


def test_plain_and_numbered_days_are_all_days_of_the_list() -> None:
    text = "FREQ=MONTHLY;BYDAY=1MO,WE;BYMONTHDAY=1,2,3,4,5,6,7"
    assert readings(text, 4, "2026-06-01T00:00:00") == [
        "Mon 2026-06-01 00:00:00",
        "Wed 2026-06-03 00:00:00",
        "Wed 2026-07-01 00:00:00",
        "Mon 2026-07-06 00:00:00",
    ]


def test_counting_ends_the_rule_wherever_it_is_asked_from() -> None:
    text = "DTSTART:20260101T080000\nRRULE:FREQ=DAILY;COUNT=3"
    assert readings(text, 9)[-1] == "Sat 2026-01-03 08:00:00"
    assert readings(text, 9, "2026-01-03T08:00:01") == []


def test_an_until_in_utc_is_an_instant() -> None:
    text = "DTSTART:20260101T080000\nRRULE:FREQ=DAILY;UNTIL=20260103T070000Z"
    assert len(readings(text, 9, timezone="Europe/Berlin")) == 3
    assert len(readings(text, 9, timezone="UTC")) == 2


def test_a_leap_day_comes_each_four_years() -> None:
    assert readings("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", 2) == ["Tue 2028-02-29 00:00:00", "Sun 2032-02-29 00:00:00"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "FREQ=WEEKLY"),
        ("FREQ=FORTNIGHTLY", "FREQ is one of"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR is a list of numbers from 0 to 23"),
        ("FREQ=DAILY;BYHOUR=9;BYHOUR=10", "stands here twice"),
        ("FREQ=DAILY;BYEASTER=0", "There is no BYEASTER"),
        ("FREQ=DAILY;COUNT=3", "DTSTART"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL is a whole number"),
        ("FREQ=WEEKLY;BYDAY=2TU", "FREQ=MONTHLY or YEARLY"),
        ("FREQ=MONTHLY;BYWEEKNO=3", "BYWEEKNO is for FREQ=YEARLY"),
        ("FREQ=HOURLY;BYSETPOS=1;BYMINUTE=1,2", "BYSETPOS is not for FREQ=HOURLY"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "never fires"),
        ("DTSTART:20260101T000000\nRRULE:FREQ=HOURLY;INTERVAL=24;BYHOUR=3", "never fires"),
        ("DTSTART:20260230\nRRULE:FREQ=DAILY", "DTSTART is written like"),
        ("DTSTART;TZID=America/New_York:20260101T000000\nRRULE:FREQ=DAILY", "give that zone as `timezone`"),
        ("DTSTART:20260101T000000\nEXDATE:20260102T000000\nRRULE:FREQ=DAILY", "into a calendar"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20270101", "not by both"),
        ("FREQ=DAILY\x00", "FREQ is one of"),
        ("FREQ=DÄILY", "ASCII"),
        ("FREQ=DAILY;BYHOUR=" + "1," * 2_000, "at most"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, says: str) -> None:
    with pytest.raises(Refused) as refused:
        rrule.parse(text, "UTC")
    assert says in refused.value.errors[0][1]
    assert refused.value.errors[0][0] == "/rrule"
