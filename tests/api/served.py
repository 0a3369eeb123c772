"""A served API: a real store, a real listening socket, a key, and a clock that stands still until moved."""

import asyncio
import json
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, cast

import aiohttp
import msgspec

from tasktick.access import keys
from tasktick.access.key_use import KeyUse
from tasktick.access.roles import Role
from tasktick.access.vault import Vault
from tasktick.api.event_feed import EventFeed
from tasktick.api.ports import Ports
from tasktick.api.server import ApiServer
from tasktick.clock import SystemClock
from tasktick.dispatch.guard import AddressPolicy
from tasktick.model.ids import IdMaker, partition_of
from tasktick.model.schedule import Plan, Recorder
from tasktick.model.state import State
from tasktick.model.task import Due, TaskState
from tasktick.ready.standing import Standing
from tasktick.scheduler.book import Moment
from tasktick.service import Services
from tasktick.settings import Config, DispatchConfig, ServerConfig
from tasktick.store import secrets as stored
from tasktick.store.protocol import ServingDatabase
from tasktick.store.rows import KeyRow
from tasktick.timetable import zones
from tests.api.described import check_described
from tests.store.drivers import chosen
from tests.store.world import NODE, World, WorldClock

URL = "https://receiver.example/hook"
WAIT_S = 5.0


class HeldClock(WorldClock):
    """Tells the time of a world, which moves only when it is moved; waits are as long as they are."""

    async def sleep_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(duration_ms / 1_000)


class Answer(msgspec.Struct):
    """What came back."""

    status: int
    headers: Any
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def code(self) -> str:
        """The code of a problem, which has every part that a problem has."""
        assert self.headers["Content-Type"] == "application/problem+json", self.raw
        document = self.json
        assert document["status"] == self.status
        assert document["type"].endswith(document["code"])
        assert document["title"]
        assert document["detail"]
        assert document["request_id"] == self.headers["X-Request-Id"]
        return str(document["code"])

    @property
    def pointers(self) -> set[str]:
        """Where the faults are."""
        return {one["pointer"] for one in self.json["errors"]}


class Switches(msgspec.Struct):
    """What the rest of the process would say."""

    not_ready: list[str] = []
    draining: bool = False
    overloaded: bool = False
    standings: dict[str, str] | None = None
    standing: Standing = Standing("unknown")
    latencies: dict[str, float] = {}
    near_until: int | None = None
    pressed: bool = False


class Served:
    """The API, and hands on both sides of it."""

    def __init__(self, world: World, session: aiohttp.ClientSession, config: Config) -> None:
        self.world = world
        self.session = session
        self.switches = Switches()
        self.created: list[TaskState] = []
        self.created_far: list[int] = []
        self.changed: list[TaskState] = []
        self.planned: list[Plan] = []
        self.due: list[Due] = []
        self.deciding_ids = IdMaker(Random(4))
        self.signing_changed: list[str] = []
        self.rebalanced = 0
        self.vault = Vault(bytes(32))
        self.key_use = KeyUse(world.database)
        self.feed = EventFeed(HeldClock(world), world.database, config.server)
        self.key = ""
        self.ports = Ports(
            database=cast(ServingDatabase, world.database),
            clock=HeldClock(world),
            ids=IdMaker(Random(3)),
            config=config,
            vault=self.vault,
            feed=self.feed,
            policy=AddressPolicy,
            deciding=self.deciding,
            planned=self.planned.extend,
            due=self.due.extend,
            created=self.created.extend,
            created_far=self.created_far.append,
            near_until=lambda: self.switches.near_until,
            pressed=lambda: self.switches.pressed,
            changed=self.changed.extend,
            signing_changed=self.signing_changed.append,
            key_used=self.key_use.note,
            reasons_not_ready=lambda: self.switches.not_ready,
            draining=lambda: self.switches.draining,
            overloaded=lambda: self.switches.overloaded,
            metrics_text=self._metrics_text,
            standings=lambda: self.switches.standings,
            rebalance=self._note_rebalance,
            standing=lambda task_id: self.switches.standing,
            latencies=lambda: self.switches.latencies,
            live_stats=lambda: {"in_flight": 3},
        )
        self.server = ApiServer(self.ports)

    def deciding(self, schedule_id: str) -> Moment:
        """Now, as a decision about a schedule sees it; nothing has passed unseen."""
        now = self.world.now
        by = Recorder(now, NODE, self.world.epochs[partition_of(schedule_id)], zones.version())
        return Moment(by, self.deciding_ids, 0, 60_000, 1_000)

    async def _metrics_text(self) -> bytes:
        return b"# HELP tasktick_up Up.\n"

    def _note_rebalance(self) -> None:
        self.rebalanced += 1

    @property
    def database(self) -> ServingDatabase:
        return self.ports.database

    @property
    def port(self) -> int:
        return self.server.addresses[0][1]

    async def add_key(self, role: Role = Role.OPERATOR, tenant: str = "default", **columns: Any) -> str:
        """A key of this role."""
        key = keys.make(secrets.token_bytes(keys.RANDOM_BYTES))
        prefix = keys.prefix_of(key)
        assert prefix is not None
        key_id = self.ports.ids.new(self.world.now, 0)
        row = KeyRow(key_id, prefix, keys.digest(key), tenant, role, None, self.world.now, **columns)
        await self.database.write(lambda tx: stored.add_key(tx, row))
        return key

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request, by the operator unless another key is given."""
        fields = {"Authorization": f"Bearer {self.key if key is None else key}"}
        data = raw
        if body is not None:
            data = json.dumps(body).encode()
        if data is not None:
            fields["Content-Type"] = "application/json"
        fields |= headers or {}
        fields = {name: value for name, value in fields.items() if value}
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.session.request(method, url, data=data, headers=fields, allow_redirects=False) as response:
            answer = Answer(response.status, response.headers, await response.read())
        check_described(method, path, answer.status, answer.headers, answer.raw)
        return answer

    async def create(self, **fields: Any) -> dict[str, Any]:
        """A task that was created, as it was answered."""
        answer = await self.ask("POST", "/v1/tasks", {"target": {"url": URL}, **fields})
        assert answer.status == 201, answer.raw
        return dict(answer.json)

    async def run(self, task: dict[str, Any], status: int | None = 200) -> State | None:
        """Run a task that is due, as a node would."""
        [claimed] = await self.world.claim(task["id"].removeprefix("tsk_"))
        return await self.world.finish(claimed, status)

    async def kill(self, task: dict[str, Any]) -> dict[str, Any]:
        """Let a task die; its dead letter."""
        assert await self.run(task, 400) is State.DEAD
        letters = (await self.ask("GET", "/v1/dlq")).json["data"]
        return dict(next(one for one in letters if one["task_id"] == task["id"]))

    async def wire(self, *parts: bytes) -> bytes:
        """Bytes on a connection of their own, and all that comes back until it closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for part in parts:
                writer.write(part)
                with suppress(ConnectionError):
                    await writer.drain()
            return await asyncio.wait_for(_all_of(reader), WAIT_S)
        finally:
            writer.close()


async def _all_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection ends, in whichever way."""
    came = b""
    try:
        while part := await reader.read(65_536):
            came += part
    except ConnectionResetError:
        pass
    return came


def door() -> socket.socket:
    """A socket that is bound to a free port."""
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    made.setblocking(False)
    return made


def config_of(dispatch: dict[str, Any] | None = None, **server: Any) -> Config:
    """Settings, with these of the server."""
    return Config(server=ServerConfig(**server), dispatch=DispatchConfig(**(dispatch or {})))


@asynccontextmanager
async def serving(folder: Path, **server: Any) -> AsyncIterator[Served]:
    """A served API in an empty folder."""
    async with chosen()(folder) as opened, aiohttp.ClientSession(auto_decompress=False) as session:
        database: Any = opened
        world = World(database)
        await world.start()
        served = Served(world, session, config_of(**server))
        served.key = await served.add_key()
        database.writer.committed = served.feed.committed
        services = Services(SystemClock())
        services.run_loop(served.feed)
        services.on_stop("api", lambda: served.server.stop(grace_ms=1_000))
        services.on_stop("event_streams", served.feed.close)
        await served.server.start(door())
        try:
            yield served
            await world.check_counts()
        finally:
            await services.stop()


def problem_of(raw: bytes) -> tuple[int, Any]:
    """The status and the document of an answer as bytes."""
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, raw
    return int(head.split(b" ", 2)[1]), json.loads(body)


def ids_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The ids of a page."""
    return [str(row["id"]) for row in rows]
