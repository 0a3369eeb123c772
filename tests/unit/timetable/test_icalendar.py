"""iCalendar files: what is taken over, what is told as left out, and what is refused."""

import time

import pytest

from tasktick.errors import Refused
from tasktick.model.calendar import Days, Range
from tasktick.timetable import icalendar
from tasktick.timetable.calendars import DAY_MS, covers
from tests.unit.timetable.test_fires import HOUR, MINUTE, ms


def file(*events: str, head: str = "") -> str:
    inside = "".join(f"BEGIN:VEVENT\r\n{event.strip()}\r\nEND:VEVENT\r\n" for event in events)
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{head}{inside}END:VCALENDAR\r\n"


def day(text: str) -> int:
    return ms(f"{text}T00:00:00+00:00") // DAY_MS


def reading(text: str) -> int:
    return ms(f"{text}+00:00")


def test_whole_days_with_and_without_an_end() -> None:
    content, left_out = icalendar.read(
        file(
            "SUMMARY:Christmas\r\nDTSTART;VALUE=DATE:20261225\r\nDTEND;VALUE=DATE:20261227",
            "SUMMARY:New\r\n  Year\r\nDTSTART;VALUE=DATE:20270101",
        )
    )
    assert left_out == []
    assert content.dates == (Days(day("2026-12-25"), day("2026-12-26")), Days(day("2027-01-01"), day("2027-01-01")))
    assert content.ranges == ()


def test_timed_events_of_any_zone() -> None:
    content, left_out = icalendar.read(
        file(
            "UID:a\r\nDTSTART:20260301T220000Z\r\nDTEND:20260302T040000Z",
            "UID:b\r\nDTSTART;TZID=America/New_York:20260301T220000\r\nDURATION:PT1H30M",
            "UID:c\r\nDTSTART:20260301T220000\r\nDURATION:P1DT1S",
            "UID:d\r\nDTSTART;TZID=Europe/Berlin:20260301T220000\r\nDTEND:20260301T220000Z",
            head="X-WR-TIMEZONE:Europe/Berlin\r\n",
        )
    )
    begin = reading("2026-03-01T22:00:00")
    assert (content.timezone, left_out) == ("Europe/Berlin", [])
    assert content.ranges == (
        Range(begin, begin + 6 * HOUR, "UTC"),
        Range(begin, begin + 90 * MINUTE, "America/New_York"),
        Range(begin, begin + DAY_MS + 1_000),
        Range(begin, begin + HOUR),
    )


def test_a_rule_and_what_is_left_out_of_it() -> None:
    content, left_out = icalendar.read(
        file(
            "SUMMARY:Backup\r\nDTSTART;TZID=Europe/Berlin:20260105T220000\r\nDTEND;TZID=Europe/Berlin:20260106T020000\r\n"
            "RRULE:FREQ=WEEKLY;BYDAY=MO\r\nEXDATE;TZID=Europe/Berlin:20260112T220000,20260119T220000\r\n"
            "EXDATE:20260126T210000Z\r\nBEGIN:VALARM\r\nTRIGGER:-PT5M\r\nEND:VALARM"
        )
    )
    assert left_out == []
    inside = {
        text: covers(content, "UTC", ms(text))
        for text in (
            "2026-01-05T21:00:00+00:00",
            "2026-01-06T00:59:59+00:00",
            "2026-01-06T01:00:00+00:00",
            "2026-01-12T22:00:00+00:00",
            "2026-01-26T22:00:00+00:00",
            "2026-07-06T20:00:00+00:00",
        )
    }
    assert list(inside.values()) == [True, True, False, False, False, True]


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ("SUMMARY:x", "no DTSTART"),
        ("DTSTART:20260301T220000Z", "does not last"),
        ("DTSTART:20260301T220000Z\r\nDTEND:20260301T210000Z", "does not last"),
        ("DTSTART:20260230", "cannot be read"),
        ("DTSTART:99990101", "1900 to 9000"),
        ("DTSTART;TZID=Custom:20260301T220000\r\nDURATION:PT1H", "no time zone 'Custom'"),
        ("DTSTART:20260301\r\nDTEND:20260301T210000Z", "begins with a date"),
        ("DTSTART:20260301T220000\r\nDTEND:20260301T230000Z", "has a zone"),
        ("DTSTART:20260301\r\nSTATUS:CANCELLED", "cancelled"),
        ("DTSTART:20260301\r\nRECURRENCE-ID:20260301", "RECURRENCE-ID"),
        ("DTSTART:20260301\r\nRRULE:FREQ=SECONDLY", "FREQ=DAILY or longer"),
        ("DTSTART:20260301\r\nRRULE:FREQ=DAILY;BYHOUR=99", "BYHOUR"),
        ("DTSTART:20260301\r\nRRULE:FREQ=DAILY\r\nRRULE:FREQ=WEEKLY", "more than one RRULE"),
        ("DTSTART:20200301\r\nDURATION:P900D\r\nRRULE:FREQ=DAILY", "366 days"),
        ("DTSTART:20260301\r\nDURATION:soon", "DURATION"),
    ],
)
def test_what_cannot_be_carried_over_is_told(event: str, says: str) -> None:
    good = "DTSTART;VALUE=DATE:20261225"
    content, left_out = icalendar.read(file(f"SUMMARY:Mine\r\n{event}" if "SUMMARY" not in event else event, good))
    assert len(content.dates) == 1
    assert len(left_out) == 1
    assert says in left_out[0].detail
    assert left_out[0].event == ("x" if "SUMMARY" in event else "Mine")


def test_other_parts_and_further_dates_are_told() -> None:
    text = file("DTSTART:20261225\r\nRDATE:20261226").replace(
        "END:VCALENDAR", "BEGIN:VTODO\r\nDTSTART:20261225\r\nEND:VTODO\r\nnonsense\r\nEND:VCALENDAR"
    )
    content, left_out = icalendar.read(text)
    assert len(content.dates) == 1
    assert [one.detail[:5] for one in left_out] == ["VTODO", "This ", "RDATE"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "BEGIN:VCALENDAR",
        "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nEND:VCALENDAR",
        "BEGIN:VCALENDAR\r\nEND:VEVENT\r\nEND:VCALENDAR",
        file(*["DTSTART:20261225"] * (icalendar.EVENTS_MAX + 1)),
    ],
)
def test_what_is_no_calendar_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        icalendar.read(text)
    assert refused.value.code == "validation_failed"


def test_no_more_rules_and_ranges_than_can_be_looked_at() -> None:
    rule = "DTSTART:20261225T080000\r\nDURATION:PT1H\r\nRRULE:FREQ=DAILY"
    content, left_out = icalendar.read(file(*[rule] * (icalendar.RULES_MAX + 3)))
    assert len(content.ranges) == icalendar.RULES_MAX
    assert len(left_out) == 3


@pytest.mark.parametrize(
    "text", ["X;A=" + "," * 100_000, "X" + ';A="b"' * 20_000, "X;" * 50_000, "X:\r\n" + " x\r\n" * 50_000]
)
def test_a_hostile_line_costs_what_its_length_is(text: str) -> None:
    begun = time.perf_counter()
    icalendar.read(file("DTSTART:20261225").replace("END:VCALENDAR", f"{text}\r\nEND:VCALENDAR"))
    assert time.perf_counter() - begun < 5
