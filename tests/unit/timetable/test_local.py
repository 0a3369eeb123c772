"""Local readings: the instant that is meant, the first of two, and none in a gap."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tasktick.timetable.local import instant_of

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a local reading has no zone


def reading(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("zone", "local", "instant"),
    [
        ("UTC", "2028-02-29T12:00:00.123", "2028-02-29T12:00:00.123+00:00"),
        ("Europe/Berlin", "2028-03-26T01:59:59.999", "2028-03-26T01:59:59.999+01:00"),
        ("Europe/Berlin", "2028-03-26T02:00:00", None),
        ("Europe/Berlin", "2028-03-26T02:59:59.999", None),
        ("Europe/Berlin", "2028-03-26T03:00:00", "2028-03-26T03:00:00+02:00"),
        ("Europe/Berlin", "2028-10-29T02:00:00", "2028-10-29T02:00:00+02:00"),
        ("Europe/Berlin", "2028-10-29T02:59:59.999", "2028-10-29T02:59:59.999+02:00"),
        ("Europe/Berlin", "2028-10-29T03:00:00", "2028-10-29T03:00:00+01:00"),
        ("Australia/Lord_Howe", "2028-10-01T02:15:00", None),
        ("Australia/Lord_Howe", "2028-04-02T01:45:00", "2028-04-02T01:45:00+11:00"),
        ("Pacific/Apia", "2011-12-30T12:00:00", None),
        ("Pacific/Kiritimati", "2028-01-01T00:00:00", "2028-01-01T00:00:00+14:00"),
    ],
)
def test_what_is_meant(zone: str, local: str, instant: str | None) -> None:
    wanted = None if instant is None else round(datetime.fromisoformat(instant).timestamp() * 1_000)
    assert instant_of(zone, reading(local)) == wanted


def test_every_half_hour_of_a_year_agrees_with_the_standard_library() -> None:
    zone = "America/Santiago"
    for number in range(366 * 48):
        local = datetime(2028, 1, 1) + number * timedelta(minutes=30)  # noqa: DTZ001 - as above
        at = local.replace(tzinfo=ZoneInfo(zone)).timestamp()
        exists = datetime.fromtimestamp(at, ZoneInfo(zone)).replace(tzinfo=None) == local
        wanted = round(at * 1_000) if exists else None
        assert instant_of(zone, (local - EPOCH) // timedelta(milliseconds=1)) == wanted


@pytest.mark.parametrize("local", ["0001-01-01T00:00:00", "9999-12-31T23:59:59"])
def test_the_ends_of_the_calendar(local: str) -> None:
    assert instant_of("America/New_York", reading(local)) is not None
