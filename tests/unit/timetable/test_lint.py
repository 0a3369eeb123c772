"""Warnings: each where it belongs, and none where all is well."""

import pytest

from tasktick.model.schedule import Rule
from tasktick.timetable.lint import lint

# 2026-02-10T00:00Z.
NOW = 1_770_681_600_000
DAY = 86_400_000


def codes(rule: Rule, until: int | None = None) -> list[str]:
    return [advice.code for advice in lint(rule, NOW, until)]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 9 * * MON-FRI", []),
        ("*/15 * * * *", []),
        ("5 * * * *", []),
        ("0 */6 * * *", []),
        ("30 0 9 * * *", ["seconds_first"]),
        ("0 9 1 * MON", ["day_fields"]),
        ("0 9 */2 * MON", ["day_fields", "uneven_step"]),
        ("*/7 * * * *", ["uneven_step"]),
        ("0-59/7 * * * *", ["uneven_step"]),
        ("0 */5 * * *", ["uneven_step"]),
        ("0 9 * */5 *", ["uneven_step"]),
        ("0 9 * * */2", ["uneven_step"]),
        ("0-30/7 9 * * *", []),
        ("30 2 * * *", ["dst_gap", "dst_repeat"]),
        ("*/30 2 * * *", ["dst_gap", "dst_repeat"]),
        ("30 2 * 6 *", []),
        ("0 0 * * *", ["midnight"]),
        ("@daily", ["midnight"]),
        ("0 0,12 * * *", []),
        ("@hourly", ["top_of_hour"]),
        ("0 * * * *", ["top_of_hour"]),
        ("0 9 31 * *", ["short_months"]),
        ("0 9 29 2 *", ["short_months"]),
        ("0 9 15,30 * *", ["short_months"]),
        ("0 9 31 1,3 *", []),
        ("0 9 31,L * *", []),
        ("0 9 1-31 * *", []),
        ("0 9 31 * FRI", ["day_fields"]),
    ],
)
def test_codes(cron: str, expected: list[str]) -> None:
    assert codes(Rule(cron=cron, timezone="Europe/Berlin")) == expected


def test_no_changes_of_clock_where_there_are_none() -> None:
    assert codes(Rule(cron="30 2 * * *", timezone="Asia/Tokyo")) == []


def test_what_becomes_of_a_gap_is_said() -> None:
    said = {
        choice: lint(Rule(cron="30 2 * * *", timezone="Europe/Berlin", gap=choice), NOW)[0].detail
        for choice in ("run_after", "skip")
    }
    assert "2026-03-29 02:30 does not exist" in said["run_after"]
    assert "first instant after" in said["run_after"]
    assert "left out" in said["skip"]
    wildcard = lint(Rule(cron="*/30 2 * * *", timezone="Europe/Berlin"), NOW)
    assert "does not fire then" in wildcard[0].detail
    assert "both passes" in wildcard[1].detail


def test_a_schedule_that_ends_before_it_fires() -> None:
    rule = Rule(cron="0 9 1 12 *", timezone="Europe/Berlin")
    assert codes(rule, until=NOW + 30 * DAY) == ["never_fires"]
    assert codes(rule, until=NOW + 330 * DAY) == []


def test_an_interval_has_nothing_to_warn_of() -> None:
    assert codes(Rule(every_ms=60_000)) == []
    assert codes(Rule(every_ms=10 * DAY), until=NOW + 1) == ["never_fires"]
    assert codes(Rule(every_ms=90 * 60_000)) == []


def test_intervals_of_whole_hours_come_when_others_do() -> None:
    assert codes(Rule(every_ms=6 * 3_600_000)) == ["top_of_hour"]
    assert codes(Rule(every_ms=DAY)) == ["midnight"]
    assert codes(Rule(every_ms=DAY, anchor_at=9 * 3_600_000)) == ["top_of_hour"]
    assert codes(Rule(every_ms=DAY, anchor_at=9 * 3_600_000 + 1_000)) == []


def test_what_short_months_come_to_is_said() -> None:
    assert "leap years only" in lint(Rule(cron="0 9 29 2 *"), NOW)[0].detail
    assert "without day 31" in lint(Rule(cron="0 9 30,31 * *"), NOW)[0].detail
