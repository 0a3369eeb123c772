"""The clock of a daemon that is set while it runs: libfaketime, where it is installed.

It is preloaded into the process and reads how far ahead the clock is from a file, at each call; the monotonic clock,
timeouts and sleeps are left alone.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

NAMED = "TASKTICK_LIBFAKETIME"
PLACES = ("lib/*/faketime", "lib/faketime", "lib64/faketime", "local/lib/faketime")
NAMES = ("libfaketimeMT.so.1", "libfaketime.so.1")
ASK = "import time; print(time.time_ns() // 1_000_000_000, time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000_000)"
TRIED_S = 100_000


@cache
def library() -> Path | None:
    """Where it is, if it is there and does what it should."""
    named = os.environ.get(NAMED)
    found = (
        [Path(named)]
        if named
        else [one for place in PLACES for name in NAMES for one in Path("/usr").glob(f"{place}/{name}")]
    )
    return next((one for one in found if one.is_file() and _works(one)), None)


def _works(path: Path) -> bool:
    own = _asked({})
    set_to = _asked({"LD_PRELOAD": str(path), "FAKETIME": f"+{TRIED_S}", "DONT_FAKE_MONOTONIC": "1"})
    if own is None or set_to is None:
        return False
    return abs(set_to[0] - own[0] - TRIED_S) < 60 and abs(set_to[1] - own[1]) < 60


def _asked(environment: dict[str, str]) -> tuple[int, int] | None:
    told = subprocess.run(
        [sys.executable, "-c", ASK], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    numbers = told.stdout.split()
    return (int(numbers[0]), int(numbers[1])) if told.returncode == 0 and len(numbers) == 2 else None


class ClockFile:
    """How far ahead the clock of the daemons is; a start reads it, and so does one that runs."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "clock"
        self.offset_ms = 0
        self.set(0)

    def environment(self) -> dict[str, str]:
        """What a daemon is started with; nothing, where clocks cannot be set."""
        found = library()
        if found is None:
            return {}
        return {
            "LD_PRELOAD": str(found),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, offset_ms: int) -> None:
        """Set the clock, from one instant to the next."""
        self.offset_ms = offset_ms
        draft = self._path.with_suffix(".new")
        draft.write_text(f"{offset_ms / 1_000:+.3f}\n")
        draft.replace(self._path)
