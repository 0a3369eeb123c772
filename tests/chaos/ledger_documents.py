"""Schedules and the rows of their ledgers in the words of the API, for the checker of ledgers. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tests.chaos.history import Answered, Hit
from tests.chaos.ledger_story import Arrival, Book, Edition
from tests.chaos.nominal import Timing
from tests.chaos.verdict import Violation


def asked(edition: Edition) -> dict[str, Any]:
    """The schedule as a client asks for it."""
    timing = edition.timing
    return {
        "cron": timing.cron,
        "every": None if timing.every_ms is None else timing.every_ms / 1_000,
        "anchor": timing.anchor_at / 1_000 if timing.every_ms is not None else None,
        "timezone": timing.zone,
        "dst": {"gap": timing.gap, "repeat": timing.repeat},
        "overlap": edition.overlap,
        "overlap_key": edition.overlap_key,
        "pause_on_failures": edition.pause_on_failures,
        "catch_up": {"mode": edition.mode, "max": edition.max_runs},
        "jitter": edition.jitter_ms / 1_000,
    }


def content(document: dict[str, Any], timings: Sequence[Timing]) -> dict[str, Any]:
    """What a client may have asked of the schedule that is told, a moment ago or long before: when, and what to make up
    for."""
    every = document["every"] and round(document["every"] * 1_000)
    anchor = document["anchor"] and instant(document["anchor"])
    here = (document["cron"], every, document["timezone"])
    (timing,) = [
        one for one in timings if (one.cron, one.every_ms, one.zone) == here and (anchor or 0) == one.anchor_at
    ]
    return {"timing": timing, "mode": document["catch_up"]["mode"]}


def instant(text: str) -> int:
    """Milliseconds since the epoch."""
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


def differences(book: Book, rows: list[dict[str, Any]]) -> list[Violation]:
    """Where the ledger as the API tells it, the earliest row first, is not the one that SQL does."""
    told = [
        (
            instant(row["nominal"]),
            row["outcome"],
            row["reason"],
            row["task_id"] and row["task_id"].removeprefix("tsk_"),
            row["schedule_version"],
            instant(row["decided_at"]),
            row["collapsed"],
            row["missed"],
            row["to"] and instant(row["to"]),
            row["count"],
            row["failed"],
            row["was"] and (row["was"]["outcome"], row["was"]["reason"], instant(row["was"]["decided_at"])),
        )
        for row in rows
    ]
    stored = [
        (
            one.nominal_at,
            one.outcome,
            one.reason,
            one.task_id,
            one.version,
            one.decided_at,
            one.collapsed,
            one.missed,
            one.until_at,
            one.times,
            one.failed,
            one.was and (one.was.outcome, one.was.reason, one.was.decided_at),
        )
        for one in book.entries
    ]
    if told == stored:
        return []
    odd = sorted(map(repr, set(told) ^ set(stored)))[:4]
    return [Violation("api_differs", f"{book.schedule_id}: of {len(stored)} rows the API tells {len(told)}: {odd}")]


def arrivals(records: Sequence[Any]) -> list[Arrival]:
    """What receivers saw of fires, and what they answered."""
    answered = {one.hit: one for one in records if isinstance(one, Answered)}
    found = []
    for one in records:
        if isinstance(one, Hit):
            after = answered.get(one.hit)
            read = after is not None and after.how == "answer"
            task_id = one.headers["webhook-id"].removeprefix("tsk_")
            until, status = (after.at, after.status) if after is not None and read else (None, None)
            found.append(Arrival(task_id, one.at, until, status))
    return found
