"""Preview is reality in the real process: short intervals, asked before, compared when their time has come."""

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import end
from tests.cli.test_schedules import ANSWERS, Running
from tests.fakes.api_stub import Told, api_stub

pytestmark = [pytest.mark.process, pytest.mark.slow]

SPAN_S = 4
SETS: tuple[dict[str, Any], ...] = (
    {"every": 0.5},
    {"every": "1s", "jitter": 0.7},
    {"every": 1.3, "anchor": "2026-01-01T00:00:00.250Z", "max_fires": 2},
    {"cron": "* * * * * *", "timezone": "Asia/Kolkata"},
    {"cron": "*/2 * * * * *", "jitter": "1s", "calendars": ["never"]},
    {"cron": "* * * * * *", "calendars": ["always"]},
    {"rrule": "FREQ=SECONDLY;INTERVAL=2", "timezone": "Australia/Lord_Howe"},
    {"spec": [{"every": "1s"}, {"cron": "* * * * *"}], "jitter": 0.3},
)


def _milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1_000)


def test_what_the_process_says_is_what_it_does(tmp_path: Path) -> None:
    with api_stub() as receiver:
        receiver.tell(*[Told()] * ANSWERS)
        running = Running(tmp_path)
        try:
            running.ask("PUT", "/v1/calendars/always", {"weekly": [{"days": "MON-SUN"}]})
            running.ask("PUT", "/v1/calendars/never", {"dates": ["1990-01-01"]})
            said: dict[str, list[tuple[int, str, int, bool]]] = {}
            for one in SETS:
                # However slow the machine is, a fire is not skipped for the one before it.
                body = {**one, "overlap": "allow", "task": {"target": {"url": receiver.url}}}
                name = running.ask("POST", "/v1/schedules", body)["id"]
                said[name] = _said(running.ask("GET", f"/v1/schedules/{name}/upcoming?count=50")["fires"])
            until = int(time.time() * 1_000) + SPAN_S * 1_000
            running.until(
                lambda: all(_is_past(running, name, until) for name in said if not _is_over(said[name], until))
            )
            for name, fires in said.items():
                ledger = [row for row in running.ledger(name) if row["outcome"] != "missed"]
                came = [
                    (
                        _milliseconds(row["nominal"]),
                        row["local"],
                        _milliseconds(row["effective"]),
                        row["outcome"] == "skipped",
                    )
                    for row in ledger
                ]
                # What had its time before it was asked for is not told any more.
                since = fires[0][0] if fires else until
                assert [row for row in came if since <= row[0] <= until] == [row for row in fires if row[0] <= until]
        finally:
            end(running.process)


def _said(fires: list[dict[str, Any]]) -> list[tuple[int, str, int, bool]]:
    return [
        (_milliseconds(one["nominal"]), one["local"], _milliseconds(one["effective"]), one["skipped"] is not None)
        for one in fires
    ]


def _is_over(fires: list[tuple[int, str, int, bool]], until: int) -> bool:
    """Whether it has no more to say until then, and has no more after it."""
    return not fires or fires[-1][0] <= until


def _is_past(running: Running, name: str, until: int) -> bool:
    rows = running.ledger(name)
    return bool(rows) and _milliseconds(rows[-1]["nominal"]) > until
