"""Play both stores side by side for as long as is asked: `python -m tests.beside --minutes 10`.

Hypothesis shows the steps of the first play in which they differ, made as short as it can.
"""

import argparse
import sys
import time

from tasktick import logs
from tests import postgres
from tests.beside.machine import play
from tests.beside.stage import Stage

ROUND = 50


def main() -> int:
    """Play rounds until the time is over."""
    arguments = argparse.ArgumentParser(prog="tests.beside", description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10)
    arguments.add_argument("--steps", type=int, default=60)
    arguments.add_argument("--version", choices=sorted(postgres.installed()), default=max(postgres.installed()))
    given = arguments.parse_args()
    logs.configure("error", "console")
    until = time.monotonic() + given.minutes * 60
    plays = 0
    try:
        with Stage(given.version) as stage:
            while time.monotonic() < until:
                play(stage, ROUND, given.steps)
                plays += ROUND
    finally:
        postgres.remove_clusters()
    print(f"PostgreSQL {given.version}: {plays} plays of up to {given.steps} steps, no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
