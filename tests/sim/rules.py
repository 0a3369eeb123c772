"""Schedules and changes of them, drawn from a seed: in the words of the checker and in those of the product."""

from random import Random
from typing import Any

import msgspec

from tasktick.model.schedule import CatchUp, FireTemplate, Rule, Schedule
from tasktick.timetable.fires import cursor_at
from tests.chaos.ledger_story import Edition
from tests.chaos.nominal import Timing

TENANT = "a"
EVERY_MS = (1_000, 2_000, 5_000, 20_000, 60_000, 3_600_000)
CRONS = (
    "*/10 * * * * *",
    "*/15 * * * *",
    "*/2 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "0,30 1-3 * * *",
    "15 1,2 * * *",
    "5 0,30 1-3 * * *",
    "59 23 * * *",
)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
# Half an hour before clocks go forward or back somewhere: Berlin, New York, Lord Howe, and a day without.
BEGINNINGS = (
    1_774_744_200_000,
    1_792_888_200_000,
    1_772_951_400_000,
    1_793_511_000_000,
    1_775_312_100_000,
    1_791_040_500_000,
    1_790_000_000_000,
)
TIMEOUT_MS = 2_000


def draw_timing(random: Random) -> Timing:
    """Any rule."""
    if random.random() < 0.5:
        every = random.choice(EVERY_MS)
        return Timing(every_ms=every, anchor_at=random.choice((0, 0, 1_234_567)))
    zone = random.choice(ZONES)
    gap, repeat = random.choice(("run_after", "skip")), random.choice(("first", "second", "both"))
    return Timing(cron=random.choice(CRONS), zone=zone, gap=gap, repeat=repeat)


def draw_edition(random: Random, now: int) -> Edition:
    """Any schedule, as it is created."""
    timing = draw_timing(random)
    # Drawn apart: seeds that once failed have schedules as they had.
    line = Random(f"line.{now}.{timing}")
    overlap = random.choice(("skip", "skip", "allow", "buffer_one"))
    return Edition(
        version=1,
        at=now,
        timing=timing,
        overlap=line.choice(("buffer_all", "cancel_other")) if line.random() < 0.4 else overlap,
        overlap_key=line.choice(("a", "b")) if line.random() < 0.25 else None,
        pause_on_failures=line.choice((1, 3)) if line.random() < 0.3 else None,
        mode=random.choice(("latest", "latest", "earliest", "none", "all")),
        window_ms=random.choice((None, None, 120_000, 3_600_000)),
        max_runs=random.choice((100, 3)),
        start_at=now + random.choice((-600_000, 3_000, 90_000)) if random.random() < 0.15 else None,
        end_at=now + random.choice((20_000, 600_000, 86_400_000)) if random.random() < 0.15 else None,
        max_fires=random.choice((1, 3, 20)) if random.random() < 0.15 else None,
        jitter_ms=random.choice((500, 4_000)) if random.random() < 0.2 else 0,
    )


def draw_edit(random: Random, edition: Edition) -> dict[str, Any]:
    """What an edit changes: when it fires, or what becomes of it."""
    changed: dict[str, Any] = {}
    if random.random() < 0.6:
        changed["timing"] = draw_timing(random)
    if random.random() < 0.5:
        changed["mode"] = random.choice(("latest", "earliest", "none", "all"))
    if random.random() < 0.3 and edition.overlap != "allow":
        changed["overlap"] = random.choice(("skip", "buffer_one", "buffer_all", "cancel_other"))
    return changed


def rule_of(timing: Timing) -> Rule:
    """The rule in the product's words."""
    if timing.every_ms is not None:
        return Rule(every_ms=timing.every_ms, anchor_at=timing.anchor_at or None)
    return Rule(cron=timing.cron, timezone=timing.zone, gap=timing.gap, repeat=timing.repeat)  # type: ignore[arg-type] # words


def asked_of(edition: Edition) -> dict[str, Any]:
    """The columns that a client says."""
    return {
        "rule": rule_of(edition.timing),
        "overlap": edition.overlap,
        "overlap_key": edition.overlap_key,
        "pause_on_failures": edition.pause_on_failures,
        "catch_up": CatchUp(edition.mode, edition.window_ms, edition.max_runs),  # type: ignore[arg-type] # one of them
        "start_at": edition.start_at,
        "end_at": edition.end_at,
        "max_fires": edition.max_fires,
        "jitter_ms": edition.jitter_ms,
    }


def schedule_of(edition: Edition, schedule_id: str, host: str, expires_in_ms: int | None = None) -> Schedule:
    """The row of a new schedule."""
    cursor = cursor_at(rule_of(edition.timing), edition.at)
    template = FireTemplate(host, "default", 5, 3, TIMEOUT_MS, 30_000, expires_in_ms=expires_in_ms)
    return Schedule(
        id=schedule_id,
        tenant=TENANT,
        version=1,
        created_at=edition.at,
        updated_at=edition.at,
        template=template,
        payload_version=1,
        cursor_at=cursor.at,
        cursor_local_ms=cursor.local_ms,
        **asked_of(edition),
    )


def edited(schedule: Schedule, edition: Edition) -> Schedule:
    """The row as an edit wants it."""
    return msgspec.structs.replace(schedule, **asked_of(edition))
