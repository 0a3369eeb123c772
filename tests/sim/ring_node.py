"""One start of one node in a simulated ring: a clock of its own, its way to the server, its place in the gossip."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from random import Random
from typing import Any, TypeVar

import msgspec

from tasktick.clock import StoreClock
from tasktick.cluster.messages import Address
from tasktick.cluster.pace import Pace
from tasktick.cluster.seal import Keyring
from tasktick.cluster.seat import Ring
from tasktick.cluster.transport import Door, Transport
from tasktick.dispatch.outcome import Outcome, Request
from tasktick.dispatch.sender import SpawningSender
from tasktick.metrics import Metrics
from tasktick.model.ids import IdMaker
from tasktick.node import Node, World
from tasktick.service import Services
from tasktick.settings import Config
from tasktick.store import leases
from tasktick.store.claims import CLAIM
from tasktick.store.postgres_database import PostgresDatabase
from tasktick.store.postgres_links import Gate, PostgresAddress, PostgresLink
from tasktick.store.protocol import Batch, Lane, Operation, Transaction
from tests.sim.deadlines import Deadlines
from tests.sim.loop import PROCESS, SimLoop
from tests.sim.server import Wire
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


class RingDatabase(PostgresDatabase):
    """The store as the product has it, on a simulated server; who watches is told when something is decided."""

    def __init__(self, url: str, clock: StoreClock, random: Random, home: str, ttl_ms: int, watch: Watch) -> None:
        gate = Gate(PostgresAddress(url, "sim"), clock, random)
        super().__init__(gate, clock, home, ttl_ms)
        self._link = PostgresLink(gate)
        self._watch = watch
        self.incarnation: Callable[[], str] = lambda: ""

    async def tell_time(self, clock: StoreClock) -> None:
        """As when it is opened."""
        raw: Any = await self._link.raw()
        asked_ms = clock.monotonic_ms()
        told = await raw.read(lambda tx: leases.time(tx, clock.now_ms()))
        clock.learn(told, asked_ms, clock.monotonic_ms())
        await self._link.close()

    async def tidy(self, now: int, before: int) -> bool:
        """Nothing: the server keeps what has finished where it is, as a file does."""
        del now, before
        return False

    async def number_events(self) -> bool:
        """Nothing: events are numbered as they are written."""
        return False

    async def write(self, operation: Operation[T], lane: Lane = Lane.CREATE) -> T:
        if lane is not Lane.FIRE:
            return await super().write(operation, lane)
        issue = self._watch.issuing(self.incarnation(), is_claim=False)

        async def noted(tx: Transaction) -> T:
            self._watch.server.issue = issue
            return await operation(tx)

        return await super().write(noted, lane)

    async def write_batch(self, batch: Batch, items: list[Any]) -> list[Any]:
        if batch is not CLAIM:
            return await super().write_batch(batch, items)
        issue = self._watch.issuing(self.incarnation(), is_claim=True)

        async def noted(tx: Transaction, asked: list[Any]) -> list[Any]:
            self._watch.server.issue = issue
            return await batch.operation(tx, asked)

        return await super().write_batch(msgspec.structs.replace(batch, operation=noted), items)


class RingSender(Deadlines):
    """Sends to the receivers of the ring, and tells who watches when each request leaves and is over."""

    def __init__(self, clock: NodeClock, receivers: Receivers, watch: Watch) -> None:
        super().__init__()
        self._clock = clock
        self._receivers = receivers
        self._watch = watch
        self.process = ""

    async def send(self, request: Request) -> Outcome:
        started_ms = self._clock.monotonic_ms()
        if started_ms > request.start_by_ms:
            return outcome_of(None, "too_late", started_ms, 0.0, byte_left=False)
        headers = dict(request.all_headers)
        task_id, attempt = headers["webhook-id"], int(headers["TaskTick-Attempt"])
        seconds, status, failure = self._receivers.plan(task_id, attempt)
        left = failure != "connect_failed" or status is not None
        claim = None
        if left:
            fence = int(headers["TaskTick-Fence"])
            claim = self._watch.left(self.process, task_id.removeprefix("tsk_"), attempt, fence)
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
        self, name: str, number: int, seed: int, clock: NodeClock, loop: SimLoop, config: Config,
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
        self.store_clock = StoreClock(clock)
        self.database = RingDatabase(
            self.url, self.store_clock, Random(f"gate.{seed}.{number}"), f"home of {name}",
            config.cluster.lease_ttl_ms, watch,
        )  # fmt: skip
        sender = RingSender(clock, receivers, watch)
        sender.process = self.process
        ring = Ring(self._open, KEYRING, tuple(weather.members), PACE) if gossips else None
        world = World(
            clock=self.store_clock,
            random=Random(f"node.{seed}.{number}"),
            ids=IdMaker(Random(f"ids.{seed}.{number}")),
            database=self.database,
            sender=SpawningSender(sender, self.services.spawn),
            unseal=unsealed,
            signing=NoSecrets(),
            services=self.services,
            metrics=self.metrics,
            address=f"http://{name}",
            ring=ring,
        )
        self.node = Node(config, name, world)
        self.database.incarnation = lambda: self._seen(watch)
        self.database.when_lost(self.node.doubt)

    def _seen(self, watch: Watch) -> str:
        watch.process_of[self.node.incarnation] = self.process
        return self.node.incarnation

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
        self.database.start(self.services.spawn)
        self.services.on_stop("store", self.database.close)
        await self.database.tell_time(self.store_clock)
        await self.node.start()
        self.is_up = True

    @property
    def incarnation(self) -> str:
        return self.node.incarnation

    @property
    def owned(self) -> set[int]:
        return set(self.node.ownership.epochs)

    @property
    def is_frozen(self) -> bool:
        return self.loop.is_frozen(self.process)
