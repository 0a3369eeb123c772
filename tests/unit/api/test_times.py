"""Instants and durations, in every spelling that is taken and in some that are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.api.times import (
    INSTANT_MAX_MS,
    INSTANT_MIN_MS,
    duration_ms,
    instant_ms,
    seconds,
    written,
)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-12-01T09:00:00+01:00", 1_796_112_000_000),
        ("2026-12-01t08:00:00.1z", 1_796_112_000_100),
        ("2026-12-01 08:00:00.1234Z", 1_796_112_000_124),
        ("2026-12-01T08:00:00.123000000-00:00", 1_796_112_000_123),
        ("2026-12-01T08:00:00.123Z", 1_796_112_000_123),
        ("2026-12-01t09:00:00.007+01:00", 1_796_112_000_007),
        ("2026-12-01 08:00:00.999z", 1_796_112_000_999),
        ("2026-12-01T08:00:00.12Z", 1_796_112_000_120),
        ("2026-12-01T08:00:00.1230Z", 1_796_112_000_123),
        ("2026-12-01T08:00:00.1231+00:00", 1_796_112_000_124),
        ("1969-12-31T23:59:59.999Z", -1),
        ("9999-12-31T23:59:59.999Z", INSTANT_MAX_MS),
        (0, 0),
        (1_796_112_000, 1_796_112_000_000),
        (1_796_112_000.123, 1_796_112_000_123),
        (-1.5, -1_500),
    ],
)
def test_instants(text: str | float, ms: int) -> None:
    assert instant_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "2026-12-01", "2026-12-01T08:00:00", "2026-12-01T08:00Z", "20261201T080000Z", "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z", "2026-12-01T24:00:00Z", "2026-12-01T08:00:60Z", "2026-12-01T08:00:00+24:00",
        "2026-12-01T08:00:00+0100", "2026-W01-1T00:00:00Z", "²026-12-01T08:00:00Z", "9999-12-31T23:59:59.9991Z",
        "2026-12-01T08:00:00.123", "2026-12-01T08:00:00.123+0100", "2026-12-01T08:00:00.123Z ", "2026-12-01T08:00:00.Z",
        "2026-12-01T08:00:00.²23Z", "2026-12-01T08:00:00.\u0661\u0662\u0663Z", "2026-13-01T08:00:00.123Z",
        "2026-12-01T08:00:00.123.5Z", "2026-12-01T08:00:0.123Z", "2026-12-01T08:00:00.12+Z", "2026-12-01T24:00:00.123Z",
        "0001-01-01T00:00:00+14:00", " 2026-12-01T08:00:00Z", float("nan"), float("inf"), 1e300, 10**30,
    ],
)  # fmt: skip
def test_no_instants(text: str | float) -> None:
    with pytest.raises(ValueError, match=r"[A-Z].*\."):
        instant_ms(text)


@pytest.mark.parametrize("number", [1_796_112_000_000, 1_796_112_000_123.5, 253_402_300_800])
def test_milliseconds_are_told_from_what_no_instant_is(number: float) -> None:
    with pytest.raises(ValueError, match=r"looks like milliseconds: send seconds"):
        instant_ms(number)
    with pytest.raises(ValueError, match="years 1 to 9999"):
        instant_ms(number * 1_000_000)


@given(st.integers(INSTANT_MIN_MS, INSTANT_MAX_MS))
def test_what_is_written_is_read(ms: int) -> None:
    assert instant_ms(written(ms)) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90s", 90_000), ("1h30m", 5_400_000), ("500ms", 500), ("2d", 172_800_000), ("PT90S", 90_000), ("0s", 0),
        ("1.5h", 5_400_000), ("1m500ms", 60_500), ("P1DT2H", 93_600_000), ("P1W", 604_800_000), ("PT0.5S", 500),
        ("PT1,5M", 90_000), ("0.0001s", 1), ("0.3s", 300), (30, 30_000), (0.5, 500), (0, 0), (0.0001, 1),
    ],
)  # fmt: skip
def test_durations(text: str | float, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "90",
        "1 h",
        "30m1h",
        "-1s",
        "P",
        "PT",
        "P1DT",
        "P1M",
        "P1Y",
        "1e3s",
        "1.s",
        "٣s",
        "9" * 65,
        -1,
        float("nan"),
    ],
)
def test_no_durations(text: str | float) -> None:
    with pytest.raises(ValueError, match=r"[A-Z].*\."):
        duration_ms(text)


@given(st.integers(0, 10**12))
def test_seconds_are_read_back(ms: int) -> None:
    assert duration_ms(seconds(ms)) == ms


@pytest.mark.parametrize("value", [-5, -0.001, "-5s", "-1h30m"])
def test_a_negative_duration_is_called_so(value: str | float) -> None:
    with pytest.raises(ValueError, match=r"^A duration is not negative\.$"):
        duration_ms(value)
