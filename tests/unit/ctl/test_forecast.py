"""`ctl forecast`: the bars, what is marked, and what is said to do about it."""

from typing import Any

import pytest

from tasktick.ctl.bars import bar
from tests.fakes.api_stub import ApiStub, told
from tests.unit.ctl.conftest import Ctl


def part(*names: str) -> dict[str, Any]:
    top = [{"name": name, "fires": 9, "peak": {"at": "2026-02-11T00:00:00.000Z", "fires": 9}} for name in names]
    return {"top": top, "names": len(names), "rest": 0}


def forecast(*buckets: tuple[str, int, int], peaks: list[dict[str, Any]] | None = None, step: int = 3_600) -> Any:
    shown = [
        {"at": f"2026-02-{day}:00.000Z", "fires": fires, "starts": fires, "delayed": 0, "backlog": backlog}
        for day, fires, backlog in buckets
    ]
    return {
        "from": "2026-02-10T22:00:00.000Z",
        "to": "2026-02-11T02:00:00.000Z",
        "step": step,
        "made_at": "2026-02-10T22:00:00.000Z",
        "complete": False,
        "notes": [{"code": "sampled", "detail": "Of 2,000,000 schedules 50,000 were read."}],
        "totals": {"fires": 130, "delayed": 40, "backlog_max": 40, "backlog_end": 0, "schedules": 5},
        "buckets": shown,
        "peaks": peaks or [],
        "by": {"queue": part("mail", "\x1bevil"), "host": part("a:443"), "tenant": part("default")},
        "limits": {"nodes": 1, "in_flight": 10_000, "in_flight_per_host": 256, "hosts_measured": 0},
    }


PEAK = {
    "at": "2026-02-11T00:00:00.000Z",
    "fires": 100,
    "backlog": 40,
    "cleared_at": "2026-02-11T00:02:00.000Z",
}


def test_bars_with_the_herd_marked(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(forecast(("10T22:00", 25, 0), ("11T00:00", 100, 40), ("11T01:00", 5, 0), peaks=[PEAK])))
    result = ctl("forecast", "--hours", "4", "--by", "hour", "--queue", "mail", "--host", "a:443")
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].path == "/v1/forecast?hours=4&by=hour&queue=mail&host=a:443"
    quiet, nothing, full, rest = result.stdout.splitlines()[:4]
    assert quiet.startswith("2026-02-10T22:00:00.000Z   25 ██")
    assert nothing == "2026-02-10T23:00:00.000Z    0"
    assert "█░" in full
    assert full.endswith("< peak, midnight herd")
    assert rest.startswith("2026-02-11T01:00:00.000Z    5 █")
    assert max(map(len, (quiet, nothing, full, rest))) <= 80
    assert "\x1b" not in result.stdout
    assert "130 fires, a bar for each hour. 40 start later than they are due; at most 40 wait." in result.stdout
    assert "By queue: mail 9, \\x1bevil 9" in result.stdout
    assert "By host" not in result.stdout
    assert "Mind: Of 2,000,000 schedules 50,000 were read." in result.stderr
    assert "more than may start at once: all start by 2026-02-11T00:02:00.000Z." in result.stderr
    assert "tasktick ctl schedule edit ID --jitter 10m" in result.stderr


def test_what_does_not_end_is_said(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(forecast(("11T00:07", 100, 40), peaks=[PEAK | {"cleared_at": None}], step=60)))
    result = ctl("forecast", "--hours", "4", "--by", "minute")
    assert "not all start within this time" in result.stderr
    assert len(result.stdout.splitlines()) == 4  # by the minute, those in which nothing happens are left out


@pytest.mark.parametrize(("hours", "by"), [("6", "quarter"), ("7", "hour")])
def test_steps_fit_the_time(ctl: Ctl, stub: ApiStub, hours: str, by: str) -> None:
    stub.tell(told(forecast()))
    result = ctl("forecast", "--hours", hours)
    assert stub.asked[0].path == f"/v1/forecast?hours={hours}&by={by}"
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"Nothing is to come in the next {hours} h." in result.stderr


def test_as_json(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(forecast()))
    assert '"totals"' in ctl("forecast", "-o", "json").stdout


@pytest.mark.parametrize(
    ("due", "waits", "drawn"),
    [
        (100, 0, ("█" * 10, "")),
        (50, 0, ("█" * 5, "")),
        (5, 0, ("▌", "")),
        (0, 0, ("", "")),
        (1, 0, ("▏", "")),
        (50, 50, ("█" * 5, "░" * 5)),
        (0, 1, ("", "░")),
    ],
)
def test_bar(due: int, waits: int, drawn: tuple[str, str]) -> None:
    shown, behind = bar(due, waits, 100, 10)
    assert (shown.rstrip(), behind) == drawn


def test_bars_of_nothing() -> None:
    assert bar(0, 0, 0, 10) == ("", "")
