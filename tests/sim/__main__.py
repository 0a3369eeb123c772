"""`python -m tests.sim --seeds N [--first S]` plays seeds and prints a trace hash for each; 1 at a violation."""

import argparse
import io
import os
import sys
from collections import Counter

from tasktick import logs
from tests.sim.run import play


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is part of a trace.
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"}
        )
    parser = argparse.ArgumentParser(prog="tests.sim")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    logs.configure("debug" if options.verbose else "error", "console", None if options.verbose else io.StringIO())
    sometimes: Counter[str] = Counter()
    failed = 0
    for seed in range(options.first, options.first + options.seeds):
        report = play(seed)
        sometimes.update(report.sometimes)
        print(f"seed {seed} trace {report.trace} violations {len(report.violations)}")
        for violation in report.violations[:10]:
            print(f"  {violation}")
        failed += bool(report.violations)
    print(f"{options.seeds} seeds, {failed} with violations; sometimes: {dict(sorted(sometimes.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
