"""A few seeds of the simulation, its determinism, and bugs planted to see that it would notice."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tasktick.model.attempt import End
from tasktick.model.task import Claimed, Taken
from tasktick.store import claims, endings
from tasktick.store.protocol import Transaction
from tasktick.store.rows import EndFault
from tests.sim.run import play

ROOT = Path(__file__).resolve().parents[2]
SEEDS = range(101, 106)
PLANTED_SEEDS = range(101, 113)
# The first of them notices it; were it to notice no more, one of those behind it might.
RARER_SEEDS = range(65, 105)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_doubled_whatever_dies_when(seed: int) -> None:
    report = play(seed)

    assert report.violations == [], f"python -m tests.sim --first {seed} --seeds 1"


def test_the_same_seed_gives_the_same_trace() -> None:
    command = [sys.executable, "-m", "tests.sim", "--first", "7", "--seeds", "1"]
    runs = [
        subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]

    assert "trace" in runs[0]
    assert runs[0] == runs[1]


def test_a_rescue_by_age_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: attempts are taken up while their lease still runs, their own node's too."""
    right = claims.expired_leases

    async def hasty(tx: Transaction, now: int, own: list[str], limit: int) -> list[Claimed]:
        return await right(tx, now + 10_000, [], limit)

    async def blind(tx: Transaction, ends: list[End]) -> dict[str, EndFault]:
        return {}

    monkeypatch.setattr(claims, "expired_leases", hasty)
    monkeypatch.setattr(endings, "faults_of", blind)

    assert any(_violations(seed) for seed in PLANTED_SEEDS)


def test_a_claim_without_its_due_time_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what the wheel says is due is claimed and sent, whatever the store says of its time."""
    right = claims.take

    async def careless(tx: Transaction, ids: list[str], request: claims.ClaimRequest, foreseen: Any) -> list[Taken]:
        taken = await right(tx, ids, msgspec.structs.replace(request, early_ms=10**9), foreseen)
        return [Taken(msgspec.structs.replace(one.claimed, wake_at=request.now), one.payload) for one in taken]

    monkeypatch.setattr(claims, "take", careless)
    monkeypatch.setattr(claims, "CLAIM", msgspec.structs.replace(claims.CLAIM, alone=None))

    assert any(_violations(seed) for seed in RARER_SEEDS)


def _violations(seed: int) -> bool:
    try:
        return bool(play(seed).violations)
    except AssertionError:
        return True
