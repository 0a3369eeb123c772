"""Runs a suite: `python -m tests.chaos --suite kill --count 20 --seed 1`. Exit code 1 is a violation, 2 is void."""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop

from tasktick import logs
from tests.chaos import controls, failover, network, partition
from tests.chaos.disk import available
from tests.chaos.kill import KillRun
from tests.chaos.ledger_suite import LedgerRun
from tests.chaos.powercut import PowercutRun
from tests.chaos.ring import RING
from tests.chaos.ring_run import RingRun
from tests.chaos.rolling import ROLLING
from tests.chaos.server_faults import POSTGRES
from tests.chaos.verdict import Verdict
from tests.chaos.zombie import ZOMBIE

RINGS = {plan.name: plan for plan in (RING, ZOMBIE, POSTGRES, ROLLING)}
SUITES = ("kill", "powercut", "ledger", *RINGS, "partition", "failover", "controls")
LOST_SHOWN_MAX = 10
LOST_FILE = "lost.txt"
VIOLATED = 1
VOID = 2


def percentile(sorted_values: Sequence[int], share: float) -> int | None:
    """The value that this share of all does not exceed."""
    if not sorted_values:
        return None
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))]


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def say_of_ring(verdict: Verdict) -> None:
    """The figures of a suite on a ring."""
    kinds, counters = verdict.kinds(), verdict.counters
    unexplained = kinds["unexplained_duplicate"] + kinds["sent_twice"]
    say(f"kills {counters['kills']}  holds {counters['fault_stop']}  of the server {counters['fault_store']}")
    say(f"acknowledged {counters['acknowledged']}  lost {kinds['lost']}")
    say(f"duplicates explained {counters['duplicates']}  unexplained {unexplained}")
    accepted = kinds["stale_end_accepted"] + kinds["stale_claim"]
    say(f"stale writes rejected {counters['stale_rejected']}  accepted {accepted}")
    say(f"takeover at most {counters['takeover_max_ms']} ms  late at most {counters['lateness_max_ms']} ms")


def say_of_cuts(verdict: Verdict) -> None:
    """What a network that was cut did."""
    kinds, counters = verdict.kinds(), verdict.counters
    say(f"cuts {counters['fault_cut']}  of gossip alone {counters['gossip_cut_alone']}, moved {kinds['gossip_moved']}")
    say(f"sent by nodes cut from the database {kinds['sent_while_cut']}  moved from them {counters['moved_while_cut']}")
    say(f"found without any UDP {counters['found_by_polling']}  moved to a third node {counters['moved_to_third']}")
    reason = network.loss_trouble()
    if reason is not None:
        say(f"without loss of packets by lot: {reason}")


def say_of_failovers(verdict: Verdict, lost: Sequence[str], folder: Path) -> None:
    """What a pair of servers lost, which has to be nothing where it is synchronous."""
    counters = verdict.counters
    say(f"failovers {counters['fault_store']}  seen {counters['event_timeline_changed']}")
    say(f"asynchronous: acknowledged and lost {len(lost)}, found by nodes {counters['event_history_regressed']}")
    for task_id in lost[:LOST_SHOWN_MAX]:
        say(f"  lost {task_id}")
    if len(lost) > LOST_SHOWN_MAX:
        say(f"  and {len(lost) - LOST_SHOWN_MAX} more, all in {folder / LOST_FILE}")
    (folder / LOST_FILE).write_text("".join(f"{one}\n" for one in lost))


def able(reason: str | None) -> None:
    """Go on only where the machine can do what the suite needs."""
    if reason is not None:
        say(f"VOID {reason}")
        raise SystemExit(VOID)


async def run(suite: str, count: int, seed: int, folder: Path) -> Verdict:
    """Run one suite and print its own figures."""
    if suite == "kill":
        outcome = await KillRun(count, seed, folder).run()
        kinds, counters = outcome.verdict.kinds(), outcome.verdict.counters
        unexplained = kinds["unexplained_duplicate"] + kinds["sent_twice"]
        say(f"kills {counters['kills']}  acknowledged {counters['acknowledged']}  lost {kinds['lost']}")
        say(f"duplicates explained {counters['duplicates']}  unexplained {unexplained}")
        for name, values in (("ready", outcome.to_ready_ms), ("first hit", outcome.to_first_hit_ms)):
            p50, p99 = percentile(values, 0.5), percentile(values, 0.99)
            say(f"restart to {name}: p50 {p50} ms  p99 {p99} ms  ({len(values)} times)")
        return outcome.verdict
    if suite == "partition":
        able(partition.trouble())
        verdict = await partition.PartitionRun(count, seed, folder).run()
        say_of_ring(verdict)
        say_of_cuts(verdict)
        return verdict
    if suite == "failover":
        able(failover.trouble())
        failovers = failover.FailoverRuns(count, seed, folder)
        verdict = await failovers.run()
        say_of_ring(verdict)
        say_of_failovers(verdict, failovers.lost, folder)
        return verdict
    if suite in RINGS:
        verdict = await RingRun(RINGS[suite], count, seed, folder).run()
        say_of_ring(verdict)
        return verdict
    if suite == "ledger":
        verdict = await LedgerRun(count, seed, folder).run()
        counters = verdict.counters
        runs = sum(number for name, number in counters.items() if name.startswith("ledger run"))
        say(f"schedules {counters['schedules']}  faults {counters['faults']}  clock steps {counters['clock_steps']}")
        say(f"times that ran {runs}  arrivals {counters['arrivals']}  violations {len(verdict.violations)}")
        return verdict
    if suite == "powercut":
        if not available():
            raise SystemExit("powercut needs root, loop devices, mkfs.ext4 and fsfreeze; here they are not.")
        verdict = await PowercutRun(count, seed, folder).run()
        counters = verdict.counters
        say(f"cuts {counters['cuts']}  that lost {counters['cuts_that_lost']}  torn tails {counters['tails']}")
        say(f"acknowledged, over all cuts {counters['acknowledged']}  lost {counters['lost']}")
        say(f"control: {counters['control_cuts_that_lost']} of {counters['control_cuts']} cuts lost")
        return verdict
    return await controls.run(seed, folder, max(1, count // 20), say=say)


def main() -> int:
    """Parse, run, judge, say."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--suite", choices=SUITES, default="kill")
    parser.add_argument("--count", type=int, default=20, help="how many faults")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same choices")
    parser.add_argument("--keep", type=Path, help="keep the history and the logs in this folder")
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp(prefix=f"tasktick-chaos-{given.suite}-"))
    folder.mkdir(parents=True, exist_ok=True)
    say(f"suite {given.suite}  count {given.count}  seed {given.seed}")
    logs.configure("error")
    began = time.monotonic()
    verdict = uvloop.run(run(given.suite, given.count, given.seed, folder))
    for line in verdict.lines():
        say(line)
    for name, number in sorted(verdict.counters.items()):
        say(f"  {name:32} {number}")
    say(f"{'OK' if verdict.ok else 'NOT OK'}  in {time.monotonic() - began:.1f} s")
    if verdict.ok and given.keep is None:
        shutil.rmtree(folder)
    else:
        say(f"history and logs: {folder}")
    return VIOLATED if verdict.violations else VOID if verdict.void else 0


if __name__ == "__main__":
    sys.exit(main())
