"""The real program under a supervisor: what it tells it, what SIGHUP changes, and the end of its terminal."""

import json
import os
import pty
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tasktick.daemon import SAME_SIGNAL_MS
from tests.cli.program import DEADLINE_S, Program, end, until
from tests.fakes.api_stub import Told, api_stub

pytestmark = pytest.mark.process

SERVE = ("serve", "--listen", "127.0.0.1:0")


@contextmanager
def supervisor(address: str) -> Iterator[list[str]]:
    """A supervisor's socket, and the words that come in at it, as they come."""
    words: list[str] = []

    def listen() -> None:
        while message := door.recv(4_096):
            words.extend(message.decode().splitlines())

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(address.replace("@", "\0", 1))
        listener = Thread(target=listen)
        listener.start()
        try:
            yield words
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
                bell.sendto(b"", door.getsockname())
            listener.join()


class Served:
    """A daemon whose log can be read while it runs."""

    def __init__(self, program: Program, *arguments: str) -> None:
        self._log = program.folder / "log"
        with self._log.open("w") as log:
            self.process = program.start(*SERVE, *arguments, stderr=log)

    def said(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._log.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if line["event"] == event]

    def until(self, seen: Callable[[], Any]) -> None:
        until(seen, self.process)

    def reload(self, event: str) -> dict[str, Any]:
        """Send SIGHUP, wait for what comes of it."""
        before = len(self.said(event))
        self.process.send_signal(signal.SIGHUP)
        self.until(lambda: len(self.said(event)) > before)
        return self.said(event)[-1]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == 0, self._log.read_text()


@contextmanager
def served(program: Program, *arguments: str) -> Iterator[Served]:
    daemon = Served(program, *arguments)
    try:
        daemon.until(program.address.is_file)
        yield daemon
        daemon.stop()
    finally:
        end(daemon.process)


@pytest.mark.parametrize("is_abstract", [False, True])
def test_its_supervisor_hears_of_its_life(tmp_path: Path, is_abstract: bool) -> None:
    address = f"@tasktick-{secrets.token_hex(8)}" if is_abstract else str(tmp_path / "notify")
    program = Program(tmp_path, environment={"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "100000"})
    with supervisor(address) as words:
        with served(program) as daemon:
            daemon.until(lambda: "READY=1" in words)
            assert f"STATUS=serving {program.address.read_text().strip()}" in words
            fed = words.count("WATCHDOG=1")
            daemon.until(lambda: words.count("WATCHDOG=1") >= fed + 3)
            daemon.reload("reloaded")
            daemon.until(lambda: words.count("READY=1") == 2)
            assert words.index("RELOADING=1") < len(words) - words[::-1].index("READY=1")
            assert any(word.startswith("MONOTONIC_USEC=") and word[15:].isdigit() for word in words)
            assert "STOPPING=1" not in words
        assert "STOPPING=1" in words


def test_a_supervisor_that_watches_somebody_else_is_not_fed(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    with supervisor(address) as words, served(Program(tmp_path, environment=environment)) as daemon:
        daemon.until(lambda: "READY=1" in words)
        assert "WATCHDOG=1" not in words


def test_a_supervisor_that_is_gone_is_no_reason_to_fail(tmp_path: Path) -> None:
    program = Program(tmp_path, environment={"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    with served(program) as daemon:
        daemon.until(lambda: daemon.said("supervisor_unreachable"))


def test_sighup_takes_over_what_can_be_reloaded(tmp_path: Path) -> None:
    file, program = tmp_path / "tasktick.toml", Program(tmp_path)
    file.write_text("")
    with api_stub() as receiver, served(program, "--config", str(file)) as daemon:
        receiver.tell(Told(200), Told(200))
        add = ("task", "add", receiver.url, "--wait")
        assert "Tasks may not call" in program.run("ctl", *add, code=1).stderr

        file.write_text(
            '[dispatch]\nallow_networks = ["127.0.0.0/8"]\nin_flight_per_host_max = 7\nin_flight_max = 50\n'
            '[log]\nlevel = "debug"\n[store]\nretention_days = 3\n[server]\nidle_timeout_ms = 1000\n'
        )
        line = daemon.reload("reloaded")
        assert line["changed"] == [
            "dispatch.allow_networks",
            "dispatch.in_flight_per_host_max",
            "log.level",
            "store.retention_days",
        ]
        assert line["needs_restart"] == ["server.idle_timeout_ms", "dispatch.in_flight_max"]
        assert program.ctl(*add)["state"] == "succeeded"

        for wrong, complaint in (
            ('[dispatch]\nallow_networks = ["10.0.0.1/8"]\n', "is not a network"),
            ("[log]\nlevl = 'info'\n", "log.levl"),
            ("[log\n", "not valid TOML"),
        ):
            file.write_text(wrong)
            assert complaint in daemon.reload("reload_refused")["error"]
        file.unlink()
        assert "cannot be read" in daemon.reload("reload_refused")["error"]
        assert program.ctl(*add)["state"] == "succeeded"

        file.write_text('[log]\nformat = "console"\n')
        daemon.process.send_signal(signal.SIGHUP)
        daemon.until(lambda: "needs_restart=" in (tmp_path / "log").read_text())
        assert "Tasks may not call" in program.run("ctl", *add, code=1).stderr


def test_flags_win_over_a_file_that_is_reloaded(tmp_path: Path) -> None:
    file = tmp_path / "tasktick.toml"
    file.write_text("")
    with served(Program(tmp_path), "--config", str(file), "--log-level", "info") as daemon:
        file.write_text('[log]\nlevel = "error"\n')
        assert daemon.reload("reloaded")["changed"] == []


@pytest.mark.parametrize("again", [False, True])
def test_a_signal_that_came_twice_at_once_is_one(tmp_path: Path, again: bool) -> None:
    """A process that hands signals on and its child both get them from a terminal; a person is slower."""
    program = Program(tmp_path)
    with served(program, "--allow-network", "127.0.0.0/8") as daemon, socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(DEADLINE_S)
        program.ctl("task", "add", f"http://127.0.0.1:{door.getsockname()[1]}/")
        call, _ = door.accept()
        with call:
            daemon.process.send_signal(signal.SIGINT)
            daemon.process.send_signal(signal.SIGTERM)
            daemon.until(lambda: daemon.said("daemon_stopping"))
            assert not daemon.said("daemon_hurried")
            if again:
                meant_s = time.monotonic() + 2 * SAME_SIGNAL_MS / 1_000
                daemon.until(lambda: time.monotonic() > meant_s)
                daemon.process.send_signal(signal.SIGTERM)
            else:
                call.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            daemon.process.wait(DEADLINE_S)
        assert bool(daemon.said("attempts_cut")) is again


def test_the_end_of_its_terminal_is_the_end(tmp_path: Path) -> None:
    program = Program(tmp_path)
    ours, theirs = pty.openpty()
    process = program.start(*SERVE, stderr=theirs)
    try:
        os.close(theirs)
        until(program.address.is_file, process)
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        assert process.wait(DEADLINE_S) == 0
        assert not program.address.exists()
    finally:
        end(process)
