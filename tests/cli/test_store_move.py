"""The real command between a real file and a real server: killed, run again, beside a daemon; and a daemon goes on."""

import asyncio
import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import asyncpg
import pytest

from tasktick.client import core, schedules
from tasktick.client.sync import Client
from tests import postgres
from tests.cli.program import DEADLINE_S, Program, end, until
from tests.fakes.api_stub import ApiStub, Told, api_stub

pytestmark = [
    pytest.mark.process,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]

FAR = 4_000
SOON = 30
KILLS = 12
SETTLED_S = 60
FILE = "sqlite:///tasktick-data/tasktick.db"


@pytest.fixture
def receiver() -> Iterator[ApiStub]:
    with api_stub() as running:
        running.tell(*[Told()] * 20_000)
        yield running


class Shop:
    """One TaskTick, wherever its store is."""

    def __init__(self, folder: Path, receiver: ApiStub) -> None:
        self.program = Program(folder)
        self.target = {"url": f"{receiver.url}/hook"}
        self.daemon: subprocess.Popen[str] | None = None

    def serve(self, store: str) -> None:
        self.program.address.unlink(missing_ok=True)
        flags = ("--store", store, "--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8")
        with (self.program.folder / "log").open("ab") as log:
            self.daemon = self.program.start("serve", *flags, stderr=log)
        until(self.program.address.is_file, self.daemon)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        assert self.daemon is not None
        self.daemon.send_signal(how)
        self.daemon.wait(DEADLINE_S)
        end(self.daemon)

    def client(self) -> Client:
        url = self.program.address.read_text().strip()
        return Client(url, (self.program.data / "operator.key").read_text().strip())

    def move(self, source: str, target: str, *flags: str) -> Any:
        said = self.program.run("store", "move", "--from", source, "--to", target, *flags, "-o", "json").stdout
        return json.loads(said)

    def sound(self, store: str) -> None:
        report = json.loads(self.program.run("store", "check", "--store", store, "-o", "json").stdout)
        assert report["ok"], report


def _fill(shop: Shop) -> tuple[list[str], dict[str, Any]]:
    """Tasks for later and for soon, one that was given a key, a schedule, an API key; the ids that are due soon."""
    with shop.client() as client:
        lines = [json.dumps({"delay": "30d", "target": shop.target, "name": f"far-{n}"}) for n in range(FAR)]
        client.call(core.create_tasks("\n".join(lines).encode()))
        soon = [
            client.call(core.create_task({"delay": f"{4_000 + 50 * n}ms", "target": shop.target}))["id"]
            for n in range(SOON)
        ]
        once = client.call(core.create_task({"delay": "20d", "target": shop.target}, idempotency_key="once"))
        client.call(schedules.create({"every": "1s", "key": "tick", "task": {"target": shop.target}}))
        client.call(core.create_key({"role": "viewer", "name": "eyes"}))
        client.call(core.create_secret())
    return soon, once


def test_killed_at_any_moment_and_the_daemon_goes_on(
    server: postgres.Cluster, receiver: ApiStub, tmp_path: Path
) -> None:
    shop = Shop(tmp_path, receiver)
    store = asyncio.run(server.new_database())
    random = Random(4)
    try:
        shop.serve(FILE)
        soon, once = _fill(shop)
        shop.stop(signal.SIGKILL)
        codes = [_killed(shop, store, chunks=random.randint(0, 2)) for _ in range(KILLS)]
        moved = shop.move(FILE, store)
        assert codes.count(-signal.SIGKILL) >= KILLS // 3, codes
        if not moved["already"]:
            rows = {one["table"]: one["rows"] for one in moved["tables"]}
            assert rows["tasks"] >= FAR + SOON
        shop.sound(store)
        _refused(shop, "has moved to postgresql://")
        shop.serve(store)
        _goes_on(shop, receiver, soon, once)
        shop.stop()
        back = shop.move(store, FILE, "--replace")
        assert not back["already"]
        shop.sound(FILE)
        shop.serve(FILE)
        _goes_on(shop, receiver, soon, once)
        shop.stop()
        refused = shop.program.run("serve", "--store", store, "--listen", "127.0.0.1:0", code=1)
        assert "has moved to sqlite:///" in refused.stderr
    finally:
        if shop.daemon is not None:
            end(shop.daemon)
    tries = Counter((asked.headers["webhook-id"], asked.headers["tasktick-attempt"]) for asked in receiver.asked)
    assert max(tries.values()) == 1, "an attempt was sent twice"


def _killed(shop: Shop, store: str, *, chunks: int) -> int:
    """Run the command and kill it once it has committed so many chunks more, if it has not come to its end."""
    process = shop.program.start("store", "move", "--from", FILE, "--to", store)
    asyncio.run(_committed(process, store, chunks))
    process.kill()
    code = process.wait()
    end(process)
    return code


async def _committed(process: "subprocess.Popen[str]", store: str, chunks: int) -> None:
    """Wait until the target says so many times that it is filled further, or the process ends."""
    raw = await asyncpg.connect(store)
    seen: list[object] = []
    try:
        while process.poll() is None and len(seen) <= chunks:
            there = await raw.fetchval("SELECT to_regclass('whereabouts')")
            upto = there and await raw.fetchrow("SELECT filled_by, filled_upto FROM whereabouts")
            # Each run has a name of its own: from the moment on that this one has taken over.
            if upto and upto["filled_by"] is not None and upto not in seen:
                seen.append(upto)
            await asyncio.sleep(0.002)
    finally:
        await raw.close()


def _refused(shop: Shop, said: str) -> None:
    refused = shop.program.run("serve", "--store", FILE, "--listen", "127.0.0.1:0", code=1)
    assert said in refused.stderr


def _goes_on(shop: Shop, receiver: ApiStub, soon: list[str], once: dict[str, Any]) -> None:
    """What is due is sent under its id, the schedule ticks, and a repeated request is answered as it was."""
    with shop.client() as client:
        again = client.call(core.create_task({"delay": "20d", "target": shop.target}, idempotency_key="once"))
        assert again == once
        ticked = _fires(client)
        deadline = time.monotonic() + SETTLED_S
        while True:
            sent = {asked.headers["webhook-id"] for asked in receiver.asked}
            if set(soon) <= sent and _fires(client) > ticked:
                break
            assert time.monotonic() < deadline, (len(set(soon) - sent), ticked)
            time.sleep(0.1)
        counted = client.call(core.stats())["tasks"]
        assert counted["scheduled"] >= FAR + 1
        assert len(client.call(core.list_keys())["data"]) == 2
        made = client.call(core.create_task({"target": shop.target}))["id"]
    until(lambda: made in {asked.headers["webhook-id"] for asked in receiver.asked}, shop.daemon)  # type: ignore[arg-type] # it runs


def _fires(client: Client) -> int:
    found = client.call(schedules.read("key:tick"))
    return int(found["counts"]["fired"])


def _create(shop: Shop, made: list[str], stop: Event) -> None:
    """Create tasks that are due at once, wherever the daemon is, and remember what was acknowledged."""
    while not stop.is_set():
        try:
            with shop.client() as client:
                while not stop.is_set():
                    made.append(client.call(core.create_task({"target": shop.target}))["id"])
        except (OSError, core.Unreachable, core.Problem):
            time.sleep(0.02)


def test_beside_a_daemon_that_is_stopped_when_asked(
    server: postgres.Cluster, receiver: ApiStub, tmp_path: Path
) -> None:
    shop = Shop(tmp_path, receiver)
    store = asyncio.run(server.new_database())
    shop.serve(FILE)
    made: list[str] = []
    stop = Event()
    _fill(shop)
    caller = Thread(target=_create, args=(shop, made, stop))
    caller.start()
    said = (tmp_path / "said").open("w+")
    flags = ("--online", "-o", "json")
    mover = shop.program.start("store", "move", "--from", FILE, "--to", store, *flags, stderr=said)
    try:
        until(lambda: "Stop the daemon now" in (tmp_path / "said").read_text(), mover)
        before = len(made)
        until(lambda: len(made) > before + 20, mover)
        shop.stop()
        out, _ = mover.communicate(timeout=DEADLINE_S)
        assert mover.returncode == 0, (tmp_path / "said").read_text()
        moved = json.loads(out)
        assert moved["downtime_ms"] < DEADLINE_S * 1_000
        shop.sound(store)
        shop.serve(store)
        until(lambda: set(made) <= {asked.headers["webhook-id"] for asked in receiver.asked}, shop.daemon)  # type: ignore[arg-type] # it runs
        stop.set()
        caller.join()
        shop.stop()
        _refused(shop, "has moved to")
    finally:
        stop.set()
        caller.join()
        said.close()
        end(mover)
        if shop.daemon is not None:
            end(shop.daemon)


def test_what_is_wrong_is_told(server: postgres.Cluster, receiver: ApiStub, tmp_path: Path) -> None:
    shop = Shop(tmp_path, receiver)
    store = asyncio.run(server.new_database())
    shop.serve(FILE)
    try:
        busy = shop.program.run("store", "move", "--from", FILE, "--to", store, code=1)
        assert "is in use by another TaskTick" in busy.stderr
    finally:
        shop.stop()
    nowhere = "postgresql://somebody:s3cret@127.0.0.1:9/tasks"
    for pair in ((FILE, nowhere), (nowhere, FILE)):
        said = shop.program.run("store", "move", "--from", pair[0], "--to", pair[1], code=1)
        assert "The store postgresql://somebody@127.0.0.1:9/tasks cannot be opened" in said.stderr
        assert "s3cret" not in said.stdout + said.stderr
    assert "Name the place" in shop.program.run("store", "move", "--from", FILE, code=2).stderr
    assert "has not moved" in shop.program.run("store", "move", "--forget", "--yes", "--from", FILE, code=1).stderr
    assert "store.url" in shop.program.run("store", "move", "--from", FILE, "--to", "mysql://x", code=2).stderr
    shop.move(FILE, store)
    assert shop.program.run("store", "move", "--forget", "--yes", "--from", FILE).stdout.startswith("sqlite:///")
    shop.serve(FILE)
    shop.stop()
