"""TaskTick's own command line, in a process that was armed: `python -m tests.chaos.armed serve …`.

`CHAOS_SEAM` names the crash point at which it kills itself in the `CHAOS_PASS`-th pass (or holds itself, with
`CHAOS_HOLD`), `CHAOS_PLANT` a bug to plant. With neither it is the product as it is.
"""

import os

from tests.chaos.plants import PLANTS
from tests.chaos.seams import Seams


def arm() -> None:
    """Wrap what the environment names."""
    plant = os.environ.get("CHAOS_PLANT")
    if plant:
        PLANTS[plant]()
    seam = os.environ.get("CHAOS_SEAM")
    if seam:
        passes, seed = int(os.environ.get("CHAOS_PASS", "1")), int(os.environ.get("CHAOS_SEED", "0"))
        Seams(seam, passes, seed, hold=bool(os.environ.get("CHAOS_HOLD"))).install()


if __name__ == "__main__":
    arm()
    from tasktick.cli import main

    main()
