"""The seams and the plants are where they are said to be: a renamed one fails here, not in the night's run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import kill, ring, zombie
from tests.chaos.controls import CONTROLS
from tests.chaos.plants import PLANTS
from tests.chaos.seams import LABELS
from tests.sim.plants import PLANTS as OF_RINGS

ROOT = Path(__file__).resolve().parents[3]
ARM = "from tests.chaos.armed import arm; arm(); print('armed')"
pytestmark = pytest.mark.process


def armed(code: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("label", LABELS)
def test_a_seam_can_be_armed(label: str) -> None:
    done = armed(ARM, CHAOS_SEAM=label)
    assert done.stdout == "armed\n", done.stderr


@pytest.mark.parametrize("plant", PLANTS)
def test_a_bug_can_be_planted(plant: str) -> None:
    done = armed(ARM, CHAOS_PLANT=plant)
    assert done.stdout == "armed\n", done.stderr


def test_an_armed_process_dies_in_the_pass_it_was_told() -> None:
    passing = "from tests.chaos.seams import Seams; s = Seams('before_commit', 3, 1)\n"
    passing += "for n in range(5): print(n, flush=True); s.passing('after_end_commit'); s.passing('before_commit')"
    done = armed(passing)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["0", "1", "2"]


def test_every_label_is_used_and_every_plant_has_its_control() -> None:
    elsewhere = {"during_migration", "before_ledger_commit", "after_ledger_commit"}
    rings = {*ring.PASSES_MAX, *zombie.HOLDING_LABELS}
    assert set(kill.PASSES_MAX) | elsewhere | rings == set(LABELS)
    assert {control.plant for control in CONTROLS} == set(PLANTS) | set(OF_RINGS)
