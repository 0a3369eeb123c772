"""Schedules as the API takes and tells them, and as the checker of ledgers has them. Pure."""

from datetime import datetime
from random import Random
from typing import Any

from tests.chaos.ledger_story import Edition
from tests.chaos.nominal import EPOCH, Timing
from tests.chaos.receiver import Receiver

BEHAVIOURS = ("ok", "ok", "slow", "flaky", "hang", "reset")
RULES: tuple[dict[str, Any], ...] = (
    {"every": 1},
    {"every": 2},
    {"every": 3},
    {"every": 5},
    {"cron": "* * * * * *", "timezone": "Europe/Berlin"},
    {"cron": "*/2 * * * * *", "timezone": "America/New_York"},
    {"cron": "1-59/3 * * * * *", "timezone": "Australia/Lord_Howe"},
    {"cron": "*/5 * * * * *", "timezone": "Asia/Kolkata"},
    {"cron": "* * * * *", "timezone": "UTC"},
    {"cron": "*/7 * * * * *", "timezone": "UTC", "dst": {"repeat": "both"}},
)
OVERLAPS = ("skip", "allow", "buffer_one")
MODES = ("latest", "earliest", "none", "all")


def body_of(random: Random, receiver: Receiver, place: int) -> dict[str, Any]:
    """A schedule to be made: each rule, overlap and mode has its turn."""
    catch_up: dict[str, Any] = {"mode": MODES[place % len(MODES)]}
    if place % 5 == 4:
        catch_up["window"] = 5
    if place % 3 == 2:
        catch_up["max"] = 4
    return {
        **RULES[place % len(RULES)],
        "overlap": OVERLAPS[place % len(OVERLAPS)],
        "catch_up": catch_up,
        "jitter": 0.4 if place % 6 == 5 else 0,
        "task": {
            "target": {
                "url": receiver.url(random.choice(BEHAVIOURS), f"s{place}"),
                "timeout": 0.5,
                "body": {"place": place},
            },
            "retry": {"max_attempts": 3, "strategy": "fixed", "initial": 0.1, "jitter": 0},
        },
    }


def edition_of(document: dict[str, Any]) -> Edition:
    """What the API says of a schedule."""
    dst, late = document["dst"], document["catch_up"]
    return Edition(
        version=document["version"],
        at=instant(document["updated_at"]),
        timing=Timing(
            cron=document["cron"],
            every_ms=milliseconds(document["every"]),
            zone=document["timezone"],
            gap=dst["gap"],
            repeat=dst["repeat"],
        ),
        overlap=document["overlap"],
        mode=late["mode"],
        window_ms=milliseconds(late["window"]),
        max_runs=late["max"],
        max_fires=document["max_fires"],
        jitter_ms=milliseconds(document["jitter"]) or 0,
        paused=document["paused"],
        paused_until=None if document["paused_until"] is None else instant(document["paused_until"]),
    )


def instant(text: str) -> int:
    """Milliseconds since the epoch."""
    return round((datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH).total_seconds() * 1_000)


def milliseconds(seconds: float | None) -> int | None:
    """The API tells durations in seconds."""
    return None if seconds is None else round(seconds * 1_000)
