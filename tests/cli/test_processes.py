"""`serve --processes N` as it is used: real processes on a real PostgreSQL, killed, stopped, and fed by clients."""

import http.client
import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from tasktick.client import core
from tasktick.daemon import SAME_SIGNAL_MS
from tests import postgres
from tests.cli.many import FLAGS, Many, is_alive, many, new_store, slow_receiver, until_true
from tests.cli.program import DEADLINE_S, Program
from tests.cli.test_supervised import supervisor
from tests.fakes.api_stub import Told, api_stub

pytestmark = [
    pytest.mark.process,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]

TASKS = 300
LEASE_S = 30
NODES = ("big-1", "big-2", "big-3")


def create(running: Many, target: str, count: int, callers: int = 6) -> list[str]:
    """Tasks that are due now, made over several connections; their ids."""

    def some(_: int) -> list[str]:
        with running.client() as client:
            return [client.call(core.create_task({"target": {"url": target}}))["id"] for _ in range(count // callers)]

    with ThreadPoolExecutor(callers) as pool:
        return [one for made in pool.map(some, range(callers)) for one in made]


def until_succeeded(running: Many, count: int) -> None:
    with running.client() as client:
        running.until(lambda: client.call(core.stats())["tasks"]["succeeded"] == count)


def metrics(running: Many) -> list[str]:
    request = Request(f"{running.url}/metrics", headers={"Authorization": f"Bearer {running.key}"})
    with urlopen(request, timeout=DEADLINE_S) as answer:
        return [line for line in answer.read().decode().splitlines() if not line.startswith("#")]


def sample(lines: list[str], name: str, node: str, more: str = "") -> float:
    (found,) = [line for line in lines if line.startswith(f'{name}{{node="{node}"{more}}} ')]
    return float(found.rpartition(" ")[2])


def test_three_processes_fire_every_task_once(tmp_path: Path) -> None:
    with api_stub() as receiver, many(Program(tmp_path)) as running:
        receiver.tell(*[Told()] * TASKS * 2)
        ids = create(running, receiver.url, TASKS)
        until_succeeded(running, TASKS)
        assert sorted(asked.headers["webhook-id"] for asked in receiver.asked) == sorted(ids)
        seen = metrics(running)
        outcome = ',outcome="succeeded"'
        fired = [sample(seen, "tasktick_attempts_total", node, outcome) for node in NODES]
        assert sum(fired) == TASKS
        assert min(fired) > 0
        assert sum(sample(seen, "tasktick_partitions_owned", node) for node in NODES) == 256
        assert [sample(seen, "tasktick_process_up", node) for node in NODES] == [1, 1, 1]
        assert all("{" in line for line in seen)
        assert {line["process"] for line in running.said("daemon_started")} == set(NODES)
        assert all("process" in json.loads(line) for line in running.log.splitlines())
        pid_of_first = running.pid("big-1")
    assert not running.program.address.exists()
    assert not is_alive(pid_of_first)
    assert [line["code"] for line in running.said("process_ended")] == [0, 0, 0]


def test_what_a_killed_process_had_goes_on_at_once(tmp_path: Path) -> None:
    with slow_receiver() as receiver, many(Program(tmp_path)) as running:
        ids = create(running, receiver.url, 60)
        running.until(lambda: len(receiver.calls) == 60)
        with running.client() as client:
            nodes = {one: client.call(core.task_attempts(one))["data"][-1]["node"] for one in ids}
        lost = {one for one, node in nodes.items() if node == "big-2"}
        assert 0 < len(lost) < 60

        killed_s = time.monotonic()
        os.kill(running.pid("big-2"), signal.SIGKILL)
        running.until(lambda: len(receiver.calls) >= 60 + len(lost))
        # Without proof of death it would be the attempt's own lease: over half a minute.
        assert time.monotonic() - killed_s < LEASE_S
        running.until(lambda: len(running.said("daemon_started", process="big-2")) == 2)
        more = create(running, receiver.url, 60)
        receiver.may_answer.set()
        until_succeeded(running, 120)
        hits = receiver.count()
        assert {one for one, count in hits.items() if count == 2} == lost
        assert set(hits) == {*ids, *more}
        assert sample(metrics(running), "tasktick_process_restarts_total", "big-2") == 1
        assert [line["code"] for line in running.said("process_restarts")] == [-9]
        assert [line["level"] for line in running.said("process_ended")] == ["warning"]


def test_load_goes_on_over_kills_of_every_process(tmp_path: Path) -> None:
    with api_stub() as receiver, many(Program(tmp_path)) as running:
        receiver.tell(*[Told()] * 10_000)
        made: list[str] = []
        for at, node in enumerate(NODES):
            with ThreadPoolExecutor(1) as pool:
                making = pool.submit(create_through_kills, running, receiver.url, 60)
                os.kill(running.pid(node), signal.SIGKILL)
                made += making.result()
            wanted = len(NODES) + 1 + at
            until_true(partial(started, running, wanted))
        until_true(lambda: {asked.headers["webhook-id"] for asked in receiver.asked} >= set(made))


def started(running: Many, count: int) -> bool:
    return len(running.said("daemon_started")) >= count


def create_through_kills(running: Many, target: str, count: int) -> list[str]:
    """Tasks that were acknowledged, though connections die meanwhile."""
    made: list[str] = []
    while len(made) < count:
        try:
            with running.client() as client:
                while len(made) < count:
                    made.append(client.call(core.create_task({"target": {"url": target}}))["id"])
        except (core.Unreachable, core.Problem):
            continue
    return made


def test_processes_end_with_their_supervisor(tmp_path: Path) -> None:
    program, store = Program(tmp_path), new_store()
    with many(program, store=store, count=2) as running:
        pids = running.pids()
        running.process.kill()
        running.process.wait()
        until_true(lambda: not any(map(is_alive, pids)))
        assert len(running.said("supervisor_gone")) == 2
        assert len(running.said("daemon_stopped")) == 2
    program.address.unlink()
    with many(program, store=store, count=2) as again, again.client() as client:
        assert len(client.call(core.get("cluster"))["nodes"]) == 2


def test_while_a_process_lives_nobody_else_has_the_folder(tmp_path: Path) -> None:
    program, store = Program(tmp_path), new_store()
    with slow_receiver() as receiver, many(program, store=store, count=2) as running:
        create(running, receiver.url, 6)
        running.until(lambda: len(receiver.calls) == 6)
        pids = running.pids()
        running.process.kill()
        running.process.wait()
        # They wait for their calls: to declare them dead would send those twice.
        second = program.run("serve", "--store", store, *FLAGS, "--processes", "2", code=1)
        assert "in use by another TaskTick" in second.stderr
        receiver.may_answer.set()
        until_true(lambda: not any(map(is_alive, pids)))
        assert set(receiver.count().values()) == {1}


def test_a_client_of_a_process_that_is_stopped_finds_another(tmp_path: Path) -> None:
    with many(Program(tmp_path)) as running:
        address = urlsplit(running.url).netloc
        headers = {"Authorization": f"Bearer {running.key}"}
        with closing(http.client.HTTPConnection(address, timeout=DEADLINE_S)) as kept:
            kept.request("GET", "/v1/stats", headers=headers)
            node = json.loads(kept.getresponse().read())["node"]
            os.kill(running.pid(node), signal.SIGTERM)
            assert kept.sock is not None
            assert kept.sock.recv(1) == b""  # let go, not reset
        others = set()
        while not running.said("process_ended", node=node):
            with running.client() as client:  # a new connection each time, and each is answered
                others.add(client.call(core.stats())["node"])
        assert node not in others
        assert running.said("process_ended", node=node)[0]["code"] == 0
        running.until(lambda: len(running.said("daemon_started", process=node)) == 2)


def test_a_second_signal_cuts_what_is_in_flight(tmp_path: Path) -> None:
    with slow_receiver() as receiver, many(Program(tmp_path), count=2) as running:
        create(running, receiver.url, 6)
        running.until(lambda: len(receiver.calls) == 6)
        running.process.send_signal(signal.SIGTERM)
        running.process.send_signal(signal.SIGINT)
        running.until(lambda: len(running.said("daemon_stopping")) == 2)
        meant_s = time.monotonic() + 2 * SAME_SIGNAL_MS / 1_000
        running.until(lambda: time.monotonic() > meant_s)
        assert not running.said("supervisor_hurried")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(DEADLINE_S) == 0
        assert running.said("attempts_cut")


def test_sighup_is_handed_on(tmp_path: Path) -> None:
    file = tmp_path / "tasktick.toml"
    file.write_text("")
    with many(Program(tmp_path), "--config", str(file), count=2) as running:
        file.write_text('[log]\nlevel = "debug"\n[server]\nidle_timeout_ms = 1000\n')
        running.process.send_signal(signal.SIGHUP)
        running.until(lambda: len(running.said("reloaded", changed=["log.level"])) == 2)
        (handed,) = running.said("reload_handed_on")
        assert handed["needs_restart"] == ["server.idle_timeout_ms"]
        file.write_text("[log\n")
        running.process.send_signal(signal.SIGHUP)
        running.until(lambda: running.said("reload_refused"))
        os.kill(running.pid("big-1"), signal.SIGKILL)
        running.until(lambda: len(running.said("daemon_started", process="big-1")) == 2)
        assert running.said("service_stopped") == []
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(DEADLINE_S) == 0
        # Who was started after the change has it: at `debug` every service says that it has stopped.
        assert {line["process"] for line in running.said("service_stopped")} == {"big-1", "big-2", "supervisor"}


def test_systemd_hears_of_all_as_of_one(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    program = Program(tmp_path, environment={"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "100000"})
    with supervisor(address) as words:
        with many(program, count=2) as running:
            running.until(lambda: "READY=1" in words)
            assert len(running.said("daemon_started")) == 2
            assert f"STATUS=serving {running.url} with 2 processes" in words
            fed = words.count("WATCHDOG=1")
            running.until(lambda: words.count("WATCHDOG=1") >= fed + 3)
            os.kill(running.pid("big-1"), signal.SIGKILL)
            running.until(lambda: f"STATUS=serving {running.url} with 1 of 2 processes" in words)
            whole = words.count(f"STATUS=serving {running.url} with 2 processes")
            running.until(lambda: words.count(f"STATUS=serving {running.url} with 2 processes") > whole)
            assert "STOPPING=1" not in words
        assert words.count("STOPPING=1") == 1
        assert words.count("READY=1") == 1


def test_what_cannot_start_says_why_and_ends(tmp_path: Path) -> None:
    program, store = Program(tmp_path), new_store()
    serve = ("serve", "--processes", "2", "--allow-network", "127.0.0.0/8")
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        said = program.run(*serve, "--store", store, "--listen", taken, code=2)
        assert f"{taken} cannot be listened on: Address already in use" in said.stderr
        said = program.run(*serve, "--store", store, "--listen", "127.0.0.1:0", "--gossip", taken, code=2)
        assert "the port of process 1, cannot be opened" in said.stderr
    nowhere = "postgresql://somebody:s3cret@127.0.0.1:9/tasks"
    said = program.run(*serve, "--store", nowhere, "--listen", "127.0.0.1:0", code=1)
    assert "The store postgresql://somebody@127.0.0.1:9/tasks cannot be opened" in said.stderr
    assert "process_given_up" in said.stderr
    assert "s3cret" not in said.stderr
    (program.data / "operator.key").write_text("not a key\n")
    (program.data / "operator.key").chmod(0o600)
    said = program.run(*serve, "--store", store, "--listen", "127.0.0.1:0", code=2)
    assert "holds no TaskTick key" in said.stderr
    assert not program.address.exists()
    assert "for `tasktick serve --processes N` to start" in program.run("serve-process", "99", code=2).stderr
