"""What is said to a supervisor, and how often; the real socket is in tests/cli."""

import os
import socket
from pathlib import Path

import pytest

from tasktick.notify import NEVER_MS, Supervisor, Watchdog, watchdog_ms


def test_without_a_supervisor_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    supervisor = Supervisor({})
    supervisor.ready("serving")
    supervisor.reloading()
    supervisor.alive()
    supervisor.stopping("stopping")


def test_a_status_stays_one_line(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(str(tmp_path / "notify"))
        Supervisor({"NOTIFY_SOCKET": str(tmp_path / "notify")}).stopping("crashed: a\nREADY=1")
        assert door.recv(1_000) == b"STOPPING=1\nSTATUS=crashed: a READY=1"


@pytest.mark.parametrize(
    ("environment", "every_ms"),
    [
        ({}, NEVER_MS),
        ({"WATCHDOG_USEC": "0"}, NEVER_MS),
        ({"WATCHDOG_USEC": "soon"}, NEVER_MS),
        ({"WATCHDOG_USEC": "30000000"}, 15_000.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15_000.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getppid())}, 15_000.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "0"}, NEVER_MS),
    ],
)
def test_the_watchdog_is_fed_twice_in_its_time(environment: dict[str, str], every_ms: float) -> None:
    assert watchdog_ms(environment) == every_ms


async def test_a_watchdog_that_nobody_set_is_not_fed(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(str(tmp_path / "notify"))
        door.setblocking(False)
        supervisor = Supervisor({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert await Watchdog(supervisor, NEVER_MS).step() == NEVER_MS
        with pytest.raises(BlockingIOError):
            door.recv(100)
        assert await Watchdog(supervisor, 5.0).step() == 5.0
        assert door.recv(100) == b"WATCHDOG=1"
