"""Zones: which names there are, where their data is from, and their spans of constant offset."""

import zoneinfo
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tasktick.errors import Refused
from tasktick.timetable import zones

YEAR_MS = 366 * 86_400_000
FROM_MS = 1_704_067_200_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "name",
    [
        *["", "Mars/Olympus", "europe/berlin", "Europe/Berlin ", "../../etc/passwd", "/etc/localtime", "zones", "a\0b"],
        *["localtime", "Europe", "Europe/../Europe/Berlin", "x" * 10_000, "CEST", "UTC+1"],
    ],
)
def test_what_is_not_in_the_list_is_refused_before_any_file_is_opened(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zones.names()
    monkeypatch.setattr(zoneinfo, "ZoneInfo", lambda key: pytest.fail(f"opened {key}"))
    with pytest.raises(Refused) as caught:
        zones.zone(name)
    assert caught.value.code == "validation_failed"
    assert caught.value.errors[0][0] == "/timezone"
    assert len(caught.value.detail) < 300


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Berlin", "is it Europe/Berlin?"),
        ("europe/berlin", "is it Europe/Berlin?"),
        ("new york", "is it America/New_York?"),
        ("+01:00", "such as Europe/Berlin, or UTC."),
        ("louisville", "such as Europe/Berlin, or UTC."),  # there are two
    ],
)
def test_the_refusal_of_a_name_says_which_was_meant_if_there_is_one(name: str, advice: str) -> None:
    with pytest.raises(Refused) as caught:
        zones.zone(name)
    assert caught.value.detail.endswith(advice)


def test_every_name_of_the_list_is_a_zone() -> None:
    assert {"UTC", "Europe/Berlin", "Antarctica/Troll", "America/Argentina/Buenos_Aires"} <= zones.names()
    for name in sorted(zones.names())[::10]:
        assert zones.zone(name).utcoffset(datetime(2026, 1, 1)) is not None  # noqa: DTZ001


def test_the_package_comes_before_the_system() -> None:
    zones.names()
    assert "site-packages" in Path(zoneinfo.TZPATH[0]).parts
    assert (Path(zoneinfo.TZPATH[0]) / "Europe/Berlin").is_file()


def test_the_version_is_that_of_the_data() -> None:
    assert zones.version()[:4].isdigit()


@pytest.mark.parametrize(
    "name", ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "Asia/Gaza"]
)
def test_spans_follow_each_other_and_agree_with_zoneinfo(name: str) -> None:
    zone = zoneinfo.ZoneInfo(name)
    at = FROM_MS
    while at < FROM_MS + 60 * YEAR_MS:
        span = zones.segment(name, at)
        assert span.start_at <= at < span.end_at
        for moment, offset_ms in [
            (span.start_at - 1, span.offset_before_ms),
            (span.start_at, span.offset_ms),
            (at, span.offset_ms),
            ((at + span.end_at) // 2, span.offset_ms),
            (span.end_at - 1, span.offset_ms),
            (span.end_at, span.offset_after_ms),
        ]:
            local = (EPOCH + timedelta(milliseconds=moment)).astimezone(zone)
            assert local.utcoffset() == timedelta(milliseconds=offset_ms)
        if at == span.start_at:
            assert zones.segment(name, at - 1).end_at == at
        at = span.end_at


@pytest.mark.slow
@pytest.mark.timeout(300)  # every change of every zone; on a busy machine it takes its time
def test_no_span_is_cut_near_a_change_and_no_change_is_missed() -> None:
    """What the search for spans rests on: changes are further apart than its steps, and cuts lie in quiet."""
    zones.names()
    # Every other name is another's: each set of data once.
    distinct = {(Path(zoneinfo.TZPATH[0]) / name).read_bytes(): name for name in zones.names()}
    assert len(distinct) > 200
    for name in sorted(distinct.values()):
        zone = zoneinfo.ZoneInfo(name)
        at = FROM_MS - 40 * YEAR_MS
        until = FROM_MS + 60 * YEAR_MS
        changes: list[int] = []
        while at < until:
            span = zones.segment(name, at)
            if span.offset_ms != span.offset_after_ms:
                changes.append(span.end_at)
            else:
                around = range(span.end_at - 2 * 86_400_000, span.end_at + 2 * 86_400_000, 6 * 3_600_000)
                offsets = {(EPOCH + timedelta(milliseconds=t)).astimezone(zone).utcoffset() for t in around}
                assert len(offsets) == 1, (name, span)
            at = span.end_at
        gaps = [later - earlier for earlier, later in pairwise(changes)]
        assert min(gaps, default=YEAR_MS) > 6 * 86_400_000, name
