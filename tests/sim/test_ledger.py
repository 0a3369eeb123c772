"""Schedules in the simulation: a few seeds, their determinism, and bugs planted to see that they are noticed."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tasktick.model.schedule import Plan, Schedule
from tasktick.scheduler import book, plan
from tasktick.scheduler.book import Moment
from tasktick.scheduler.materialise import Materialiser
from tasktick.store import schedules, sqlite, standing
from tasktick.store.connect import SQLITE_VERSION
from tasktick.store.protocol import Lane, Transaction
from tasktick.timetable.policy import Late
from tests.chaos.plants import changed
from tests.sim.ledger_run import play

ROOT = Path(__file__).resolve().parents[2]
# 17 and 21: the clock was set forward in the middle of a look. 38: the next fire ran over one that was passed by
# another that was cancelled. 34: a claim that was given back was made again too late. 77: set back, then forward.
# 14: a pause in a line whose first fire was not due any more, by a clock set back. 401: two of a line, and 9027: one
# that nobody had decided about, both let go by a clock set back.
# 10063: a time ran later by the clock of another zone. 10076: one that was at its end went on, as its last had expired.
ONCE_FAILED = (14, 17, 21, 34, 38, 77, 401, 9027, 10063, 10076)
# What backfills had let run expired before it began, and the ledger did not say whose it was.
EXPIRED_UNTOLD = (9006, 9008, 9023)
SEEDS = (*ONCE_FAILED, *EXPIRED_UNTOLD, 101, 102, 103)
PLANTED_SEEDS = range(1, 25)
WINDOW_MS = 30_000

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", SEEDS)
def test_each_time_is_decided_once_and_as_policy_has_it(seed: int) -> None:
    report = play(seed)

    assert report.violations == [], f"python -m tests.sim --only ledger --first {seed} --seeds 1"


def test_the_same_seed_gives_the_same_trace() -> None:
    command = [sys.executable, "-m", "tests.sim", "--only", "ledger", "--first", "3", "--seeds", "2"]
    runs = [
        subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]

    assert runs[0].count("trace") == 2
    assert runs[0] == runs[1]


def test_a_cursor_outside_the_transaction_of_its_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the schedule moves on first, and its rows come in a transaction of their own."""
    right = schedules._write

    async def in_two(self: Any, plans: list[Plan], failed: dict[str, Exception]) -> int:
        del failed

        async def first(tx: Transaction) -> list[bool]:
            fresh = [one for one in plans if not await schedules._stale(tx, [one])]
            await standing.write(tx, fresh)
            return [one in fresh for one in plans]

        fresh = await self._database.write(first, Lane.FIRE)
        kept = [one for one, ok in zip(plans, fresh, strict=True) if ok]
        if kept:
            await self._database.write(lambda tx: right(tx, kept), Lane.FIRE)
        return len(kept)

    monkeypatch.setattr(Materialiser, "_write", in_two)

    assert "missing" in _caught(PLANTED_SEEDS, "missing")


def test_catch_up_left_out_of_the_claim_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a fire is claimed however late it is, before its schedule has decided."""
    _born(monkeypatch, decide_by=None)

    assert "claimed_late" in _caught(PLANTED_SEEDS, "claimed_late")


def test_overlap_left_out_of_the_claim_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a fire is claimed while the one before it is on its way."""
    _born(monkeypatch, after_id=None)

    assert "overlapping" in _caught(PLANTED_SEEDS, "overlapping")


def test_a_look_back_window_in_place_of_a_cursor_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what came due is what lies a little back from now."""
    right = plan._verdicts

    def looking_back(schedule: Schedule, backlog: Any, moment: Moment) -> list[Late]:
        found = right(schedule, backlog, moment)
        return [one for one in found if one.fire.nominal_at >= moment.by.now - WINDOW_MS] or found[-1:]

    monkeypatch.setattr(plan, "_verdicts", looking_back)

    assert "missing" in _caught(PLANTED_SEEDS, "missing")


@pytest.mark.parametrize(
    ("told", "wanted"), [("''", "filled_untold"), ("':backfill'", "filled_unasked"), ("'x'", "unexpected")]
)
def test_what_is_told_of_a_backfill_is_held_against_what_was_asked(
    monkeypatch: pytest.MonkeyPatch, told: str, wanted: str
) -> None:
    """Planted: of a fire that ended before it began never, always or otherwise is said that a backfill let it run."""
    found = dict(sqlite._dialect(SQLITE_VERSION))
    found["ledger_unstarted"] = changed(
        found["ledger_unstarted"], ("iif(fires.reason = 'backfill', ':backfill', '')", told)
    )
    monkeypatch.setattr(sqlite, "_dialect", lambda version: found)

    assert wanted in _caught(EXPIRED_UNTOLD, wanted)


def _born(monkeypatch: pytest.MonkeyPatch, **fields: None) -> None:
    """Let fires be made ahead without what holds them."""
    right = book.new_fire

    def careless(*given: Any, **named: Any) -> Any:
        return right(*given, **(named | {name: value for name, value in fields.items() if name in named}))

    monkeypatch.setattr(plan, "new_fire", careless)


def _caught(seeds: Sequence[int], wanted: str) -> set[str]:
    """As what it was caught, until it was as this: what a bug does to lines may show before."""
    kinds: set[str] = set()
    for seed in seeds:
        kinds |= {violation.split(":")[0] for violation in play(seed).violations}
        if wanted in kinds:
            break
    return kinds
