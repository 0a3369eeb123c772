"""Rules in English."""

import pytest

from tasktick.model.schedule import Rule
from tasktick.timetable.describe import describe


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 9 * * MON-FRI", "At 09:00, Monday through Friday"),
        ("@hourly", "Every hour"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("0 0 L * *", "At 00:00, on the last day of the month"),
        ("0 0 1,L * *", "At 00:00, on day 1 and the last day of the month"),
        ("0 0 1W,15W * *", "At 00:00, on the weekday nearest to day 1 and the weekday nearest to day 15"),
        ("0 0 LW * *", "At 00:00, on the last weekday of the month"),
        ("0 0 1-7,20 * 5L", "At 00:00, on days 1 to 7 and 20, and on the last Friday of the month"),
        ("0 0 1,15 * MON#2", "At 00:00, on days 1 and 15, and on the second Monday of the month"),
        ("0 0 */10 * MON", "At 00:00, on days 1, 11, 21 and 31, but only if that is on Monday"),
        ("0 0 * * 0,7", "At 00:00, on Sunday"),
    ],
)
def test_a_cron(cron: str, expected: str) -> None:
    assert describe(Rule(cron=cron, timezone="Europe/Berlin")) == f"{expected}, Europe/Berlin time."


def test_six_fields_say_so() -> None:
    said = describe(Rule(cron="30 0 9 * * *"))
    assert said == "At 09:00:30, UTC time (six fields: seconds first)."


@pytest.mark.parametrize(
    ("every_ms", "expected"),
    [
        (3_600_000, "Every hour, counted from the Unix epoch."),
        (5_400_000, "Every 1 hour and 30 minutes, counted from the Unix epoch."),
        (90_061_001, "Every 1 day, 1 hour, 1 minute, 1 second and 1 millisecond, counted from the Unix epoch."),
        (172_800_000, "Every 2 days, counted from the Unix epoch."),
    ],
)
def test_an_interval(every_ms: int, expected: str) -> None:
    assert describe(Rule(every_ms=every_ms)) == expected


def test_an_anchored_interval() -> None:
    assert describe(Rule(every_ms=60_000, anchor_at=5)) == "Every minute, counted from its anchor."
