"""One start of one node in a simulated ring: a clock of its own, its way to the server, its place in the gossip."""

import asyncio
from collections.abc import Coroutine
from contextvars import copy_context
from random import Random
from typing import Any, TypeVar

from tasktick.cluster.messages import Address
from tasktick.cluster.pace import Pace
from tasktick.cluster.seal import Keyring
from tasktick.cluster.seat import Ring
from tasktick.cluster.transport import Door, Transport
from tasktick.dispatch.outcome import Outcome, Request
from tasktick.metrics import Metrics
from tasktick.model.ids import IdMaker
from tasktick.node import Node, World
from tasktick.service import Services
from tasktick.settings import Config
from tasktick.store.postgres_links import Gate, PostgresAddress, PostgresLink, PostgresReader
from tasktick.store.postgres_writer import PostgresWriter
from tasktick.store.protocol import Batch, Lane, Operation, Transaction
from tests.sim.loop import PROCESS, SimLoop
from tests.sim.server import Server, Wire
from tests.sim.watch import Watch
from tests.sim.weather import Weather
from tests.sim.world import EPOCH_MS, NoSecrets, Receivers, outcome_of, unsealed

T = TypeVar("T")
KEYRING = Keyring([b"the key of a ring"])
# All of the ring's times are short, that a seed need not be long.
PACE = Pace(
    probe_every_ms=400,
    probe_timeout_ms=150,
    suspicion_factor=3,
    suspicion_max_factor=3,
    exchange_every_ms=5_000,
    reconnect_every_ms=1_500,
    join_every_ms=400,
    leave_ms=300,
    stall_ms=1_000,
)
WRITERS = {Lane.FIRE: 3, Lane.CREATE: 2, Lane.UPKEEP: 1}


class NodeClock:
    """A machine's clocks: the wall is set as it is, and both go a little faster or slower than others'."""

    def __init__(self, loop: asyncio.AbstractEventLoop, offset_ms: int = 0, rate: float = 1.0) -> None:
        self._loop = loop
        self.offset_ms = offset_ms
        self._rate = rate

    def now_ms(self) -> int:
        return EPOCH_MS + self.offset_ms + int(self.monotonic_ms())

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1_000 * self._rate

    async def sleep_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(max(0.0, duration_ms) / 1_000 / self._rate)


class RingDatabase:
    """The store as a node has it: the product's links, readers and writer, on a simulated server."""

    shared = True
    home = ""

    def __init__(self, url: str, clock: NodeClock, random: Random, name: str) -> None:
        gate = Gate(PostgresAddress(url, name), clock, random)
        self._writer = PostgresWriter(gate, clock, name, WRITERS)
        self.near = PostgresReader([PostgresLink(gate) for _ in range(2)], "")
        self._api = PostgresReader([PostgresLink(gate) for _ in range(2)], "")
        self.watch: Watch | None = None
        self.incarnation = ""

    def start(self, services: Services) -> None:
        """Begin to write."""
        self._writer.start(services.spawn)
        services.on_stop("store", self._writer.close)

    async def read(self, operation: Operation[T]) -> T:
        return await self._api.read(operation)

    async def write(self, operation: Operation[T], lane: Lane = Lane.CREATE) -> T:
        watch = self.watch
        if watch is None or lane is not Lane.FIRE:
            return await self._writer.write(operation, lane)
        issue = watch.issuing(self.incarnation, is_claim="_claim" in operation.__qualname__)

        async def noted(tx: Transaction) -> T:
            watch.server.issue = issue
            return await operation(tx)

        return await self._writer.write(noted, lane)

    async def write_batch(self, batch: Batch, items: list[Any]) -> list[Any]:
        return await self._writer.write_batch(batch, items)


class RingSender:
    """Sends to the receivers of the ring, and tells who watches when each request leaves and is over."""

    def __init__(self, clock: NodeClock, receivers: Receivers, watch: Watch) -> None:
        self._clock = clock
        self._receivers = receivers
        self._watch = watch
        self.incarnation = ""
        self._deadlines: dict[asyncio.Task[object], float] = {}
        self._expired: set[asyncio.Task[object]] = set()

    @property
    def in_flight(self) -> int:
        return len(self._deadlines)

    def sweep(self, monotonic_ms: float) -> int:
        for task, deadline_ms in list(self._deadlines.items()):
            if deadline_ms <= monotonic_ms and task not in self._expired:
                self._expired.add(task)
                task.cancel()
        return len(self._expired)

    async def send(self, request: Request) -> Outcome:
        started_ms = self._clock.monotonic_ms()
        if started_ms > request.start_by_ms:
            return outcome_of(None, "too_late", started_ms, 0.0, byte_left=False)
        headers = dict(request.headers)
        task_id, attempt = headers["webhook-id"], int(headers["TaskTick-Attempt"])
        seconds, status, failure = self._receivers.plan(task_id, attempt)
        left = failure != "connect_failed" or status is not None
        claim = None
        if left:
            fence = int(headers["TaskTick-Fence"])
            claim = self._watch.left(self.incarnation, task_id.removeprefix("tsk_"), attempt, fence)
        task = asyncio.current_task()
        assert task is not None
        self._deadlines[task] = request.deadline_ms
        answered = False
        try:
            await asyncio.sleep(seconds)
            answered = status is not None
        except asyncio.CancelledError:
            if task not in self._expired or task.uncancel() > 0:
                raise
            status, failure = None, "timeout"
        finally:
            self._deadlines.pop(task, None)
            self._expired.discard(task)
            self._watch.over(claim, answered=answered)
        duration_ms = self._clock.monotonic_ms() - started_ms
        failure = failure if status is None else None
        return outcome_of(status, failure, started_ms, duration_ms, byte_left=left)


class RingNode:
    """One start of one node."""

    def __init__(
        self, name: str, number: int, seed: int, clock: NodeClock, loop: SimLoop, config: Config, server: Server,
        watch: Watch, receivers: Receivers, weather: Weather, *, gossips: bool,
    ) -> None:  # fmt: skip
        self.name = name
        self.process = f"{name}#{number}"
        self.url = f"sim://{self.process}"
        self.clock = clock
        self.loop = loop
        self.metrics = Metrics()
        self.services = Services(clock)
        self.wire = Wire(Random(f"wire.{seed}.{number}"))
        self.address: Address | None = None
        self.is_up = False
        self.is_leaving = False
        self._weather = weather
        self.database = RingDatabase(self.url, clock, Random(f"gate.{seed}.{number}"), self.process)
        sender = RingSender(clock, receivers, watch)
        ring = Ring(self._open, KEYRING, tuple(weather.members), PACE) if gossips else None
        world = World(
            clock=clock,
            random=Random(f"node.{seed}.{number}"),
            ids=IdMaker(Random(f"ids.{seed}.{number}")),
            database=self.database,
            sender=sender,
            unseal=unsealed,
            signing=NoSecrets(),
            services=self.services,
            metrics=self.metrics,
            address=f"http://{name}",
            ring=ring,
        )
        self.node = Node(config, name, world)
        self.incarnation = self.node.incarnation
        sender.incarnation = self.database.incarnation = self.incarnation
        self.database.watch = watch
        self.server = server

    async def _open(self, door: Door) -> Transport:
        transport = self._weather.admit(door, self.process)
        self.address = transport.address
        return transport

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do something in this process."""
        context = copy_context()
        context.run(PROCESS.set, self.process)
        return self.loop.create_task(work, context=context)

    async def start(self) -> None:
        """Begin, in its own process."""
        self.database.start(self.services)
        await self.node.start()
        self.is_up = True

    @property
    def owned(self) -> set[int]:
        return set(self.node.ownership.epochs)

    @property
    def is_frozen(self) -> bool:
        return self.loop.is_frozen(self.process)
