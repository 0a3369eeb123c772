"""`python -m tests.sim --seeds N [--first S]` plays seeds and prints a trace hash for each; 1 at a violation.

Each seed is played three times: one node with tasks (`run`), one with schedules over days and clock changes
(`ledger_run`), and a ring of three to five nodes on one server (`ring_run`). A run of many seeds in which something
never happened that must happen sometimes shows nothing: it is void, and the answer is 1 too.
"""

import argparse
import io
import os
import sys
from collections import Counter

from tasktick import logs
from tests.sim import ledger_run, ring_run, run
from tests.sim.plants import PLANTS

KINDS = {"tasks": run.play, "ledger": ledger_run.play, "ring": ring_run.play}
# From so many seeds on, everything that is demanded must have happened.
DEMANDING_SEEDS = 100


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is part of a trace.
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"}
        )
    parser = argparse.ArgumentParser(prog="tests.sim")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--only", choices=sorted(KINDS), help="one of the kinds")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="a bug to plant in rings; 0 as soon as it is caught")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    logs.configure("debug" if options.verbose else "error", "console", None if options.verbose else io.StringIO())
    if options.plant is not None:
        return _caught(options.plant, range(options.first, options.first + options.seeds))
    sometimes: Counter[str] = Counter()
    failed = 0
    for seed in range(options.first, options.first + options.seeds):
        for kind in [options.only] if options.only else KINDS:
            report = KINDS[kind](seed)
            sometimes.update({str(name): count for name, count in report.sometimes.items()})
            print(f"seed {seed} {kind} trace {report.trace} violations {len(report.violations)}", flush=True)
            for violation in report.violations[:10]:
                print(f"  {violation}")
            failed += bool(report.violations)
    print(f"{options.seeds} seeds, {failed} plays with violations; sometimes: {dict(sorted(sometimes.items()))}")
    asked = options.seeds >= DEMANDING_SEEDS and options.only in {None, "ring"}
    never = [name for name in ring_run.DEMANDED if asked and not sometimes[name]]
    if never:
        print(f"VOID: in none of the seeds there was {', '.join(never)}")
    return 1 if failed or never else 0


def _caught(plant: str, seeds: range) -> int:
    """Plant it, and play until a seed shows it."""
    planted = PLANTS[plant]
    planted.plant()
    for seed in seeds:
        try:
            violations = ring_run.play(seed).violations
        except Exception as error:  # noqa: BLE001 - with a bug in it anything may fail: that is no proof
            print(f"seed {seed}: {error!r}")
            continue
        shown = next((one for one in violations if planted.is_shown_by(one)), None)
        if shown is not None:
            print(f"{plant}: caught by seed {seed}: {shown}")
            return 0
    print(f"{plant}: not caught by {len(seeds)} seeds")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
