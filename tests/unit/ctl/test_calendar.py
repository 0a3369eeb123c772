"""`ctl calendar`, and schedules that name calendars or leave out a time."""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.api_stub import ApiStub, told
from tests.unit.ctl.conftest import Ctl
from tests.unit.ctl.schedules import ID, URL, page, schedule

CALENDAR: dict[str, Any] = {
    "name": "holidays",
    "timezone": None,
    "dates": ["2026-12-25"],
    "ranges": [],
    "weekly": [],
    "note": None,
    "left_out": [{"event": "Odd", "detail": "It has no DTSTART."}],
    "updated_at": "2026-02-10T08:00:00.000Z",
    "version": 1,
}


def test_put_says_what_was_given(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(CALENDAR))
    flags = ["--date", "2026-12-25", "--date", "2026-12-30..2027-01-02", "--timezone", "Europe/Berlin", "--note", "n"]
    more = ["--weekly", "MON-FRI 18:00-08:00", "--weekly", "SAT", "--range", "2026-03-01T22:00:00..1780000000"]
    result = ctl("calendar", "put", "holidays", *flags, *more)
    assert result.exit_code == 0, result.stderr
    assert (stub.asked[0].method, stub.asked[0].path) == ("PUT", "/v1/calendars/holidays")
    assert stub.asked[0].document == {
        "dates": ["2026-12-25", {"from": "2026-12-30", "to": "2027-01-02"}],
        "ranges": [{"from": "2026-03-01T22:00:00", "to": 1_780_000_000}],
        "weekly": [{"days": "MON-FRI", "from": "18:00", "to": "08:00"}, {"days": "SAT"}],
        "timezone": "Europe/Berlin",
        "note": "n",
    }
    assert "Left out: Odd: It has no DTSTART." in result.stderr


def test_put_from_a_file_of_either_kind(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    stub.tell(told(CALENDAR), told(CALENDAR))
    file = b"BEGIN:VCALENDAR\r\nEND:VCALENDAR"
    (tmp_path / "a.ics").write_bytes(b"\n" + file + b"\r\n")
    (tmp_path / "a.json").write_bytes(b'{"dates": ["2026-12-25"]}')
    for name in ("a.ics", "a.json"):
        assert ctl("calendar", "put", "x", "--file", str(tmp_path / name)).exit_code == 0
    assert (stub.asked[0].headers["content-type"], stub.asked[0].body) == ("text/calendar", file)
    assert stub.asked[1].document == {"dates": ["2026-12-25"]}


def test_a_file_that_is_neither(ctl: Ctl, stub: ApiStub) -> None:
    result = ctl("calendar", "put", "x", "--file", "-", stdin="Subject,Start Date\n")
    assert (result.exit_code, stub.asked) == (2, [])
    assert "neither iCalendar, which begins with BEGIN:VCALENDAR, nor JSON" in result.stderr


def test_what_stands_in_it_is_a_line_for_each_time(ctl: Ctl, stub: ApiStub) -> None:
    days = ["2026-12-25", {"from": "2026-12-30", "to": "2027-01-02"}]
    ranges = [
        {"from": "2026-12-31T18:00:00", "to": "2027-01-01T06:00:00", "timezone": "Europe/Berlin"}
        | {"rrule": "FREQ=YEARLY", "except": ["2027-12-31T18:00:00"], "summary": "New Year"},
    ]
    weekly = [{"days": "SAT,SUN", "from": "00:00", "to": "00:00"}, {"days": "MON", "from": "18:00", "to": "08:00"}]
    many = [f"2027-{month:02}-{day:02}" for month in range(1, 4) for day in range(1, 21)]
    stub.tell(told({"dates": days, "ranges": ranges, "weekly": weekly}), told({"dates": many}))
    assert [line[8:].rstrip() for line in ctl("calendar", "show", "x").stdout.splitlines()] == [
        "2026-12-25",
        "2026-12-30 to 2027-01-02",
        "2026-12-31T18:00:00 to 2027-01-01T06:00:00, Europe/Berlin, FREQ=YEARLY, except 2027-12-31T18:00:00: New Year",
        "SAT,SUN all day",
        "MON 18:00 to 08:00",
    ]
    shown = ctl("calendar", "show", "x").stdout.splitlines()
    assert len(shown) == 51
    assert shown[-1].strip() == "and 10 more: -o json has all of them"


@pytest.mark.parametrize("flags", [(), ("--range", "now"), ("--weekly", "MON 8"), ("--note", "x", "--file", "-")])
def test_put_used_wrongly(ctl: Ctl, stub: ApiStub, flags: tuple[str, ...]) -> None:
    assert ctl("calendar", "put", "x", *flags, stdin="{}").exit_code == 2
    assert not stub.asked


def test_the_others(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(page(CALENDAR), told(CALENDAR), told(CALENDAR), told(None, status=204))
    listed = ctl("calendar", "list")
    assert listed.stdout.splitlines()[1].split() == [*("holidays", "-", "1", "0", "0", CALENDAR["updated_at"], "-")]
    assert "2026-12-25" in ctl("calendar", "show", "holidays").stdout
    assert "2026-12-25" in ctl("calendar", "get", "holidays").stdout
    assert ctl("calendar", "delete", "holidays", "--yes").exit_code == 0
    assert [one.method for one in stub.asked] == ["GET", "GET", "GET", "DELETE"]


def test_schedules_name_them_and_leave_out_times(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(*[schedule()] * 4)
    ctl("schedule", "add", URL, "--every", "1h", "--calendar", "a", "--calendar", "only:b")
    assert stub.asked[0].document["calendars"] == ["a", {"name": "b", "mode": "include"}]
    ctl("schedule", "edit", ID, "--calendar", "none")
    assert stub.asked[1].document == {"calendars": []}
    for place, word in ((2, "skip"), (3, "unskip")):
        result = ctl("schedule", word, ID, "2026-12-24T09:00:00+01:00")
        assert result.exit_code == 0, result.stderr
        assert stub.asked[place].path == f"/v1/schedules/{ID}/{word}"
        assert stub.asked[place].document == {"at": "2026-12-24T09:00:00+01:00"}
