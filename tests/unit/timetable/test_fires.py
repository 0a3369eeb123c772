"""Gaps, repeated hours, cursors and intervals, by example."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tasktick.errors import Refused
from tasktick.model.schedule import Rule
from tasktick.timetable import zones
from tasktick.timetable.fires import (
    COMES_FIRST,
    COMES_SECOND,
    FIRST_AT,
    LAST_AT,
    Cursor,
    Fire,
    cursor_at,
    fires,
    next_after,
    next_fire,
)
from tasktick.timetable.rule import check
from tasktick.timetable.upcoming import count_fires

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = 60_000
HOUR = 60 * MINUTE


def ms(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)


def between(rule: Rule, after: str, until: str) -> list[Fire]:
    return list(fires(rule, ms(after), ms(until)))


def told(rule: Rule, after: str, until: str) -> list[str]:
    """Fires as `local` or `local xN`."""
    return [fire.local + (f" x{fire.collapsed}" if fire.collapsed > 1 else "") for fire in between(rule, after, until)]


BERLIN_GAP = ("2026-03-28T12:00+01:00", "2026-03-29T12:00+02:00")
BERLIN_REPEAT = ("2026-10-24T12:00+02:00", "2026-10-25T12:00+01:00")


@pytest.mark.parametrize(
    ("cron", "choice", "expected"),
    [
        ("30 2 * * *", {}, ["2026-03-29T03:00:00+02:00"]),
        ("30 2 * * *", {"gap": "skip"}, []),
        ("0,30 2 * * *", {}, ["2026-03-29T03:00:00+02:00 x2"]),
        ("0,30 2,3 * * *", {}, ["2026-03-29T03:00:00+02:00 x3", "2026-03-29T03:30:00+02:00"]),
        ("0,30 2,3 * * *", {"gap": "skip"}, ["2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"]),
        ("* 0-59 2 * * *", {}, ["2026-03-29T03:00:00+02:00 x3600"]),
        ("*/30 2 * * *", {}, []),
        ("*/30 2,3 * * *", {}, ["2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"]),
        ("0 1 * * *", {}, ["2026-03-29T01:00:00+01:00"]),
        ("0 3 * * *", {}, ["2026-03-29T03:00:00+02:00"]),
    ],
)
def test_a_gap(cron: str, choice: dict[str, Any], expected: list[str]) -> None:
    assert told(Rule(cron=cron, timezone="Europe/Berlin", **choice), *BERLIN_GAP) == expected


@pytest.mark.parametrize(
    ("cron", "choice", "expected"),
    [
        ("30 2 * * *", {}, ["2026-10-25T02:30:00+02:00"]),
        ("30 2 * * *", {"repeat": "second"}, ["2026-10-25T02:30:00+01:00"]),
        ("30 2 * * *", {"repeat": "both"}, ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]),
        ("0 2,3 * * *", {}, ["2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+01:00"]),
        ("0 2,3 * * *", {"repeat": "second"}, ["2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"]),
        ("*/30 2 * * *", {}, [f"2026-10-25T02:{m}:00+0{o}:00" for o in (2, 1) for m in ("00", "30")]),
        ("30 2 * * *", {"gap": "skip"}, ["2026-10-25T02:30:00+02:00"]),
    ],
)
def test_a_repeated_hour(cron: str, choice: dict[str, Any], expected: list[str]) -> None:
    assert told(Rule(cron=cron, timezone="Europe/Berlin", **choice), *BERLIN_REPEAT) == expected


def test_notes_say_what_the_clocks_did() -> None:
    rule = Rule(cron="0,30 2 * * *", timezone="Europe/Berlin", repeat="both")
    (gap,) = between(rule, *BERLIN_GAP)
    assert gap.note is not None
    assert "02:00 does not exist" in gap.note
    assert "2 local times" in gap.note
    passes = [fire.note for fire in between(rule, *BERLIN_REPEAT)]
    assert passes == [COMES_FIRST, COMES_FIRST, COMES_SECOND, COMES_SECOND]
    assert {fire.note for fire in between(rule, "2026-06-01T00:00Z", "2026-06-09T00:00Z")} == {None}


@pytest.mark.parametrize(
    ("zone", "cron", "after", "expected"),
    [
        # Half an hour forward at 02:00, and back at 02:00.
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00Z", "2026-10-04T02:30:00+11:00"),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T14:50Z", "2026-04-06T01:45:00+10:30"),
        # 02:45 to 03:45.
        ("Pacific/Chatham", "0 3 * * *", "2026-09-26T12:00Z", "2026-09-27T03:45:00+13:45"),
        # At midnight: the day begins at 01:00, and 23:00 comes twice.
        ("America/Santiago", "0 0 * * *", "2026-09-05T12:00Z", "2026-09-06T01:00:00-03:00"),
        ("America/Santiago", "30 23 * * *", "2026-04-04T12:00Z", "2026-04-04T23:30:00-03:00"),
        # Two hours.
        ("Antarctica/Troll", "30 2 * * *", "2026-03-28T12:00Z", "2026-03-29T03:00:00+02:00"),
        ("Antarctica/Troll", "30 1 * * *", "2026-10-24T12:00Z", "2026-10-25T01:30:00+02:00"),
        # A day that there was not: 30 December 2011.
        ("Pacific/Apia", "0 9 30 12 *", "2011-12-30T09:59Z", "2011-12-31T00:00:00+14:00"),
        # Offsets with seconds, before 1972.
        ("Africa/Monrovia", "0 0 * * *", "1970-06-01T12:00Z", "1970-06-02T00:00:00-00:44:30"),
    ],
)
def test_odd_zones(zone: str, cron: str, after: str, expected: str) -> None:
    fire = next_fire(Rule(cron=cron, timezone=zone), ms(after.replace("Z", "+00:00")))
    assert fire is not None
    assert fire.local == expected


def test_asked_inside_a_repeated_hour() -> None:
    rule = Rule(cron="30 2 * * *", timezone="Europe/Berlin")
    second_pass = "2026-10-25T02:10+01:00"
    until = "2026-10-25T23:00+01:00"
    assert told(rule, second_pass, until) == []
    assert told(
        Rule(cron="30 2 * * *", timezone="Europe/Berlin", repeat="second"), "2026-10-25T02:40+02:00", until
    ) == ["2026-10-25T02:30:00+01:00"]


def test_strictly_after_to_the_millisecond() -> None:
    rule = Rule(cron="0 9 * * *", timezone="Europe/Berlin")
    nine = ms("2026-02-10T09:00+01:00")
    assert [next_fire(rule, at).nominal_at for at in (nine - 1, nine)] == [nine, nine + 24 * HOUR]  # type: ignore[union-attr]


def test_both_ends_of_the_calendar() -> None:
    daily = Rule(cron="0 0 * * *", timezone="Asia/Tokyo")
    first = next_fire(daily, -(10**15))
    assert first is not None
    assert first.nominal_at >= FIRST_AT
    assert next_fire(daily, LAST_AT) is None
    assert next_fire(daily, 10**15) is None
    assert next_fire(Rule(every_ms=1_000), LAST_AT - 1) is None
    last = list(fires(daily, LAST_AT - 3 * 24 * HOUR, LAST_AT))
    assert 2 <= len(last) <= 3


def test_an_interval_is_aligned_to_the_epoch_or_its_anchor() -> None:
    assert [fire.nominal_at for fire in fires(Rule(every_ms=7_000), 0, 21_000)] == [7_000, 14_000, 21_000]
    anchored = Rule(every_ms=7_000, anchor_at=100_000)
    assert [fire.nominal_at for fire in fires(anchored, 90_000, 108_000)] == [93_000, 100_000, 107_000]
    assert count_fires(anchored, 90_000, 108_000) == 3
    assert count_fires(anchored, 93_000, 93_001) == 0
    fire = next_fire(Rule(every_ms=90 * MINUTE, timezone="Europe/Berlin"), ms("2026-03-29T00:00+00:00"))
    assert fire is not None
    assert fire.local == "2026-03-29T03:30:00+02:00"


def test_iterating_from_cursors_is_restarting_at_instants() -> None:
    for choice in ("first", "second", "both"):
        rule = Rule(cron="*/15 1-3 * * *" if choice == "first" else "15,45 1-3 * * *", timezone="Europe/Berlin")
        for after, until in (BERLIN_GAP, BERLIN_REPEAT):
            cursor, walked = cursor_at(rule, ms(after)), []
            while (fire := next_after(rule, cursor)) is not None and fire.nominal_at <= ms(until):
                walked.append(fire)
                cursor = fire.cursor
            assert walked == between(rule, after, until)


@pytest.mark.parametrize("cron", ["0 9 * * *", "0,30 9 * * *", "*/30 9 * * *", "0 9,10 * * *"])
def test_newer_zone_data_fires_no_local_time_twice(cron: str) -> None:
    """The zone was two hours ahead when 09:30 (or 09:00) had its fire; now the data says one hour."""
    rule = Rule(cron=cron, timezone="Europe/Berlin")
    local = ms("2026-02-10T09:30+00:00")
    fire = next_after(rule, Cursor(ms("2026-02-10T07:30+00:00"), local))
    assert fire is not None
    assert fire.local_ms > local
    assert fire.local == ("2026-02-10T10:00:00+01:00" if "10" in cron else "2026-02-11T09:00:00+01:00")


def test_newer_zone_data_that_is_further_ahead_leaves_out_what_has_passed() -> None:
    rule = Rule(cron="0 9 * * *", timezone="Europe/Berlin")
    cursor = Cursor(ms("2026-02-10T09:00+00:00"), ms("2026-02-10T09:00+00:00"))
    fire = next_after(rule, cursor)
    assert fire is not None
    assert fire.local == "2026-02-11T09:00:00+01:00"


def test_a_gap_that_is_new_does_not_repeat_what_ran() -> None:
    """02:30 ran; by newer data that was before a gap which holds 02:30 once more."""
    rule = Rule(cron="30 2 * * *", timezone="Europe/Berlin")
    gap_at = ms("2026-03-29T01:00+00:00")
    cursor = Cursor(gap_at - 30 * MINUTE, ms("2026-03-29T02:30+00:00"))
    fire = next_after(rule, cursor)
    assert fire is not None
    assert fire.local == "2026-03-30T02:30:00+02:00"
    both = next_after(Rule(cron="30,45 2 * * *", timezone="Europe/Berlin"), cursor)
    assert both is not None
    assert both.nominal_at == gap_at


def test_a_cursor_of_an_interval_is_its_instant() -> None:
    rule = Rule(every_ms=HOUR)
    fire = next_after(rule, Cursor(HOUR, 99 * HOUR))
    assert fire is not None
    assert fire.nominal_at == 2 * HOUR


@pytest.mark.parametrize(
    ("rule", "pointers", "code"),
    [
        (Rule(), ["/cron"], "validation_failed"),
        (Rule(cron="* * * * *", every_ms=1_000), ["/cron"], "validation_failed"),
        (Rule(cron="* * * *", timezone="Nowhere"), ["/cron", "/timezone"], "validation_failed"),
        (Rule(cron="0 0 30 2 *"), ["/cron"], "cron_never_fires"),
        (Rule(cron="0 0 30 2 *", timezone="Nowhere"), ["/cron", "/timezone"], "validation_failed"),
        (Rule(every_ms=0), ["/every"], "validation_failed"),
        (Rule(every_ms=10**15), ["/every"], "validation_failed"),
        (Rule(cron="* * * * *", anchor_at=5), ["/anchor"], "validation_failed"),
    ],
)
def test_a_rule_that_cannot_be_meant_names_each_fault(rule: Rule, pointers: list[str], code: str) -> None:
    with pytest.raises(Refused) as caught:
        check(rule)
    assert [pointer for pointer, _ in caught.value.errors] == pointers
    assert caught.value.code == code


def test_a_good_rule_passes() -> None:
    check(Rule(cron="@daily", timezone="Europe/Berlin"))
    check(Rule(every_ms=1_000, anchor_at=-5))
    assert zones.offset_ms("Europe/Berlin", 0) == HOUR
