"""The real program: started in an empty folder, used from the command line, stopped by a signal."""

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.cli.program import DEADLINE_S, Program, until
from tests.fakes.api_stub import ApiStub, Told, api_stub

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    program = Program(tmp_path_factory.mktemp("program"))
    process = program.start("serve", "--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8")
    try:
        until((program.data / "address").is_file, process)
        yield program
        url = (program.data / "address").read_text().strip()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, err
        key = (program.data / "operator.key").read_text().strip()
        assert key not in out + err
        assert all(json.loads(line)["event"] for line in err.splitlines())
        program.run("store", "check", "--full")
        assert "is up to date" in program.run("migrate").stdout
        assert "cannot be reached" in program.run("ctl", "stats", "--url", url, code=3).stderr
        assert not (program.data / "address").exists()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture
def receiver() -> Iterator[ApiStub]:
    with api_stub() as running:
        yield running


def test_its_files_are_its_users_alone(program: Program) -> None:
    assert program.data.stat().st_mode & 0o777 == 0o700
    modes = {file.name: file.stat().st_mode & 0o777 for file in program.data.iterdir()}
    assert {"tasktick.db", "operator.key", "address"} <= set(modes)
    assert {name for name, mode in modes.items() if mode & 0o077} == set()


def test_a_task_from_the_command_line_to_its_receiver(program: Program, receiver: ApiStub) -> None:
    receiver.tell(Told(200, b"thanks"))
    url = f"{receiver.url}/hook"
    task = program.ctl("task", "add", url, "--body", '{"n": 1}', "--key", "k-1", "--tag", "a=b", "--wait")
    assert task["state"] == "succeeded"
    assert task["result"]["body"] == "thanks"
    assert receiver.asked[0].document == {"n": 1}
    assert receiver.asked[0].headers["webhook-id"] == task["id"]
    listed = program.ctl("task", "list", "--state", "succeeded", "--tag", "a=b")
    assert [one["id"] for one in listed["data"]] == [task["id"]]
    attempts = program.ctl("task", "show", task["id"], "--attempts")
    assert [one["state"] for one in attempts["data"]] == ["succeeded"]
    assert task["id"] in program.run("ctl", "task", "show", "key:k-1").stdout


def created(program: Program) -> float:
    """How many tasks it says that it has accepted."""
    key = (program.data / "operator.key").read_text().strip()
    asked = Request(f"{program.address.read_text().strip()}/metrics", headers={"Authorization": f"Bearer {key}"})
    with urlopen(asked, timeout=DEADLINE_S) as answer:
        page = answer.read().decode()
    [count] = re.findall(r"^tasktick_tasks_created_total (\S+)$", page, re.MULTILINE)
    return float(count)


def test_what_is_due_of_a_batch_goes_at_once_and_all_of_it_is_counted(
    program: Program, receiver: ApiStub, tmp_path: Path
) -> None:
    receiver.tell(Told(200, b"thanks"))
    far = {"target": {"url": "http://127.0.0.1:9/"}, "delay": "9d"}
    tasks = [far, {"target": {"url": f"{receiver.url}/soon"}}, far]
    file = tmp_path / "tasks.ndjson"
    file.write_text("\n".join(map(json.dumps, tasks)))
    before = created(program)
    program.run("ctl", "task", "import", str(file))
    deadline = time.monotonic() + DEADLINE_S
    while not receiver.asked:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert receiver.asked[0].path == "/soon"
    assert created(program) == before + 3


def test_a_task_is_moved(program: Program) -> None:
    task = program.ctl("task", "add", "http://127.0.0.1:9/", "--in", "2d", "--key", "k-2")
    assert program.ctl("task", "pause", "key:k-2")["state"] == "paused"
    assert program.ctl("task", "resume", task["id"])["state"] == "scheduled"
    assert program.ctl("task", "cancel", task["id"])["state"] == "cancelled"
    refused = program.run("ctl", "task", "pause", task["id"], code=1)
    assert "state_conflict" in refused.stderr
    program.run("ctl", "task", "delete", task["id"], "--yes")
    assert "not_found" in program.run("ctl", "task", "show", task["id"], code=1).stderr


def test_a_dead_letter_is_replayed_and_archived(program: Program, receiver: ApiStub) -> None:
    receiver.tell(Told(404), Told(404))
    task = program.ctl("task", "add", receiver.url, "--queue", "dying", "--wait", code=1)
    assert task["state"] == "dead"
    letter = program.ctl("dlq", "list", "--queue", "dying")["data"][0]
    assert letter["class"] == "receiver"
    assert letter["id"] in program.run("ctl", "dlq", "list").stdout
    assert "http_404" in program.run("ctl", "dlq", "show", letter["id"]).stdout
    program.ctl("dlq", "replay", letter["id"])
    deadline = time.monotonic() + DEADLINE_S
    while not (open_letters := program.ctl("dlq", "list", "--queue", "dying")["data"]):
        assert time.monotonic() < deadline
    assert open_letters[0]["id"] != letter["id"]
    program.run("ctl", "dlq", "archive", open_letters[0]["id"])
    assert "no open dead letters" not in program.run("ctl", "dlq", "list", "--resolved").stderr


def test_a_refusal_names_the_field(program: Program) -> None:
    refused = program.run("ctl", "task", "add", "http://x/", "--in", "soon", code=1)
    assert "/delay (--in): " in refused.stderr
    assert "Request " in refused.stderr


def test_figures_and_secrets(program: Program) -> None:
    assert program.ctl("stats")
    assert program.run("ctl", "stats").stdout
    secret = program.ctl("secret", "show")["data"][0]["secret"]
    assert secret.startswith("whsec_")
    assert secret in program.run("ctl", "secret", "show").stdout
    assert secret not in program.run("ctl", "secret", "list").stdout


def test_another_process_may_look_but_not_write(program: Program) -> None:
    program.run("store", "check")
    program.run("migrate", "--check")
    assert "in use by another TaskTick" in program.run("migrate", code=1).stderr
    assert "in use by another TaskTick" in program.run("serve", "--listen", "127.0.0.1:0", code=1).stderr


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "tasktick.db").write_bytes(b"something else " * 1_000)
    result = Program(tmp_path).run("serve", "--data", ".", "--listen", "127.0.0.1:0", code=1)
    assert "Traceback" not in result.stderr


def test_a_vault_that_was_lost_is_asked_for(tmp_path: Path) -> None:
    program = Program(tmp_path)
    process = program.start("serve", "--listen", "127.0.0.1:0")
    until((program.data / "address").is_file, process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE_S)
    (program.data / "vault.key").unlink()

    assert "vault.key is not there" in program.run("serve", "--listen", "127.0.0.1:0", code=2).stderr
    assert not (program.data / "vault.key").exists()
