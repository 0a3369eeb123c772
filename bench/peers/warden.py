"""Ends what cannot know that its parent is gone: databases and daemons. A process of its own.

It is told process ids, one a line. When the pipe closes without `over`, who started them is gone: each that is still
the same process is asked to end, and made to after a while.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import processes

OVER = "over"
GRACE_SECONDS = 5.0
LOOK_SECONDS = 0.05


def started_at(pid: int) -> str | None:
    """When a process that runs was started, in ticks since boot: its number may since have been given again."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return fields[19] if fields[0] != "Z" else None
    return None


def end_all(known: dict[int, str]) -> None:
    """Ask, wait, insist."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + GRACE_SECONDS
        for pid, since in known.items():
            if started_at(pid) == since:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, how)
        while any(started_at(pid) == since for pid, since in known.items()) and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)


def main() -> None:
    """Listen to who started us."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    known: dict[int, str] = {}
    for line in sys.stdin:
        if line.strip() == OVER:
            return
        pid = int(line)
        if (since := started_at(pid)) is not None:
            known[pid] = since
    end_all(known)


class Warden:
    """The other end of the pipe."""

    def __init__(self) -> None:
        self._process = processes.start("bench.peers.warden", stdin=subprocess.PIPE, start_new_session=True)

    def watch(self, pid: int) -> None:
        """End this one too, should we be gone."""
        self._tell(str(pid))

    def close(self) -> None:
        """All has ended in order."""
        self._tell(OVER)
        processes.end(self._process)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()


@contextmanager
def warden() -> Iterator[Warden]:
    """One for a run; it stays on its guard if the run is not ended in order."""
    made = Warden()
    yield made
    made.close()


if __name__ == "__main__":
    main()
