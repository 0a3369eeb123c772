"""Starts the processes of a measurement, says what they cost, and ends them: each by its own id."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[1]
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
END_SECONDS = 20


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, its threads and the kernel's work for it included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def thread_seconds(pid: int) -> tuple[float, float]:
    """Processor time so far of a process's first thread, where its event loop runs, and of all its others."""
    first = others = 0
    for stat in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # it has just ended
            nanoseconds = int(stat.read_text().split()[0])
            if stat.parent.name == str(pid):
                first += nanoseconds
            else:
                others += nanoseconds
    return first / 1e9, others / 1e9


def cpu_seconds_of_all(pid: int) -> float:
    """Processor time of a process, of its children, and of those that have ended."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # one that has just ended is counted by its parent
            ticks += ticks_for(pid, stat.read_text())
    return ticks / TICKS_PER_SECOND


def ticks_for(pid: int, stat: str) -> int:
    """What a line of the kernel about some process says of this one's: all of its own, the present of a child."""
    number, _, rest = stat.partition(" ")
    fields = rest.rpartition(") ")[2].split()
    if int(number) == pid:
        return sum(int(field) for field in fields[11:15])
    return int(fields[11]) + int(fields[12]) if int(fields[1]) == pid else 0


def resident_mb(pid: int, which: str = "VmRSS:") -> float:
    """Memory of a process that is in RAM, in MB (10^6 bytes): now, or the most there ever was (`VmHWM:`)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(which):
            return int(line.split()[1]) * 1_024 / 1_000_000
    raise ValueError(f"process {pid} has no memory to speak of")


def start(module: str, *arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
    """A Python module of this tree as a process."""
    return subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT, **options)


def end(process: "subprocess.Popen[bytes]") -> int:
    """Ask it to end, and insist if it does not; its exit code."""
    if process.poll() is None:
        process.terminate()
    try:
        return process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait(END_SECONDS)


def first_line(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """What a child says when it is ready, as JSON."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"process {process.pid} ended before it was ready, with code {process.wait(END_SECONDS)}")
    said: dict[str, Any] = msgspec.json.decode(line)
    return said


@contextmanager
def child(module: str, *arguments: str) -> Iterator[dict[str, Any]]:
    """A child that says where it listens and stops when we do."""
    process = start(module, *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield {**first_line(process), "pid": process.pid}
    finally:
        assert process.stdin is not None
        process.stdin.close()
        end(process)


def ask(module: str, *arguments: str, seconds_max: float = 120) -> dict[str, Any]:
    """Run a child to its end and take what it measured: one line of JSON."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=seconds_max,
        check=True,
    )
    said: dict[str, Any] = msgspec.json.decode(done.stdout)
    return said
