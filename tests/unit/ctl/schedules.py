"""Schedules as the API answers them, and what is printed of them."""

import re
from typing import Any

from tests.fakes.api_stub import Told, told

ID = "sch_0190a7c1d2e37f0081c2d3e4f5061707"
TASK_ID = "tsk_0190a7c1d2e37f0081c2d3e4f5061708"
DATE = "Tue, 10 Feb 2026 06:30:00 GMT"
URL = "https://app.example/report"
SCHEDULE: dict[str, Any] = {
    "id": ID,
    "key": "daily",
    "tenant": "default",
    "name": "Daily report",
    "cron": "0 9 * * MON-FRI",
    "every": None,
    "anchor": None,
    "timezone": "Europe/Berlin",
    "dst": {"gap": "run_after", "repeat": "first"},
    "start_at": None,
    "end_at": "2027-01-01T00:00:00.000Z",
    "max_fires": 2_000,
    "jitter": 600.0,
    "overlap": "skip",
    "catch_up": {"mode": "all", "window": 21_600.0, "max": 10},
    "paused": False,
    "paused_until": None,
    "note": None,
    "next_fire_at": "2026-02-10T08:00:00.000Z",
    "last_fire_at": "2026-02-09T08:00:00.000Z",
    "counts": {"fired": 1_204, "skipped": 0, "missed": 3, "failed": 1},
    "ended": False,
    "clock_behind_ledger": False,
    "tags": {"team": "billing"},
    "task": {"target": {"url": URL, "method": "POST"}, "queue": "reports"},
    "version": 4,
}
FIRE = {
    "nominal": "2026-02-10T08:00:00.000Z",
    "local": "2026-02-10T09:00:00+01:00",
    "effective": "2026-02-10T08:04:00.000Z",
    "note": None,
}
_ROW = {"reason": None, "task_id": None, "state": None, "collapsed": 1, "missed": 0, "count": 1}
_STRETCH = {"from": "2026-01-01T08:00:00.000Z", "to": "2026-02-01T08:00:00.000Z", "count": 1_234}
LEDGER: list[dict[str, Any]] = [
    {**_ROW, "nominal": "2026-02-09T08:00:00.000Z", "outcome": "run", "task_id": TASK_ID, "missed": 2},
    {**_ROW, "nominal": "2026-02-08T08:00:00.000Z", "outcome": "skipped", "reason": "overlap", "collapsed": 2},
    {**_ROW, "nominal": "2026-01-01T08:00:00.000Z", "outcome": "missed", "reason": "catch_up:latest", **_STRETCH},
]


def schedule(**more: Any) -> Told:
    """An answer with a schedule."""
    return told({**SCHEDULE, **more}, Date=DATE)


def page(*rows: Any, cursor: str | None = None) -> Told:
    """An answer with a page of a list."""
    return told({"data": list(rows), "next_cursor": cursor}, Date=DATE)


def fields(text: str) -> dict[str, str]:
    """What `show` says, by its words."""
    return dict(re.split(r"  +", line, maxsplit=1) for line in text.splitlines() if "  " in line)
