"""A million random (expression, zone, instant) against the oracle: `python -m tests.property.timetable_run`.

Goes on where it stopped if it is given a file for its state, prints its progress, and ends with 1 if anything differs.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.property.timetable_cases import case, mismatch, mismatch_of_all, places

REPORT_EACH_S = 10.0
# Every so many cases all fires of some hours are compared, not only the next one.
ALL_EACH = 10


def run(count: int, seed: int, state_file: Path | None) -> int:
    """Compare cases up to `count`; return how many differ."""
    state: dict[str, Any] = {"seed": seed, "done": 0, "mismatches": []}
    if state_file is not None and state_file.exists():
        kept = json.loads(state_file.read_text())
        state = kept if kept["seed"] == seed else state
    started = reported = time.monotonic()
    first = state["done"]
    for number in range(first, count):
        subject = case(seed, number)
        wrong = mismatch(subject)
        if wrong is None and number % ALL_EACH == 0:
            wrong = mismatch_of_all(subject)
        if wrong is not None:
            state["mismatches"].append(f"case {seed}:{number}: {wrong}")
            sys.stdout.write(f"{state['mismatches'][-1]}\n")
        state["done"] = number + 1
        if time.monotonic() - reported > REPORT_EACH_S or number + 1 == count:
            reported = time.monotonic()
            _report(state, count, (number + 1 - first) / (reported - started), state_file)
    return len(state["mismatches"])


def _report(state: dict[str, Any], count: int, rate: float, state_file: Path | None) -> None:
    if state_file is not None:
        state_file.write_text(json.dumps(state))
    sys.stdout.write(
        f"{state['done']:,} of {count:,} compared at {rate:,.0f}/s, over {len(places()):,} zones and changes: "
        f"{len(state['mismatches'])} differ\n"
    )
    sys.stdout.flush()


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=Path, help="a file in which to keep how far it came")
    given = parser.parse_args()
    sys.exit(1 if run(given.count, given.seed, given.state) else 0)


if __name__ == "__main__":
    main()
