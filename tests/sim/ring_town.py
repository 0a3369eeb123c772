"""A simulated ring: its server, its network, its nodes as they come and go, and what was done to each of them."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tasktick.errors import StoreError
from tasktick.settings import ClusterConfig, Config, DispatchConfig, SchedulerConfig
from tests.sim.loop import SimLoop
from tests.sim.ring_node import NodeClock, RingNode
from tests.sim.server import Server, Wire
from tests.sim.watch import Watch
from tests.sim.weather import Weather
from tests.sim.world import Receivers

TTL_MS = 2_000
MARGIN_MS = 400
START_DELAY_MS = 500
STOPS_WITHIN_S = 5.0
# After a fault has ended, what it has held up is under way for a moment.
SETTLES_MS = 300
CONFIG = Config(
    scheduler=SchedulerConfig(horizon_ms=8_000, full_every_ms=4_000, sweep_every_ms=500, near_every_ms=500),
    dispatch=DispatchConfig(
        start_delay_ms=START_DELAY_MS,
        lease_margin_ms=500,
        grace_max_ms=1_500,
        in_flight_max=60,
        in_flight_per_host_max=30,
    ),
    cluster=ClusterConfig(lease_ttl_ms=TTL_MS, lease_margin_ms=MARGIN_MS),
)


class Disturbance(msgspec.Struct):
    """What was done to one process, or to all, from when to when."""

    process: str | None
    what: str
    from_ms: float
    to_ms: float | None = None


class RingTown:
    """The nodes and what they stand on."""

    def __init__(self, seed: int, folder: Path, loop: SimLoop, *, gossips: bool) -> None:
        self.seed = seed
        self.loop = loop
        self.gossips = gossips
        self.random = Random(f"town.{seed}")
        self.server = Server(folder, loop, Random(f"server.{seed}"))
        self.watch = Watch(self.server, ttl_ms=TTL_MS, start_delay_ms=START_DELAY_MS, margin_ms=MARGIN_MS)
        self.weather = Weather(loop, Random(f"weather.{seed}"))
        self.receivers = Receivers(loop, seed)
        self.wires: dict[str, tuple[Server, Wire]] = {}
        self.nodes: dict[str, RingNode] = {}
        self.gone: list[RingNode] = []
        self.disturbances: list[Disturbance] = []
        self.skew = self.drift = False
        # Told when the history of the store has gone back.
        self.forgets: Callable[[], None] = lambda: None
        self._number = 0
        self._works: dict[asyncio.Task[Any], None] = {}

    def note(self, what: str) -> None:
        """It is part of the trace."""
        self.watch.trace.append(f"{self.loop.time():.6f} {what}")
        self.watch.sometimes[what.split(":")[0]] += 1

    # ------------------------------------------------------------------------------- nodes

    def _clock(self) -> NodeClock:
        random = self.random
        offset_ms = random.choice((-1, 1)) * random.choice((3, 400, 4_000, 90_000)) if self.skew else 0
        rate = 1 + random.uniform(-2e-4, 2e-4) if self.drift else 1.0
        return NodeClock(self.loop, offset_ms, rate)

    def begin(self, name: str) -> RingNode:
        """A node starts; it will be up."""
        self._number += 1
        node = RingNode(
            name, self._number, self.seed, self._clock(), self.loop, CONFIG, self.watch, self.receivers,
            self.weather, gossips=self.gossips,
        )  # fmt: skip
        self.wires[node.url] = self.server, node.wire
        self.nodes[name] = node
        self.beside(self._start(node))
        return node

    async def _start(self, node: RingNode) -> None:
        began = node.run(node.start())
        ends: set[asyncio.Future[Any]] = {began, node.services.crashed}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if began.done() and isinstance(began.exception(), StoreError):
            self.note(f"start failed: {node.name}")  # whoever looks after it starts it anew
            self.kill(node.name)
        elif began.done():
            began.result()

    def beside(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do this beside everything else; what fails is a violation."""
        return self.mind(self.loop.create_task(work))

    def mind(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        """Its failure is a violation, unless it is the store's."""
        self._works[task] = None
        task.add_done_callback(self._worked)
        return task

    def _worked(self, task: asyncio.Task[Any]) -> None:
        self._works.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StoreError):
            self.watch.sometimes["refused by the store"] += 1
        elif error is not None:
            self.watch.wrong(f"failed: {error!r}")

    def up(self) -> list[RingNode]:
        """Nodes that one may ask."""
        return [one for one in self.nodes.values() if one.is_up and not one.is_leaving and not one.is_frozen]

    def look_after(self) -> None:
        """A node that has crashed of itself is a violation."""
        for node in list(self.nodes.values()):
            if node.services.crashed.done():
                error = node.services.crashed.exception()
                self.watch.wrong(f"{node.process} crashed: {error!r}, by {error.__cause__!r}" if error else "crashed")
                self.kill(node.name)

    def kill(self, name: str) -> None:
        """kill -9: nothing of it ever runs again."""
        node = self.nodes.pop(name, None)
        if node is None:
            return
        self.loop.freeze(node.process)
        if node.address is not None:
            self.weather.members.pop(node.address, None)
        self.watch.died(node.process)
        self.disturb(node.process, "killed")
        self.watch.sometimes.update(node.metrics.events + node.metrics.attempts)
        self.gone.append(node)

    def freeze(self, node: RingNode, for_s: float) -> None:
        """SIGSTOP, and SIGCONT."""
        self.loop.freeze(node.process)
        self.disturb(node.process, "frozen", for_s)
        self.loop.call_later(for_s, self._thaw, node)

    def _thaw(self, node: RingNode) -> None:
        if self.nodes.get(node.name) is node:
            self.loop.thaw(node.process)

    async def stop(self, name: str) -> None:
        """SIGTERM, and its end; SIGKILL if that takes too long."""
        node = self.nodes[name]
        node.is_leaving = True
        disturbance = self.disturb(node.process, "stopped")
        stopping = node.run(node.services.stop())
        ends: set[asyncio.Future[Any]] = {stopping, node.services.crashed}
        await asyncio.wait(ends, timeout=STOPS_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        if self.nodes.get(name) is not node:
            return
        if stopping.done():
            stopping.result()
            self.watch.sometimes["stopped in order"] += 1
        else:
            self.note(f"stop overran: {name}")
        self.kill(name)
        disturbance.to_ms = None

    def disturb(self, process: str | None, what: str, for_s: float | None = None) -> Disturbance:
        """Note what is done; without a duration it has no end."""
        now_ms = self.server.true_ms
        to_ms = None if for_s is None else now_ms + for_s * 1_000 + SETTLES_MS
        self.disturbances.append(Disturbance(process, what, now_ms, to_ms))
        self.note(f"{what}: {process} {for_s}")
        return self.disturbances[-1]

    def explains(self, process: str, from_ms: float, to_ms: float) -> bool:
        """Whether something was done to this process, or to all, in this time."""
        return any(
            one.process in {None, process} and one.from_ms <= to_ms and (one.to_ms is None or one.to_ms >= from_ms)
            for one in self.disturbances
        )
