"""The single binary, as `make binary` leaves it: `make test-binary` builds it and names it here."""

import os
import shutil
import signal
import socket
from pathlib import Path

import pytest
import tzdata

from tests import postgres
from tests.cli.many import many
from tests.cli.program import DEADLINE_S, Program, end, until
from tests.install.smoke import SERVE, try_out

BINARY = os.environ.get("TASKTICK_BINARY", "")
SIZE_MAX_BYTES = 40_000_000

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not BINARY, reason="no binary was named: make test-binary"),
]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The binary alone, in a folder where there is nothing else: neither Python nor zones are to be found."""
    binary = tmp_path / "bin" / "tasktick"
    binary.parent.mkdir()
    shutil.copy(Path(BINARY).absolute(), binary)
    folder = tmp_path / "empty"
    folder.mkdir()
    return Program(folder, [binary], {"PATH": "/nowhere", "PYTHONTZPATH": ""})


def test_it_brings_what_it_needs(program: Program) -> None:
    versions = program.run("version").stdout
    assert "compiled  no\n" in versions
    assert f"tzdata    {tzdata.IANA_VERSION}\n" in versions  # its own time zones, where the system has none
    assert Path(BINARY).stat().st_size < SIZE_MAX_BYTES


def test_it_serves_and_fires(program: Program) -> None:
    try_out(program)


@pytest.mark.postgres
@pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here")
def test_it_starts_its_own_processes(program: Program) -> None:
    with many(program, count=2) as running:
        # Each is one process: what the supervisor waits for is what has claimed.
        for pid in running.pids():
            assert Path(f"/proc/{pid}/task/{pid}/children").read_text() == ""
        os.kill(running.pid("big-1"), signal.SIGKILL)
        running.until(lambda: len(running.said("daemon_started", process="big-1")) == 2)
        assert running.said("death_recorded")


def test_its_terminal_interrupts_it_once(program: Program) -> None:
    """The unpacker and the daemon both get a Ctrl-C, and the one hands it on to the other."""
    log = program.folder / "log"
    with log.open("w") as stderr:
        process = program.start(*SERVE, stderr=stderr)
    try:
        until(program.address.is_file, process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 1
        with socket.create_server(("127.0.0.1", 0)) as door:
            door.settimeout(DEADLINE_S)
            program.ctl("task", "add", f"http://127.0.0.1:{door.getsockname()[1]}/")
            call, _ = door.accept()
            with call:
                for pid in (process.pid, *map(int, children)):
                    os.kill(pid, signal.SIGINT)
                until(lambda: "daemon_stopping" in log.read_text(), process)
                call.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                assert process.wait(DEADLINE_S) == 0
        assert "daemon_hurried" not in log.read_text()
        assert "attempts_cut" not in log.read_text()
    finally:
        end(process)
