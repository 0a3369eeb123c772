"""Whole nodes on one store in virtual time: they join, leave, die, are stopped and go on, and are cut off.

The store is one connection in memory that every node reaches over a wire of its own; gossip is a network of function
calls. Nothing of a process that is frozen runs (`SimLoop.freeze`), so a stop may come between any two of its awaits.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from random import Random
from typing import Any, TypeVar

from tasktick.cluster.messages import Address
from tasktick.cluster.ring import placement
from tasktick.cluster.seal import Keyring
from tasktick.cluster.seat import Ring
from tasktick.cluster.transport import Door, Transport
from tasktick.dispatch.sender import SpawningSender
from tasktick.errors import StoreUnavailable
from tasktick.metrics import Metrics
from tasktick.model.ids import IdMaker
from tasktick.model.retry import RetryPolicy
from tasktick.model.schedule import CatchUp, FireTemplate, Rule, Schedule
from tasktick.model.state import TERMINAL, State
from tasktick.model.task import NewTask, Payload, Target, TaskDetail, TaskState
from tasktick.node import Node, World
from tasktick.scheduler.plan import begin
from tasktick.service import Services
from tasktick.settings import ClusterConfig, Config, DispatchConfig
from tasktick.store import leases, schedules, tasks
from tasktick.store.leases import View
from tasktick.store.protocol import Batch, Lane, Operation
from tasktick.store.schedules import LedgerEntry
from tasktick.store.tasks import CREATE, Create
from tasktick.timetable.fires import cursor_at
from tests.fakes.gossip_network import MemoryNetwork
from tests.sim.loop import PROCESS, SimLoop
from tests.sim.stage import Sent, StageSender, Told
from tests.sim.world import NoSecrets, SimClock, unsealed
from tests.store.drivers import InlineDatabase

T = TypeVar("T")
TTL_MS = 10_000
SWEEP_MS = 1_000
HOP_S = 0.002
KEYRING = Keyring([b"the key of a town"])
CONFIG = Config(
    cluster=ClusterConfig(lease_ttl_ms=TTL_MS, lease_margin_ms=2_000), dispatch=DispatchConfig(grace_max_ms=20_000)
)


class Wire:
    """A node's way to the store: it takes a moment each way, and may be cut."""

    shared = True
    home = ""

    def __init__(self, database: InlineDatabase, random: Random) -> None:
        self._database = database
        self._random = random
        self.cut = False

    @property
    def near(self) -> "Wire":
        return self

    @property
    def term(self) -> "Wire":
        return self

    async def tidy(self, now: int, before: int) -> bool:
        """As of the store behind it."""
        return await self._database.tidy(now, before)

    async def number_events(self) -> bool:
        """As of the store behind it."""
        return await self._database.number_events()

    async def _hop(self) -> None:
        await asyncio.sleep(self._random.random() * HOP_S)
        if self.cut:
            raise StoreUnavailable("The store does not answer.")

    async def read(self, operation: Operation[T]) -> T:
        await self._hop()
        found = await self._database.read(operation)
        await self._hop()
        return found

    async def write(self, operation: Operation[T], lane: Lane = Lane.CREATE) -> T:
        await self._hop()
        done = await self._database.write(operation, lane)
        await self._hop()
        return done

    async def write_batch(self, batch: Batch, items: list[Any]) -> list[Any]:
        return await self.write(lambda tx: batch.operation(tx, items))


class Sender(StageSender):
    """Notes who sent, in one list of the town."""

    def __init__(self, town: "Town", name: str) -> None:
        super().__init__(town.clock)
        self.script = lambda task_id, attempt: town.script(task_id, attempt)
        self.sent = town.sent_by[name]


class Resident:
    """One start of one node."""

    def __init__(self, town: "Town", name: str, number: int) -> None:
        self.name = name
        self.process = f"{name}#{number}"
        self.metrics = Metrics()
        self.services = Services(town.clock)
        self.wire = Wire(town.database, Random(number))
        self.address: Address | None = None
        world = World(
            clock=town.clock,
            random=Random(1_000 + number),
            ids=IdMaker(Random(2_000 + number)),
            database=self.wire,
            sender=SpawningSender(Sender(town, name), self.services.spawn),
            unseal=unsealed,
            signing=NoSecrets(),
            services=self.services,
            metrics=self.metrics,
            address=f"http://{name}",
            ring=Ring(self._opener(town), KEYRING, tuple(town.network.members)) if town.gossips else None,
        )
        self.node = Node(town.config, name, world)
        self.began: asyncio.Task[None] | None = None

    def _opener(self, town: "Town") -> Callable[[Door], Awaitable[Transport]]:
        async def open_(door: Door) -> Transport:
            transport = town.network.open(door)
            self.address = transport.address
            return transport

        return open_

    @property
    def owned(self) -> set[int]:
        return set(self.node.ownership.epochs)


class Town:
    """The nodes, and what a test does to them."""

    def __init__(self, loop: SimLoop, config: Config, *, gossips: bool) -> None:
        self.loop = loop
        self.config = config
        self.gossips = gossips
        self.clock = SimClock(loop)
        self.database = InlineDatabase(shared=True)
        self.network = MemoryNetwork()
        self.network.passes = self._passes
        self.cut_gossip = False
        self.sent_by: defaultdict[str, list[Sent]] = defaultdict(list)
        self.residents: dict[str, Resident] = {}
        self.gone: list[Resident] = []
        self.script: Callable[[str, int], Told] = lambda task_id, attempt: Told()
        self.random = Random(77)
        self.ids = IdMaker(Random(78))
        self.made: dict[str, TaskState] = {}
        self._number = 0

    def _passes(self, source: Address, to: Address) -> bool:
        there = {one.address for one in self.residents.values() if not self.loop.is_frozen(one.process)}
        return not self.cut_gossip and source in there and to in there

    # ------------------------------------------------------------------------------- nodes

    async def add(self, *names: str) -> list[Resident]:
        """These nodes start, and are up."""
        return [await self._add(name) for name in names]

    async def _add(self, name: str) -> Resident:
        self._number += 1
        resident = self.residents[name] = Resident(self, name, self._number)
        context = copy_context()
        context.run(PROCESS.set, resident.process)
        resident.began = self.loop.create_task(resident.node.start(), context=context)
        await resident.began
        return resident

    def freeze(self, name: str) -> None:
        """SIGSTOP."""
        self.loop.freeze(self.residents[name].process)

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self.loop.thaw(self.residents[name].process)

    def kill(self, name: str) -> None:
        """kill -9: nothing of it ever runs again."""
        self.freeze(name)
        self.gone.append(self.residents.pop(name))

    async def stop(self, name: str) -> None:
        """SIGTERM, and its end."""
        resident = self.residents[name]
        context = copy_context()
        context.run(PROCESS.set, resident.process)
        await self.loop.create_task(resident.services.stop(), context=context)
        self.gone.append(self.residents.pop(name))

    def check_lives(self) -> None:
        """A node that crashed of itself fails the test."""
        for one in [*self.residents.values(), *self.gone]:
            if one.services.crashed.done():
                one.services.crashed.result()

    async def settled(self, within_s: float = 40) -> None:
        """Wait until every partition is where placement puts it."""
        give_up = self.loop.time() + within_s
        while not await self._is_settled():
            assert self.loop.time() < give_up, {one.name: len(one.owned) for one in self.residents.values()}
            await asyncio.sleep(0.05)

    async def _is_settled(self) -> bool:
        placed = placement((await self.view()).nodes, self.clock.now_ms())
        owned = {one: resident.node.incarnation for resident in self.residents.values() for one in resident.owned}
        return owned == placed

    async def until(self, condition: Callable[[], bool], within_s: float = 10) -> None:
        """Wait for something that can be seen, in any moment."""
        give_up = self.loop.time() + within_s
        while not condition():
            assert self.loop.time() < give_up, "it did not happen"
            await asyncio.sleep(0.0003)

    async def view(self) -> View:
        """Nodes and leases as the store has them."""
        return await self.database.read(lambda tx: leases.view(tx, self.clock.now_ms()))

    # ------------------------------------------------------------------------------- work

    async def create(self, in_ms: int = 0, count: int = 1, by: str | None = None, **fields: Any) -> list[str]:
        """Create tasks through this node, as the API does; without one, its hint is lost."""
        new = [self._new_task(in_ms, **fields) for _ in range(count)]
        assert await self.database.write_batch(CREATE, [Create(one) for one in new]) == [None] * count
        self.made |= {one.state.id: one.state for one in new}
        if by is not None:
            self.residents[by].node.written([one.state for one in new])
        return [one.state.id for one in new]

    def _new_task(self, in_ms: int, partition: int | None = None, timeout_ms: int = 5_000, **fields: Any) -> NewTask:
        now = self.clock.now_ms()
        run_at = now + in_ms
        state = TaskState(
            id=self.ids.new(now, self.random.randrange(256) if partition is None else partition),
            tenant="default",
            state=State.SCHEDULED,
            queue="default",
            host=f"host-{self.random.randrange(8)}:80",
            priority=5,
            run_at=run_at,
            due_at=run_at,
            wake_at=run_at,
            max_attempts=5,
            timeout_ms=timeout_ms,
            updated_at=now,
            **fields,
        )
        policy = RetryPolicy(max_attempts=5, initial_ms=1_000, factor=2.0, jitter=0.0)
        target = Target(f"http://{state.host}/", timeout_ms=timeout_ms)
        return NewTask(state, TaskDetail(state.id, state.tenant, now), Payload(target, policy))

    async def schedule(self, every_ms: int, by: str) -> str:
        """A schedule that fires so often, made through this node."""
        now, rule = self.clock.now_ms(), Rule(every_ms=every_ms)
        cursor = cursor_at(rule, now)
        schedule = Schedule(
            id=self.ids.new(now, self.random.randrange(256)),
            rule=rule,
            tenant="default",
            version=1,
            created_at=now,
            updated_at=now,
            overlap="allow",
            catch_up=CatchUp(),
            template=FireTemplate("one:80", "default", 5, 5, 5_000, 30_000),
            payload_version=1,
            cursor_at=cursor.at,
            cursor_local_ms=cursor.local_ms,
        )
        node = self.residents[by].node
        plan = begin(schedule, node.deciding(schedule.id))
        payload = Payload(Target("http://one/", timeout_ms=5_000), RetryPolicy(max_attempts=5, jitter=0.0))
        await self.database.write(lambda tx: schedules.create(tx, plan, payload))
        node.planned([plan])
        return schedule.id

    async def ledger(self, schedule_id: str) -> list[LedgerEntry]:
        """What became of its times, the earliest first."""
        rows = await self.database.read(lambda tx: schedules.ledger(tx, schedule_id, limit=1_000))
        return rows[::-1]

    @property
    def sent(self) -> list[Sent]:
        """Every request that left, in the order of time."""
        return sorted((one for sent in self.sent_by.values() for one in sent), key=lambda one: one.monotonic_ms)

    async def ended(self, within_s: float = 120) -> None:
        """Wait until every task that was made has ended, well."""
        give_up = self.loop.time() + within_s
        while left := [row for row in await self._rows() if row.state not in TERMINAL]:
            assert self.loop.time() < give_up, f"{len(left)} have not ended, such as {left[0]}"
            self.check_lives()
            await asyncio.sleep(0.1)
        assert {row.state for row in await self._rows()} == {State.SUCCEEDED}

    async def _rows(self) -> list[TaskState]:
        return await self.database.read(lambda tx: tasks.states(tx, sorted(self.made)))

    def late_ms(self) -> dict[str, int]:
        """By task that was made: how late its first request left."""
        first: dict[str, int] = {}
        for one in self.sent:
            first.setdefault(one.task_id, one.at)
        return {task_id: first[task_id] - state.run_at for task_id, state in self.made.items() if task_id in first}

    def check_attempts(self) -> None:
        """Each attempt left once, under a fence that grows."""
        seen = Counter((one.task_id, one.attempt) for one in self.sent)
        assert not [key for key, count in seen.items() if count > 1], "an attempt was sent twice"
        fences: defaultdict[str, list[int]] = defaultdict(list)
        for one in self.sent:
            fences[one.task_id].append(one.fence)
        assert all(found == sorted(set(found)) for found in fences.values()), "a fence came back"

    def doubles(self) -> list[str]:
        """Tasks for which more than one request left."""
        return [task_id for task_id, count in Counter(one.task_id for one in self.sent).items() if count > 1]


def play(
    scenario: Callable[[Town], Awaitable[None]], config: Config = CONFIG, seed: int = 1, *, gossips: bool = True
) -> None:
    """Play a scenario; a node that crashes of itself fails it."""
    loop = SimLoop(Random(seed))
    asyncio.set_event_loop(loop)

    async def run() -> None:
        town = Town(loop, config, gossips=gossips)
        await scenario(town)
        town.check_lives()
        town.check_attempts()

    try:
        loop.run_until_complete(run())
    finally:
        pending = loop.living()
        for task in pending:
            task.cancel()
        loop.thaw_all()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()
