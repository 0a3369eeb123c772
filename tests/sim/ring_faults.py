"""What goes wrong in a ring: each seed has about half of it, drawn; each fault has its end."""

import asyncio
from collections.abc import Callable
from random import Random

from tasktick.store import leases
from tests.sim.ring_node import RingNode
from tests.sim.ring_town import TTL_MS, RingTown

NAMES = ("a", "b", "c", "d", "e")
NODES_LEAST = 3
# Of conditions that last as long as the faults do.
CONDITIONS = (
    "skew",
    "drift",
    "loss",
    "delay",
    "doubling",
    "answers_lost",
    "commits_undone",
    "commits_late",
    "aborts",
    "slow_wires",
)
STRIKES = (
    "kill",
    "kill_at_a_step",
    "freeze",
    "freeze_at_a_step",
    "stop",
    "join",
    "drain",
    "rolling",
    "rebalance",
    "step_wall",
    "step_database",
    "cut_gossip",
    "cut_one_way",
    "clog",
    "cut_wire",
    "cut_heir",
    "store_away",
    "fail_over",
)
FEATURES = (*CONDITIONS, *STRIKES, "no_gossip")
RARER = {"no_gossip": 0.1, "fail_over": 0.3, "step_database": 0.3}
STEPS_MAX = 3_000


def features_of(seed: int) -> set[str]:
    """What this seed has: all at once would hide each other."""
    random = Random(f"features.{seed}")
    return {name for name in FEATURES if random.random() < RARER.get(name, 0.5)}


class Faults:
    """Strikes a town until it is told to end."""

    def __init__(self, town: RingTown, seed: int) -> None:
        self._town = town
        self._random = Random(f"faults.{seed}")
        self.features = features_of(seed)
        self._ended = False
        self.set_back_ms = 0
        self._strikes: dict[str, Callable[[], None]] = {
            name: getattr(self, f"_{name}") for name in STRIKES if name in self.features
        }

    def prepare(self) -> None:
        """What holds from the start: whose clocks differ."""
        self._town.skew = "skew" in self.features
        self._town.drift = "drift" in self.features

    def begin(self) -> None:
        """What holds from now on."""
        town, random = self._town, self._random
        weather, fates = town.weather, town.server.fates
        if "loss" in self.features:
            weather.loss = random.choice((0.05, 0.2, 0.5))
        if "delay" in self.features:
            weather.delay_s = random.choice((0.02, 0.2, 0.8))
        if "doubling" in self.features:
            weather.doubling = 0.3
        for feature, fate in (
            ("aborts", "aborted"),
            ("answers_lost", "answer_lost"),
            ("commits_undone", "undone"),
            ("commits_late", "late"),
        ):
            if feature in self.features:
                fates[fate] = random.choice((0.005, 0.03))
        if "late" in fates and "undone" in fates:
            fates["late_undone"] = fates["late"]

    async def play(self, for_s: float) -> None:
        """Strike now and then, for so long; then it is calm."""
        town, random = self._town, self._random
        until = town.loop.time() + for_s
        while (left_s := until - town.loop.time()) > 0:
            await asyncio.sleep(min(left_s, 0.1 + random.random() * 0.9))
            town.look_after()
            if self._strikes:
                self._strikes[random.choice(sorted(self._strikes))]()
            if "slow_wires" in self.features:
                self._slow_wires()
            self._keep_enough()
        self._ended = True

    def _keep_enough(self) -> None:
        """What has died is started again, some time."""
        missing = [name for name in NAMES[:NODES_LEAST] if name not in self._town.nodes]
        if missing and (len(missing) == NODES_LEAST or self._random.random() < 0.4):
            self._town.begin(self._random.choice(missing))

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        town = self._town
        self._ended = True
        town.server.away = False
        town.server.fates.clear()
        town.weather.calm()
        for node in town.nodes.values():
            node.wire.cut = node.wire.hangs = False
            node.wire.slow_s = 0.0
            town.loop.thaw(node.process)
        self.restart()

    def restart(self) -> None:
        """There are enough nodes that stay."""
        for name in NAMES[:NODES_LEAST]:
            if name not in self._town.nodes:
                self._town.begin(name)

    def _any(self) -> RingNode | None:
        found = [one for one in self._town.nodes.values() if not one.is_frozen and not one.is_leaving]
        return self._random.choice(found) if found else None

    def _up(self) -> RingNode | None:
        found = self._town.up()
        return self._random.choice(found) if found else None

    # ------------------------------------------------------------------------------- to processes

    def _kill(self) -> None:
        if node := self._any():
            self._town.kill(node.name)

    def _kill_at_a_step(self) -> None:
        if node := self._any():
            self._at_a_step(lambda: self._town.kill(node.name) if self._is(node) else None)

    def _freeze(self) -> None:
        if node := self._any():
            self._town.freeze(node, self._random.choice((0.1, 0.5, 0.6, 1.0, 2.0)) * TTL_MS / 1_000)

    def _freeze_at_a_step(self) -> None:
        """Most of all between a claim and its sending."""
        if node := self._up():
            for_s = self._random.choice((0.3, 1.2, 2.0)) * TTL_MS / 1_000
            self._town.beside(self._freeze_while_claiming(node, for_s))

    async def _freeze_while_claiming(self, node: RingNode, for_s: float) -> None:
        give_up = self._town.loop.time() + 1.0
        while self._is(node) and not node.is_frozen and self._town.loop.time() < give_up:
            if node.node.hands.unsettled_claims:
                await asyncio.sleep(self._random.random() * 0.006)
                if self._is(node) and not node.is_frozen:
                    self._town.freeze(node, for_s)
                return
            await asyncio.sleep(0.002)

    def _is(self, node: RingNode) -> bool:
        return not self._ended and self._town.nodes.get(node.name) is node

    def _at_a_step(self, do: Callable[[], None]) -> None:
        self._town.loop.at_step(self._random.randint(1, STEPS_MAX), lambda: None if self._ended else do())

    def _stop(self) -> None:
        if node := self._up():
            self._town.beside(self._town.stop(node.name))

    def _join(self) -> None:
        absent = [name for name in NAMES if name not in self._town.nodes]
        if absent:
            name = self._random.choice(absent)
            self._town.note(f"joined: {name}")
            self._town.begin(name)

    def _rolling(self) -> None:
        if len(self._town.up()) >= NODES_LEAST and self._random.random() < 0.3:
            self._town.note("rolling restart:")
            self._town.beside(self._roll([one.name for one in self._town.up()]))

    async def _roll(self, names: list[str]) -> None:
        for name in names:
            node = self._town.nodes.get(name)
            if self._ended or node is None or node not in self._town.up():
                continue
            await self._town.stop(name)
            if name not in self._town.nodes:
                self._town.begin(name)
            await asyncio.sleep(0.3)

    # ------------------------------------------------------------------------------- to placement

    def _drain(self) -> None:
        asked, name = self._up(), self._random.choice(NAMES)
        if asked is not None:
            self._town.note(f"drained: {name}")
            self._town.mind(asked.run(self._drain_for_a_while(asked, name, self._random.random() * 3)))

    async def _drain_for_a_while(self, asked: RingNode, name: str, for_s: float) -> None:
        now = self._town.server.now_ms()
        await asked.database.write(lambda tx: leases.drain(tx, name, now))
        if self._random.random() < 0.7:
            asked.node.rebalance()
        await asyncio.sleep(for_s)
        await asked.database.write(lambda tx: leases.undrain(tx, name))
        if self._random.random() < 0.7:
            asked.node.rebalance()

    def _rebalance(self) -> None:
        if node := self._up():
            node.run(_at_once(node.node.rebalance))

    # ------------------------------------------------------------------------------- to clocks

    def _step_wall(self) -> None:
        if node := self._any():
            node.clock.offset_ms += self._random.choice((-1, 1)) * self._random.choice((30, 900, 5_000, 100_000))
            self._town.note(f"wall clock set: {node.name}")

    def _step_database(self) -> None:
        """Not where the history goes back too: fences rest on the clock there."""
        if "fail_over" not in self.features and self._random.random() < 0.3:
            by_ms = self._random.choice((-1, 1)) * self._random.choice((300, 1_500, 4_000))
            self.set_back_ms += max(0, -by_ms)
            self._town.server.set_clock(by_ms)
            self._town.disturb(None, "database clock set", 2 * TTL_MS / 1_000)

    # ------------------------------------------------------------------------------- to networks

    def _for(self, for_s: float, end: Callable[[], None]) -> None:
        self._town.loop.call_later(for_s, end)

    def _cut_gossip(self) -> None:
        weather = self._town.weather
        weather.cut_all = True
        self._town.note("gossip cut:")
        self._for(self._random.random() * 3, lambda: setattr(weather, "cut_all", False))

    def _cut_one_way(self) -> None:
        source, to = self._any(), self._any()
        if source is not None and to is not None and source is not to:
            cut, way = self._town.weather.cut, (source.process, to.process)
            cut.add(way)
            self._town.note(f"gossip cut one way: {way}")
            self._for(self._random.random() * 4, lambda: cut.discard(way))

    def _clog(self) -> None:
        if node := self._any():
            self._town.weather.clog(node.process)
            self._town.note(f"gossip clogged: {node.process}")
            self._for(self._random.random() * 2, lambda: self._town.weather.unclog(node.process))

    def _cut_wire(self) -> None:
        if node := self._any():
            self._cut(node, self._random.choice((0.2, 1.0, 2.5, 5.0)) * self._random.random())

    def _cut(self, node: RingNode, for_s: float) -> None:
        node.wire.cut, node.wire.hangs = True, self._random.random() < 0.5
        self._town.disturb(node.process, "cut from the store", for_s + 1.5)
        self._for(for_s, lambda: self._mend(node))

    def _mend(self, node: RingNode) -> None:
        node.wire.cut = node.wire.hangs = False

    def _cut_heir(self) -> None:
        """One that has asked for partitions, or is to take them, cannot."""
        asked = self._town.server.look("SELECT DISTINCT wanted_by FROM leases WHERE wanted_by IS NOT NULL ORDER BY 1")
        wanting = {row[0] for row in asked}
        for node in self._town.nodes.values():
            if node.incarnation in wanting and not node.is_frozen:
                self._town.note(f"heir cut from the database: {node.name}")
                self._cut(node, self._random.random() * 4)
                return
        self._join()
        self._town.beside(self._cut_heir_soon())

    async def _cut_heir_soon(self) -> None:
        for _ in range(100):
            await asyncio.sleep(0.02)
            asked = self._town.server.look("SELECT DISTINCT wanted_by FROM leases WHERE wanted_by IS NOT NULL")
            if self._ended or asked:
                break
        if asked and not self._ended:
            self._cut_heir()

    def _store_away(self) -> None:
        if self._random.random() < 0.3:
            self._away(self._random.choice((0.1, 1.0, 3.0)) * self._random.random())

    def _away(self, for_s: float) -> None:
        server = self._town.server
        server.away = True
        self._town.disturb(None, "store away", for_s + 1.5)
        self._for(for_s, lambda: setattr(server, "away", False))

    def _fail_over(self) -> None:
        """An asynchronous standby takes over; it has not got what came last."""
        if self._random.random() < 0.4:
            self._town.beside(self._fail_over_soon(self._random.random() * 1.5))

    async def _fail_over_soon(self, behind_s: float) -> None:
        town = self._town
        town.server.fall_behind()
        disturbance = town.disturb(None, "standby behind", 0)
        await asyncio.sleep(behind_s)
        disturbance.to_ms = town.server.true_ms + 2_000
        if town.server.is_behind:
            town.server.fail_over()
            town.watch.regressed()
            town.note("failed over:")
            town.forgets()
            self._away(0.3)

    def _slow_wires(self) -> None:
        if (node := self._any()) and self._random.random() < 0.3:
            slow_s = self._random.choice((0.02, 0.15, 0.6))
            node.wire.slow_s = slow_s
            self._town.disturb(node.process, "slow wire", 1.0 + 2 * slow_s)
            self._for(1.0, lambda: setattr(node.wire, "slow_s", 0.0))


async def _at_once(do: Callable[[], None]) -> None:
    do()
