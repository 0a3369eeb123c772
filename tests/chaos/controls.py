"""Suite `controls`: bugs planted on purpose. One that is not caught makes every green run worthless.

Each is caught where it would do its harm: by a suite of real processes, by simulated rings (`tests.sim`), or by a test
on a real PostgreSQL, which must hold without the bug.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests import postgres
from tests.chaos.disk import available
from tests.chaos.kill import KillRun
from tests.chaos.powercut import PowercutRun
from tests.chaos.process import ROOT
from tests.chaos.verdict import Verdict, Violation

RING_SEEDS = 60
RUNS_MAX = 4
TESTS_FAILED = 1
LEASE_TESTS = "tests/store/test_postgres_leases.py::test_"


class Control(msgspec.Struct, frozen=True):
    """A bug, the suite that must catch it, how many faults that takes, and as what it may be caught."""

    plant: str
    suite: str
    count: int = 1
    caught_as: frozenset[str] = frozenset()
    hold_share: float | None = None
    # The test that must fail.
    test: str = ""


CONTROLS = (
    Control("ack_before_commit", "kill", 10, frozenset({"lost", "attempt_unrecorded", "cancel_undone"})),
    Control("rescue_by_id", "kill", 2, frozenset({"overlap", "unexplained_duplicate", "unexplained_interruption"})),
    Control("resend", "kill", 2, frozenset({"sent_twice"})),
    Control("no_look_at_the_clock", "kill", 5, frozenset({"late_byte"}), hold_share=1.0),
    Control("synchronous_normal", "powercut", 3, frozenset({"lost", "claim_lost"})),
    Control("rescue_by_id", "ring"),
    Control("rescue_by_age", "ring"),
    Control("fence_by_epoch_only", "ring"),
    Control("no_lease_guard", "ring"),
    Control("no_look_at_the_clock", "ring"),
    Control("unknown_commits_by_select", "ring"),
    Control("claim_without_due_time", "ring"),
    Control("completion_needs_lease", "ring"),
    Control("placement_by_gossip", "ring"),
    Control("hints_without_polling", "ring"),
    Control("node_clocks", "ring"),
    Control("no_trust_window", "ring"),
    Control("no_guard_on_postgres", "postgres", test="a_claim_that_waited_for_an_acquisition_finds_its_term_over"),
    Control("guard_without_lock", "postgres", test="nobody_acquires_past_an_open_claim"),
    Control("for_share_unordered", "postgres", test="who_only_asks_for_a_partition_does_not_wait_for_an_open_claim"),
)


class Catch(msgspec.Struct, frozen=True):
    """How a bug was caught; or why nobody could try."""

    by: str = ""
    void: str = ""
    counters: Counter[str] = Counter()


async def run(
    seed: int,
    folder: Path,
    count: int = 1,
    controls: tuple[Control, ...] = CONTROLS,
    say: Callable[[str], object] = str,
) -> Verdict:
    """Plant each bug, `count` times its number of faults; a violation for each that was not caught."""
    missed: list[Violation] = []
    counters: Counter[str] = Counter()
    void: list[str] = []
    for control in controls:
        catch = await _try(control, seed, folder, count)
        say(f"{control.plant:28} {control.suite:9} {catch.by or catch.void or 'NOT CAUGHT'}")
        counters.update(catch.counters)
        if catch.void:
            void.append(f"{control.plant}: {catch.void}")
        elif not catch.by:
            detail = f"{control.plant} was planted and not caught by {control.suite}: {dict(catch.counters)}"
            missed.append(Violation("not_caught", detail))
    return Verdict(missed, counters, void)


async def _try(control: Control, seed: int, folder: Path, count: int) -> Catch:
    match control.suite:
        case "ring":
            return await _by_rings(control, count)
        case "postgres":
            return await _by_a_test(control)
        case "powercut" if not available():
            return Catch(void="no disk can be cut on this machine (root and loop devices)")
        case _:
            return await _by_processes(control, seed, folder, count)


async def _by_processes(control: Control, seed: int, folder: Path, count: int) -> Catch:
    """Where a fault strikes is up to the machine, too: on a busy one the bug may get another run."""
    counters: Counter[str] = Counter()
    for turn in range(RUNS_MAX):
        where = folder / f"{control.plant}-{turn}"
        where.mkdir()
        kinds = (await _verdict(control, seed + turn, where, count)).kinds()
        counters.update({f"{control.plant}:{kind}": n for kind, n in kinds.items()})
        if caught := control.caught_as & kinds.keys():
            return Catch(", ".join(sorted(caught)), counters=counters)
    return Catch(counters=counters)


async def _by_rings(control: Control, count: int) -> Catch:
    seeds = RING_SEEDS * max(1, count)
    code, told = await _python("tests.sim", "--plant", control.plant, "--seeds", str(seeds))
    said = told.strip().rpartition("\n")[2].removeprefix(f"{control.plant}: ")
    return Catch(said if code == 0 and said.startswith("caught by seed") else "")


async def _by_a_test(control: Control) -> Catch:
    """It holds without the bug, and fails with it."""
    if not postgres.installed():
        return Catch(void="there is no PostgreSQL here")
    test = LEASE_TESTS + control.test
    codes = [(await _python("tests.chaos.planted", name, test))[0] for name in ("nothing", control.plant)]
    return Catch(f"test_{control.test}" if codes == [0, TESTS_FAILED] else "")


async def _python(module: str, *arguments: str) -> tuple[int | None, str]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await child.communicate()
    return child.returncode, told.decode(errors="replace")


async def _verdict(control: Control, seed: int, where: Path, count: int) -> Verdict:
    number = control.count * max(1, count)
    if control.suite == "powercut":
        return await PowercutRun(number, seed, where, control.plant).run()
    return (await KillRun(number, seed, where, control.plant, hold_share=control.hold_share).run()).verdict
