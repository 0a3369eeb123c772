"""Small counts of every suite. The seed is in the assertion: `make chaos` runs it again, and any number of faults."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import scratch
from tests.chaos import controls, failover, partition
from tests.chaos.disk import available
from tests.chaos.kill import KillRun
from tests.chaos.ledger_suite import LedgerRun
from tests.chaos.powercut import PowercutRun
from tests.chaos.ring import RING
from tests.chaos.ring_run import Plan, RingRun
from tests.chaos.rolling import ROLLING
from tests.chaos.server_faults import POSTGRES
from tests.chaos.verdict import Verdict
from tests.chaos.zombie import ZOMBIE
from tests.postgres import installed

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]
SEED = 20_260_210
# CI has twenty minutes for everything: what takes long of the suites is `make test-chaos`.
at_length = pytest.mark.skipif("TASKTICK_AT_LENGTH" not in os.environ, reason="long: make test-chaos")
IN_CI = {"kill", "powercut"}


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """On the machine's disk, since in memory there is hardly an instant between two steps; kept if the test fails."""
    folder = Path(tempfile.mkdtemp(prefix="tasktick-chaos-", dir=scratch.DISK))
    before = request.session.testsfailed
    yield folder
    if request.session.testsfailed == before:
        shutil.rmtree(folder)


def planted(control: controls.Control) -> Any:
    """A control as a parameter."""
    name = f"{control.plant}-{control.suite}"
    return pytest.param(control, id=name, marks=() if control.suite in IN_CI else at_length)


def must_hold(verdict: Verdict) -> None:
    assert verdict.ok, "\n".join([f"seed {SEED}", *verdict.lines()])


async def test_nothing_is_lost_to_kill_minus_nine(tmp_path: Path) -> None:
    outcome = await KillRun(8, SEED, tmp_path).run()
    must_hold(outcome.verdict)
    assert outcome.to_ready_ms


async def test_every_ledger_is_the_oracles(tmp_path: Path) -> None:
    must_hold(await LedgerRun(4, SEED, tmp_path).run())


async def test_nothing_is_lost_to_a_power_cut(tmp_path: Path) -> None:
    if not available():  # asked here, not while collecting: the answer takes a mount
        pytest.skip("no disk can be cut on this machine: that needs root and loop devices")
    verdict = await PowercutRun(3, SEED, tmp_path).run()
    must_hold(verdict)
    assert verdict.counters["control_cuts_that_lost"]


@pytest.mark.parametrize(
    ("plan", "count"),
    [
        pytest.param(RING, 2, id="ring"),
        pytest.param(ZOMBIE, 2, id="zombie"),
        pytest.param(POSTGRES, 3, id="postgres", marks=at_length),
        pytest.param(ROLLING, 1, id="rolling", marks=at_length),
    ],
)
async def test_nothing_is_lost_in_a_ring(plan: Plan, count: int, tmp_path: Path) -> None:
    if not installed():
        pytest.skip("there is no PostgreSQL here (Debian: postgresql; pip: the group dev)")
    must_hold(await RingRun(plan, count, SEED, tmp_path).run())


@at_length
async def test_a_network_that_is_cut_loses_nothing(tmp_path: Path) -> None:
    reason = partition.trouble()
    if reason is not None:
        pytest.skip(reason)
    must_hold(await partition.CutRun(2, SEED, tmp_path).run())


async def test_nodes_without_udp_go_on_by_leases_and_polling(tmp_path: Path) -> None:
    reason = partition.trouble()
    if reason is not None:
        pytest.skip(reason)
    verdict = await partition.CutRun(1, SEED, tmp_path, udp=False).run()
    must_hold(verdict)
    assert verdict.counters["found_by_polling"]


@at_length
async def test_a_synchronous_pair_loses_nothing_and_what_an_asynchronous_one_loses_is_found(tmp_path: Path) -> None:
    reason = failover.trouble()
    if reason is not None:
        pytest.skip(reason)
    runs = failover.FailoverRuns(2, SEED, tmp_path)
    must_hold(await runs.run())
    assert runs.lost


@pytest.mark.parametrize("control", [planted(one) for one in controls.CONTROLS])
async def test_a_planted_bug_is_caught(control: controls.Control, tmp_path: Path) -> None:
    verdict = await controls.run(SEED, tmp_path, controls=(control,))
    assert not verdict.violations, "\n".join([f"seed {SEED}", *verdict.lines()])
