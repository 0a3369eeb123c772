"""Events of the real program, followed from the command line through its death and its restart."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

import pytest

from tasktick.api.server import STOP_GRACE_MS
from tests.cli.program import DEADLINE_S, Program, end, until
from tests.fakes.api_stub import ApiStub, Told, api_stub
from tests.ports import free_port

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.fixture
def receiver() -> Iterator[ApiStub]:
    with api_stub() as running:
        running.tell(*[Told(200)] * 100)
        yield running


@contextmanager
def serving(program: Program, listen: str = "127.0.0.1:0", *flags: str) -> Iterator[subprocess.Popen[str]]:
    program.address.unlink(missing_ok=True)  # whoever is killed leaves it there
    with (program.folder / "log").open("ab") as log:
        process = program.start("serve", "--listen", listen, "--allow-network", "127.0.0.0/8", *flags, stderr=log)
    try:
        until(lambda: program.address.is_file() and program.address.read_text().endswith("\n"), process)
        yield process
    finally:
        end(process)


def _lines(file: IO[str], found: list[Any], process: subprocess.Popen[str], count: int) -> None:
    """Read so many events."""
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count:
        line = file.readline()
        assert line, process.communicate()
        assert time.monotonic() < deadline
        found.append(json.loads(line))


def test_nothing_is_missed_or_doubled_over_a_kill_and_a_restart(program: Program, receiver: ApiStub) -> None:
    listen = f"127.0.0.1:{free_port()}"
    with serving(program, listen) as first:
        follower = program.start("ctl", "events", "--after", "0-0", "--count", "24", "-o", "json")
        try:
            assert follower.stdout is not None
            heard: list[Any] = []
            for _ in range(4):
                program.ctl("task", "add", receiver.url, "--wait")
            _lines(follower.stdout, heard, follower, 12)
            first.kill()
            first.wait()
            with serving(program, listen) as second:
                for _ in range(4):
                    program.ctl("task", "add", receiver.url, "--wait")
                out, err = follower.communicate(timeout=DEADLINE_S)
                assert follower.returncode == 0, err
                heard += [json.loads(line) for line in out.splitlines()]
                whole = program.run("ctl", "events", "--after", "0-0", "--count", "24", "-o", "json").stdout
                last = json.loads(whole.splitlines()[-1])["event_id"]
                assert not program.run("ctl", "events", "--after", last, "--for", "1s", "-o", "json").stdout
                second.send_signal(signal.SIGTERM)
                assert second.wait(DEADLINE_S) == 0
        finally:
            end(follower)
    assert heard == [json.loads(line) for line in whole.splitlines()]
    assert [one["type"] for one in heard] == ["task.created", "task.running", "task.succeeded"] * 8
    assert "Lost the stream" in err
    assert "It goes on." in err
    report = json.loads(program.run("store", "check", "--full", "-o", "json").stdout)
    assert report["ok"]


def test_a_stop_ends_streams_in_order_and_soon(program: Program) -> None:
    with serving(program, "127.0.0.1:0", "--log-level", "debug") as daemon:
        follower = program.start("ctl", "events", "--after", "0-0", "-o", "json")
        try:
            program.ctl("task", "add", "http://127.0.0.1:9/", "--in", "1h")
            assert follower.stdout is not None
            _lines(follower.stdout, [], follower, 1)
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(DEADLINE_S) == 0
            assert follower.poll() is None, "it waits for the server"
            follower.send_signal(signal.SIGINT)
            _, err = follower.communicate(timeout=DEADLINE_S)
            assert follower.returncode == 130
            assert "Traceback" not in err
        finally:
            end(follower)
    log = [json.loads(line) for line in (program.folder / "log").read_text().splitlines()]
    assert "stream_failed" not in {line["event"] for line in log}
    stopped = {line["service"]: _instant(line) for line in log if line["event"] == "service_stopped"}
    waited_ms = (stopped["api"] - stopped["event_streams"]) / timedelta(milliseconds=1)
    assert waited_ms < STOP_GRACE_MS, "nobody waits for a stream"


def _instant(line: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(line["timestamp"])
