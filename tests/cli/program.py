"""The program as a process: started, used, and waited for with a deadline."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# What a busy machine may need for anything that is waited for here: no test is about this time.
DEADLINE_S = 60
CHECKOUT = Path(__file__).parents[2]
NOT_HANDED_ON = ("TASKTICK_", "PYTEST_", "PYTHONPATH", "NOTIFY_SOCKET", "WATCHDOG_", "CREDENTIALS_")


class Program:
    """`python -m tasktick`, or another command that should be the same, in a folder of its own."""

    def __init__(
        self, folder: Path, command: Sequence[str | Path] | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.data = folder / "tasktick-data"
        self._command = command or (sys.executable, "-m", "tasktick")
        self._environment = {name: text for name, text in os.environ.items() if not name.startswith(NOT_HANDED_ON)}
        if command is None:
            self._environment["PYTHONPATH"] = str(CHECKOUT)
        self._environment |= environment or {}

    def start(self, *arguments: str, stderr: Any = subprocess.PIPE) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, *arguments],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=DEADLINE_S)
        finally:
            end(process)
        assert process.returncode == code, f"{arguments}: {process.returncode}\n{out}\n{err}"
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def ctl(self, *arguments: str, code: int = 0) -> Any:
        out = self.run("ctl", *arguments, "-o", "json", code=code).stdout
        return json.loads(out) if out else None

    @property
    def address(self) -> Path:
        """It is there while the daemon serves."""
        return self.data / "address"


def until(seen: Callable[[], Any], process: subprocess.Popen[str]) -> None:
    """Wait until it is so, or the process has ended."""
    deadline = time.monotonic() + DEADLINE_S
    while not seen():
        if process.poll() is not None:
            raise AssertionError(f"it ended with {process.returncode}: {process.communicate()[1]}")
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.02)


def end(process: subprocess.Popen[str]) -> None:
    """Leave nothing behind, however the test went."""
    if process.poll() is None:
        process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
