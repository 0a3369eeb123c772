"""`python -m tests.sim --seeds N [--first S]` plays seeds and prints a trace hash for each; 1 at a violation.

Each seed is played twice: with tasks (`run`), and with schedules over days and clock changes (`ledger_run`).
"""

import argparse
import io
import os
import sys
from collections import Counter

from tasktick import logs
from tests.sim import ledger_run, run

KINDS = {"tasks": run.play, "ledger": ledger_run.play}


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is part of a trace.
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"}
        )
    parser = argparse.ArgumentParser(prog="tests.sim")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--only", choices=sorted(KINDS), help="one of the two kinds")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    logs.configure("debug" if options.verbose else "error", "console", None if options.verbose else io.StringIO())
    sometimes: Counter[str] = Counter()
    failed = 0
    for seed in range(options.first, options.first + options.seeds):
        for kind in [options.only] if options.only else KINDS:
            report = KINDS[kind](seed)
            sometimes.update(report.sometimes)
            print(f"seed {seed} {kind} trace {report.trace} violations {len(report.violations)}", flush=True)
            for violation in report.violations[:10]:
                print(f"  {violation}")
            failed += bool(report.violations)
    print(f"{options.seeds} seeds, {failed} plays with violations; sometimes: {dict(sorted(sometimes.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
