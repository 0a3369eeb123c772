"""The systemd unit: systemd takes it without a complaint, and it fits what the daemon does."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tasktick.config import load
from tasktick.node import FLUSH_MS
from tests.cli.program import Program
from tests.install.smoke import LOOPBACK, try_out

CONFIG = Path(__file__).parents[2] / "config"
UNIT = CONFIG / "systemd" / "tasktick.service"
PROGRAM = "/usr/local/bin/tasktick"


def value(name: str) -> str:
    (found,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return str(found)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="this machine has no systemd-analyze")
def test_systemd_takes_it_without_a_complaint(tmp_path: Path) -> None:
    text = UNIT.read_text()
    assert text.count(PROGRAM) == 1
    unit = tmp_path / UNIT.name
    for line in ("", "Watchdoc=30\n"):  # the second is a control: a name that systemd does not know
        # It wants programs that are there.
        unit.write_text(text.replace(PROGRAM, sys.executable).replace("[Service]\n", f"[Service]\n{line}"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
        complaints = [said for said in (done.stdout + done.stderr).splitlines() if UNIT.name in said]
        assert bool(complaints) is bool(line), done.stderr


@pytest.mark.parametrize("preset", ["laptop", "server", "large"])
def test_it_waits_for_longer_than_the_grace(preset: str) -> None:
    grace_max_ms = load(CONFIG / f"{preset}.toml").dispatch.grace_max_ms
    assert int(value("TimeoutStopSec")) * 1_000 >= grace_max_ms + FLUSH_MS + 5_000


def test_it_listens_to_what_the_daemon_says() -> None:
    assert value("Type") == "notify"
    assert value("NotifyAccess") == "all"
    assert value("KillMode") == "mixed"
    assert int(value("WatchdogSec")) >= 10
    assert value("ExecReload") == "/bin/kill -HUP $MAINPID"
    assert value("StateDirectory") == "tasktick"
    assert "--data /var/lib/tasktick" in value("ExecStart")


@pytest.mark.process
def test_what_it_starts_serves_and_fires(tmp_path: Path) -> None:
    program, *arguments = value("ExecStart").split()
    assert program == PROGRAM
    there = {"/etc/tasktick/tasktick.toml": str(CONFIG / "server.toml"), "/var/lib/tasktick": "tasktick-data"}
    try_out(Program(tmp_path), *(there.get(argument, argument) for argument in arguments), *LOOPBACK)
