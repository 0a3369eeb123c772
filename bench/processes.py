"""Starts the processes of a measurement, says what they cost, and ends them: each by its own id."""

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
