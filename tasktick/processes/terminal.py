"""The terminal that a process was started from, and its end."""

import os
import sys


class Terminal:
    """What standard error was when the process began."""

    def __init__(self) -> None:
        self._was_there = sys.stderr.isatty()

    def left(self) -> bool:
        """Whether it is gone. Then nothing more is said there: a write would fail."""
        if not self._was_there or sys.stderr.isatty():
            return False
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        self._was_there = False
        return True
