"""Checks of the real program: killed around their turns, each is told once, and what was answered is there."""

import signal
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.cli.program import DEADLINE_S, Program, end, until
from tests.fakes.api_stub import Told, api_stub

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]

FLAGS = ("serve", "--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8")


def started(program: Program, log: Any) -> subprocess.Popen[str]:
    program.address.unlink(missing_ok=True)
    process = program.start(*FLAGS, stderr=log)
    until(program.address.is_file, process)
    return process


def told(program: Program) -> list[str]:
    """Every event of checks, in order."""
    out = program.run("ctl", "events", "--after", "0-0", "--for", "1s").stdout
    return [word for line in out.splitlines() for word in line.split() if word.startswith("check.")]


def ping(program: Program, check: dict[str, Any], word: str = "") -> str:
    url = program.address.read_text().strip() + check["ping_path"] + word
    with urlopen(url, timeout=DEADLINE_S) as answer:
        return str(answer.read().decode())


def test_a_kill_around_each_turn_neither_loses_nor_doubles_it(tmp_path: Path) -> None:
    program = Program(tmp_path)
    with (tmp_path / "log").open("ab") as log:
        process = started(program, log)
        try:
            check = program.ctl("check", "add", "--key", "job", "--period", "2s", "--grace", "2s")
            assert ping(program, check) == "OK"
            kills = 0
            deadline = time.monotonic() + DEADLINE_S
            while program.ctl("check", "show", "key:job")["state"] != "down":
                assert time.monotonic() < deadline
                end(process)
                kills += 1
                process = started(program, log)
            assert kills > 0
            # Where a start takes longer than the grace, it is down without having been seen to be late.
            turns = told(program)
            assert turns in (["check.up", "check.late", "check.down"], ["check.up", "check.down"])
            assert ping(program, check, "/3") == "OK"
            end(process)
            process = started(program, log)
            assert [one["exit_code"] for one in program.ctl("check", "pings", "key:job")["data"]] == [3, None]
            assert told(program) == [*turns, "check.failed"]
            with pytest.raises(HTTPError, match="404"):
                ping(program, {"ping_path": "/ping/chk_0"})
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0
        finally:
            end(process)
    assert check["ping_id"] not in (tmp_path / "log").read_text()
    program.run("store", "check", "--full")


def test_a_monitor_is_pinged_while_it_runs(tmp_path: Path) -> None:
    with api_stub() as monitor, (tmp_path / "log").open("ab") as log:
        monitor.tell(*[Told()] * 1_000)
        environment = {"TASKTICK_DEADMAN__URL": f"{monitor.url}/alive", "TASKTICK_DEADMAN__INTERVAL_MS": "1000"}
        program = Program(tmp_path, environment=environment | {"TASKTICK_DEADMAN__TIMEOUT_MS": "900"})
        process = started(program, log)
        try:
            until(lambda: len(monitor.asked) >= 3, process)
            assert {(one.method, one.path) for one in monitor.asked} == {("GET", "/alive")}
            stats = program.ctl("stats")["deadman"]
            assert (stats["pings"], stats["last_error"], stats["withheld"]) == (True, None, [])
        finally:
            end(process)
