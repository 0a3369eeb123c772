"""`python -m tests.hostile --count 500` puts a daemon among so many hostile receivers; 1 if it does not hold."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import uvloop

from tests.hostile.crowd import Crowd
from tests.hostile.limits import faults


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="hostile receivers")
    parser.add_argument("--honest", type=int, default=50, help="honest receivers beside them")
    parser.add_argument("--seconds", type=float, default=30.0, help="for how long")
    parser.add_argument("--sender", default="wire", choices=["wire", "session"], help="how its calls go out")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tasktick-hostile-"))
    figures = uvloop.run(Crowd(given.count, given.honest, given.seconds, folder, given.sender).run())
    found = faults(figures)
    for line in [*figures.lines(), *found]:
        sys.stdout.write(f"{line}\n")
    if found:
        sys.stdout.write(f"NOT OK; data and log: {folder}\n")
        return 1
    shutil.rmtree(folder)
    sys.stdout.write("OK\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
