"""The real program, several times on one real PostgreSQL: they share the work, and go on when one is killed."""

import asyncio
import json
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import asyncpg
import pytest

from tasktick.client import cluster, core
from tasktick.client.sync import Client
from tests import postgres
from tests.cli.program import DEADLINE_S, Program, end, until
from tests.fakes.api_stub import ApiStub, Asked, Told, api_stub
from tests.ports import free_port, free_ports

pytestmark = [
    pytest.mark.process,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]

VERSIONS = sorted(postgres.installed())
SETTLED_S = 90
# Clocks are wrong by an hour; what a busy machine does to a call is less than this.
LATE_S = 60
TERM = {"TASKTICK_CLUSTER__LEASE_TTL_MS": "1500", "TASKTICK_CLUSTER__LEASE_MARGIN_MS": "300"}


@pytest.fixture
def receiver() -> Iterator[ApiStub]:
    with api_stub() as running:
        running.tell(*[Told()] * 10_000)
        yield running


class Member:
    """One node: its folder, its process, and a client of it."""

    def __init__(
        self, name: str, folder: Path, gossip: int, others: list[int], environment: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir()
        self.name = name
        self.program = Program(folder, environment={**TERM, **(environment or {})})
        seeds = [part for port in others for part in ("--join", f"127.0.0.1:{port}")]
        self._flags = ("--node", name, "--gossip", f"127.0.0.1:{gossip}", *seeds)
        self.process: subprocess.Popen[str] | None = None

    def start(self, store: str) -> None:
        self.program.address.unlink(missing_ok=True)
        flags = ("--store", store, "--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8", *self._flags)
        with (self.program.folder / "log").open("ab") as log:
            self.process = self.program.start("serve", *flags, stderr=log)
        until(self.program.address.is_file, self.process)

    def join(self, other: "Member") -> None:
        """Have what every node of a store needs."""
        self.program.data.mkdir()
        for name in ("vault.key", "operator.key"):
            shutil.copy(other.program.data / name, self.program.data / name)

    def kill(self) -> None:
        assert self.process is not None
        end(self.process)

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(DEADLINE_S) == 0

    def client(self) -> Client:
        url = self.program.address.read_text().strip()
        return Client(url, (self.program.data / "operator.key").read_text().strip())

    def shares(self) -> dict[str, int]:
        """How many partitions each living node owns, as this one sees it."""
        with self.client() as client:
            nodes = client.call(cluster.show())["nodes"]
        return {one["name"]: one["partitions"] for one in nodes if one["state"] == "live"}


def wait_until(seen: Callable[[], Any], told: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SETTLED_S
    while not seen():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)


def is_shared_by(member: Member, names: str) -> bool:
    """Whether these, and nobody else, own about as much each."""
    shares = member.shares()
    least = 256 // len(names) // 2
    return set(shares) == set(names) and sum(shares.values()) == 256 and min(shares.values()) > least


@pytest.mark.parametrize(("names", "version"), [("ab", VERSIONS[0]), ("abc", VERSIONS[-1])])
def test_nodes_share_the_work_and_go_on_when_one_is_killed(
    names: str, version: str, receiver: ApiStub, tmp_path: Path
) -> None:
    ports = free_ports(len(names))
    members = [Member(name, tmp_path / name, ports[i], ports[:i]) for i, name in enumerate(names)]
    first, last = members[0], members[-1]
    with postgres.own_cluster(version) as server:
        store = asyncio.run(server.new_database())
        try:
            first.start(store)
            _without_the_vault(last.program, store)
            for other in members[1:]:
                other.join(first)
                other.start(store)
            wait_until(lambda: is_shared_by(first, names), first.shares)

            ids = [one for member in members for one in _create(member, f"{receiver.url}/hook", 60)]
            last.kill()
            wait_until(lambda: is_shared_by(first, names[:-1]), first.shares)
            ids += _create(first, f"{receiver.url}/hook", 20)
            _until_done(first, ids, receiver)
            last.start(store)
            wait_until(lambda: is_shared_by(first, names), first.shares)
            ids += [one for member in members for one in _create(member, f"{receiver.url}/hook", 20)]
            _until_done(last, ids, receiver)
            for member in members:
                member.stop()
            report = json.loads(first.program.run("store", "check", "--store", store, "-o", "json").stdout)
            assert report["ok"], report
        finally:
            for member in members:
                if member.process is not None:
                    end(member.process)
    sent = Counter((asked.headers["webhook-id"], asked.headers["tasktick-attempt"]) for asked in receiver.asked)
    assert {task for task, _ in sent} == set(ids)
    assert max(sent.values()) == 1, "an attempt was sent twice"


@pytest.mark.parametrize("skew", ["+3600", "-3600"])
def test_a_wrong_clock_on_one_machine_changes_nothing(skew: str, receiver: ApiStub, tmp_path: Path) -> None:
    ports = free_ports(2)
    right = Member("right", tmp_path / "right", ports[0], [])
    wrong = Member("wrong", tmp_path / "wrong", ports[1], ports[:1], _set_clock(skew))
    with postgres.own_cluster(VERSIONS[0]) as server:
        store = asyncio.run(server.new_database())
        try:
            right.start(store)
            wrong.join(right)
            wrong.start(store)
            wait_until(lambda: set(right.shares()) == {"right", "wrong"} == set(wrong.shares()), right.shares)
            ids = [one for member in (right, wrong) for one in _create(member, f"{receiver.url}/hook", 60)]
            _until_done(right, ids, receiver)
            with wrong.client() as client:
                nodes = client.call(cluster.show())["nodes"]
            assert {one["state"] for one in nodes} == {"live"}
            offset = _figure(wrong, "tasktick_store_clock_offset_ms")
            assert abs(offset - int(skew) * 1_000) < 2_000
            for member in (right, wrong):
                assert not _figure(member, 'tasktick_events_total{event="partition_lost"}')
                assert not _figure(member, 'tasktick_events_total{event="store_clock_stepped"}')
                member.stop()
        finally:
            for member in (right, wrong):
                if member.process is not None:
                    end(member.process)
    late = [asked.at - _due(asked) for asked in receiver.asked]
    assert min(late) >= 0, "nothing is early"
    assert max(late) < LATE_S
    assert len(late) == len(ids)


def test_a_store_that_forgets_is_gone_on_with(receiver: ApiStub, tmp_path: Path) -> None:
    only = Member("only", tmp_path / "only", free_port(), [])
    with postgres.own_cluster(VERSIONS[-1]) as server:
        store = asyncio.run(server.new_database())
        try:
            only.start(store)
            ids = _create(only, f"{receiver.url}/hook", 20)
            asyncio.run(_run(store, "UPDATE nodes SET beat = 0; UPDATE leases SET epoch = epoch - 1"))
            wait_until(lambda: _figure(only, 'tasktick_events_total{event="history_regressed"}'), lambda: "not noticed")
            wait_until(lambda: only.shares() == {"only": 256}, only.shares)
            asyncio.run(
                _run(store, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            )
            ids += _create(only, f"{receiver.url}/hook", 20)
            _until_done(only, ids, receiver)
            only.stop()
        finally:
            if only.process is not None:
                end(only.process)
    assert Counter(asked.headers["webhook-id"] for asked in receiver.asked) == Counter(ids)


async def _run(store: str, statements: str) -> None:
    connection = await asyncpg.connect(store)
    await connection.execute(statements)
    await connection.close()


def _set_clock(by: str) -> dict[str, str]:
    """What lets a process read another wall clock."""
    found = find_spec("libfaketime")
    assert found is not None, "the clock is set by libfaketime, which the dev extra brings"
    assert found.origin is not None
    return {
        "LD_PRELOAD": str(Path(found.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"),
        "FAKETIME": by,
        # Else waits with a timeout, such as that for the interpreter's lock, end at once and spin.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def _due(asked: Asked) -> float:
    return datetime.fromisoformat(asked.headers["tasktick-scheduled-at"]).timestamp()


def _figure(member: Member, name: str) -> float:
    """A figure of a node's metrics; 0 if there is none."""
    with urlopen(f"{member.program.address.read_text().strip()}/metrics") as page:
        lines = page.read().decode().splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), 0.0)


def _without_the_vault(program: Program, store: str) -> None:
    """A node that could open no secret of the store says so, and leaves none of its own behind."""
    said = program.run("serve", "--store", store, "--listen", "127.0.0.1:0", code=2)
    assert "copy vault.key from the data folder of one that runs" in said.stderr
    assert not (program.data / "vault.key").exists()
    shutil.rmtree(program.data)


def _create(member: Member, target: str, count: int) -> list[str]:
    """Tasks that are due over the next three seconds."""
    with member.client() as client:
        tasks = [{"delay": f"{number * 50}ms", "target": {"url": target}} for number in range(count)]
        return [client.call(core.create_task(one))["id"] for one in tasks]


def _until_done(member: Member, ids: list[str], receiver: ApiStub) -> None:
    counted: dict[str, int] = {}

    def done() -> bool:
        counted.clear()
        counted.update({state: n for state, n in client.call(core.stats())["tasks"].items() if n})
        return counted == {"succeeded": len(ids)}

    with member.client() as client:
        wait_until(done, lambda: (counted, len(receiver.asked)))
