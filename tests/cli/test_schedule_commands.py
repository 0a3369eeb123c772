"""Schedules from the command line, on a real daemon: made, read, moved, and what became of their times."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from tests.cli.program import DEADLINE_S, Program, end, until
from tests.fakes.api_stub import ApiStub, Told, api_stub

pytestmark = [pytest.mark.process, pytest.mark.slow]

NOWHERE = "http://127.0.0.1:9/"
NINE = ("--cron", "0 9 * * MON-FRI", "--timezone", "Europe/Berlin")


class Running(msgspec.Struct):
    """The program, and its daemon."""

    program: Program
    process: subprocess.Popen[str]

    def ctl(self, *arguments: str) -> Any:
        return self.program.ctl("schedule", *arguments)

    def said(self, *arguments: str, code: int = 0) -> str:
        done = self.program.run("ctl", "schedule", *arguments, code=code)
        return done.stdout + done.stderr

    def until(self, seen: Callable[[], Any]) -> None:
        until(seen, self.process)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    program = Program(tmp_path_factory.mktemp("program"))
    process = program.start("serve", "--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8")
    try:
        until(program.address.is_file, process)
        yield Running(program, process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, err
        program.run("store", "check", "--full")
    finally:
        end(process)


@pytest.fixture
def receiver() -> Iterator[ApiStub]:
    with api_stub() as running:
        running.tell(*[Told(200, b"thanks")] * 100)
        yield running


def test_a_schedule_fires_and_tells_of_it(daemon: Running, receiver: ApiStub) -> None:
    flags = ("--every", "1s", "--key", "seconds", "--max-fires", "2", "--name", "Seconds", "--tag", "a=b")
    made = daemon.ctl("add", f"{receiver.url}/hook", *flags, "--body", '{"n": 1.00}')
    daemon.until(lambda: daemon.ctl("show", "key:seconds")["ended"])
    daemon.until(lambda: len(receiver.asked) == 2)
    assert receiver.asked[0].body == b'{"n": 1.00}'
    rows = daemon.ctl("fires", made["id"])["data"]
    assert [row["outcome"] for row in rows] == ["run", "run"]
    assert rows[0]["task_id"] in daemon.said("fires", "key:seconds", "--outcome", "run")
    assert "No time matches" in daemon.said("fires", "key:seconds", "--outcome", "missed")
    shown = daemon.said("show", "key:seconds")
    assert "ended: nothing is to come" in shown
    assert "2 fired, 0 skipped, 0 missed, 0 failed" in shown
    assert "2 fired" in daemon.said("list", "--tag", "a=b", "--q", "SECONDS")
    assert "Nothing is to come." in daemon.said("next", "key:seconds")


def test_a_schedule_is_changed_in_part(daemon: Running) -> None:
    call = ("--header", "x-team: billing", "--body", '{"n": 1.00}', "--queue", "reports")
    policy = ("--catch-up", "all", "--catch-up-window", "6h", "--repeat", "second", "--jitter", "10m")
    limits = ("--end-at", "2040-01-01T00:00:00", "--max-fires", "7", "--note", "hello")
    made = daemon.ctl("add", NOWHERE, *NINE, "--key", "daily", *call, *policy, *limits)
    assert made["end_at"] == "2039-12-31T23:00:00.000Z"

    daemon.ctl("edit", "key:daily", "--to", f"{NOWHERE}v2", "--header", "X-More: yes", "--retry-max", "2")
    daemon.ctl("edit", "key:daily", "--gap", "skip", "--catch-up-window", "none")
    daemon.ctl("set", "key:daily", "--end-at", "none", "--max-fires", "none", "--jitter", "none", "--note", "")
    found = daemon.ctl("show", "key:daily")
    target, retry = found["task"]["target"], found["task"]["retry"]
    assert target["url"] == f"{NOWHERE}v2"
    assert {name.lower(): value for name, value in target["headers"].items()} == {"x-team": "billing", "x-more": "yes"}
    assert target["body"] == {"n": 1.0}
    assert (found["task"]["queue"], retry["max_attempts"], retry["initial"]) == ("reports", 2, 10)
    assert found["dst"] == {"gap": "skip", "repeat": "second"}
    assert found["catch_up"] == {"mode": "all", "window": None, "max": 100}
    assert [found[name] for name in ("end_at", "max_fires", "jitter", "note")] == [None, None, 0, None]

    every = daemon.ctl("edit", "key:daily", "--every", "90m")
    assert (every["cron"], every["every"]) == (None, 5_400)
    assert "Every 1 hour and 30 minutes" in daemon.said("list")
    assert daemon.ctl("edit", "key:daily", *NINE)["every"] is None
    assert "/cron" in daemon.said("edit", "key:daily", "--cron", "0 9 31 2 *", code=1)


def test_a_schedule_from_a_file(daemon: Running) -> None:
    file = daemon.program.folder / "weekly.json"
    file.write_text(
        '{"cron": "0 9 * * MON", "task": {"target": {"url": "https://app.example/x", "body": {"n": 1.00}}}}'
    )
    made = daemon.ctl("add", "--file", str(file), "--key", "weekly", "--replace")
    assert daemon.ctl("add", "--file", str(file), "--key", "weekly", "--replace")["id"] == made["id"]
    assert "key_taken" in daemon.said("add", "--file", str(file), "--key", "weekly", code=1)
    file.write_text('{"paused": true}')
    assert daemon.ctl("edit", "key:weekly", "--file", str(file))["paused"] is True


def test_a_schedule_is_moved_and_removed(daemon: Running, receiver: ApiStub) -> None:
    made = daemon.ctl("add", receiver.url, *NINE, "--key", "moved")
    until_2040 = ("--until", "2040-01-01T00:00:00Z", "--note", "moving")
    assert daemon.ctl("pause", "key:moved", *until_2040)["paused"] is True
    assert "paused until 2040-01-01T00:00:00.000Z, in " in daemon.said("show", "key:moved")
    assert "key:moved" in daemon.said("list", "--paused")
    assert "key:moved" not in daemon.said("list", "--not-paused")
    assert daemon.ctl("resume", made["id"])["next_fire_at"] is not None
    task = daemon.ctl("trigger", "key:moved", "--body", "[1]", "--wait")
    assert (task["state"], task["schedule_id"]) == ("succeeded", made["id"])
    assert receiver.asked[0].document == [1]
    assert "T09:00:00+0" in daemon.said("upcoming", "key:moved", "--count", "3")
    assert "say --yes" in daemon.said("delete", "key:moved", code=2)
    daemon.said("delete", "key:moved", "--yes")
    assert "not_found" in daemon.said("show", made["id"], code=1)
    assert (
        f"tasktick ctl schedule show {made['id']}"
        in daemon.program.run("ctl", "task", "show", made["id"], code=1).stderr
    )


def test_times_of_a_pause_can_be_run_later(daemon: Running, receiver: ApiStub) -> None:
    made = daemon.ctl("add", receiver.url, "--every", "1s", "--paused", "--key", "later")
    rows: list[Any] = []

    def skipped() -> bool:
        daemon.ctl("resume", "key:later")
        daemon.ctl("pause", "key:later")
        rows[:] = daemon.ctl("fires", "key:later", "--outcome", "skipped")["data"]
        return len(rows) > 0

    daemon.until(skipped)
    assert rows[0]["reason"] == "paused"
    found = ("--schedule", made["id"], "--state", "skipped")
    counted = daemon.program.ctl("task", "run", *found, "--dry-run")
    assert counted["matched"] >= len(rows)
    assert daemon.program.ctl("task", "run", *found)["changed"] >= len(rows)
    task_id = rows[0]["task_id"]
    daemon.until(lambda: daemon.program.ctl("task", "show", task_id)["state"] == "succeeded")
