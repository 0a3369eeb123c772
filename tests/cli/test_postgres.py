"""The real program on a real PostgreSQL, both of them killed: every task that was acknowledged is delivered."""

import asyncio
import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import asyncpg
import pytest

from tasktick.client import core
from tasktick.client.sync import Client
from tests import postgres
from tests.cli.program import DEADLINE_S, Program, end, until
from tests.fakes.api_stub import ApiStub, Told, api_stub

pytestmark = [
    pytest.mark.process,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]

ANSWERS = 20_000
SETTLED_S = 60
# The start, the term and the writer each have so many seconds to come to their end.
STOP_S = 30
KILL_BACKENDS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tasktick%'"


@pytest.fixture
def receiver() -> Iterator[ApiStub]:
    with api_stub() as running:
        running.tell(*[Told()] * ANSWERS)
        yield running


class Callers:
    """Threads that create tasks which are due at once, and remember what was acknowledged."""

    def __init__(self, program: Program, target: str) -> None:
        self._program = program
        self._target = target
        self._stop = Event()
        self.ids: list[str] = []
        self.refused: Counter[str] = Counter()
        self._threads = [Thread(target=self._create) for _ in range(4)]
        for thread in self._threads:
            thread.start()

    def _create(self) -> None:
        while not self._stop.is_set():
            try:
                url = self._program.address.read_text().strip()
                with Client(url, (self._program.data / "operator.key").read_text().strip()) as client:
                    while not self._stop.is_set():
                        made = client.call(core.create_task({"target": {"url": self._target}}))
                        self.ids.append(made["id"])
            except (OSError, core.Unreachable, core.Problem) as error:
                self.refused[type(error).__name__] += 1
                time.sleep(0.02)

    def until_more(self, count: int) -> None:
        wanted, deadline = len(self.ids) + count, time.monotonic() + DEADLINE_S
        while len(self.ids) < wanted:
            assert time.monotonic() < deadline, f"{len(self.ids)} created; {self.refused}"
            time.sleep(0.01)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def test_nothing_acknowledged_is_lost(server: postgres.Cluster, receiver: ApiStub, tmp_path: Path) -> None:
    program = Program(tmp_path)
    store = asyncio.run(server.new_database())
    log = (tmp_path / "log").open("ab")

    def serve() -> subprocess.Popen[str]:
        flags = ("--store", store, "--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8")
        process = program.start("serve", *flags, stderr=log)
        until(program.address.is_file, process)
        return process

    daemon = serve()
    callers = Callers(program, f"{receiver.url}/hook")
    try:
        callers.until_more(50)
        for _ in range(3):
            asyncio.run(server.run(KILL_BACKENDS))
            callers.until_more(30)
        for how in (signal.SIGINT, signal.SIGQUIT):
            server.stop(how)
            server.start()
            callers.until_more(30)
        assert daemon.poll() is None, "a server that goes away is no reason to end"
        for _ in range(2):
            end(daemon)  # by kill -9
            program.address.unlink()
            daemon = serve()
            callers.until_more(30)
        callers.stop()
        until_settled(program, receiver, callers)
        hits = Counter(asked.headers["webhook-id"] for asked in receiver.asked)
        assert not set(callers.ids) - set(hits)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(DEADLINE_S) == 0
        report = json.loads(program.run("store", "check", "--store", store, "-o", "json").stdout)
        assert report["ok"], report
    finally:
        callers.stop()
        end(daemon)
        log.close()


def until_settled(program: Program, receiver: ApiStub, callers: Callers) -> None:
    """Wait until nothing is left to do: what a dead daemon was sending goes again at once."""
    url = program.address.read_text().strip()
    deadline = time.monotonic() + SETTLED_S
    with Client(url, (program.data / "operator.key").read_text().strip()) as client:
        while True:
            counted = {state: n for state, n in client.call(core.stats())["tasks"].items() if n}
            if set(counted) <= {"succeeded"} and counted["succeeded"] >= len(callers.ids):
                return
            assert time.monotonic() < deadline, f"{counted}, {len(receiver.asked)} calls"
            time.sleep(0.1)


def test_a_folder_is_one_daemons_and_a_missing_server_is_named(server: postgres.Cluster, tmp_path: Path) -> None:
    program = Program(tmp_path)
    store = asyncio.run(server.new_database())
    first = program.start("serve", "--store", store, "--listen", "127.0.0.1:0")
    try:
        until(program.address.is_file, first)
        second = program.run("serve", "--store", store, "--listen", "127.0.0.1:0", code=1)
        assert "is in use by another TaskTick (process" in second.stderr
        assert "is up to date" in program.run("migrate", "--store", store).stdout
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=DEADLINE_S)
    finally:
        end(first)
    nowhere = "postgresql://somebody:s3cret@127.0.0.1:9/tasks"
    for command in (["serve", "--listen", "127.0.0.1:0"], ["migrate"], ["store", "check"]):
        said = program.run(*command, "--store", nowhere, code=1)
        assert "The store postgresql://somebody@127.0.0.1:9/tasks cannot be opened" in said.stderr
        assert "s3cret" not in said.stdout + said.stderr


def test_a_start_that_waits_for_its_store_stops_when_it_is_told_to(tmp_path: Path) -> None:
    with postgres.own_cluster(max(postgres.installed())) as server:
        program = Program(tmp_path)
        store = asyncio.run(server.new_database())
        flags = ("--store", store, "--listen", "127.0.0.1:0")
        daemon = program.start("serve", *flags)
        until(program.address.is_file, daemon)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(DEADLINE_S) == 0
        end(daemon)
        asyncio.run(_stop_within_a_start(program, store, flags))


async def _stop_within_a_start(program: Program, store: str, flags: tuple[str, ...]) -> None:
    """Somebody holds the table that it wants to write to."""
    holder, watcher = await asyncpg.connect(store), await asyncpg.connect(store)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    daemon = program.start("serve", *flags)
    try:
        async with asyncio.timeout(DEADLINE_S + STOP_S):
            await holder.execute("BEGIN; LOCK TABLE nodes IN EXCLUSIVE MODE")
            while not await watcher.fetchval(waiting):  # noqa: ASYNC110 - a lock of another connection tells nobody
                await asyncio.sleep(0.05)
            daemon.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(daemon.wait, STOP_S) == 0
    finally:
        end(daemon)
        await holder.close()
        await watcher.close()
