"""Suite `partition`: a ring whose nodes, database and receivers each have a network of their own, which is cut.

Between a node and the database, both ways or one, without a word or refused; between nodes alone; between a node and
the receivers; flapping, lossy, or all at once. In the beginning the third node leaves and joins again. Then the same
with a network that carries no UDP at all, from before the first node starts.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from itertools import permutations
from pathlib import Path

import msgspec

from tests.chaos import network, ring_dump, servers
from tests.chaos.history import Fault, now_ms
from tests.chaos.network import ALL_ADDRESSES, Cut, Host, Network
from tests.chaos.process import Site
from tests.chaos.ring_run import Ground, Plan, RingRun, Stage
from tests.chaos.ring_store import SERVER_SETTINGS
from tests.chaos.verdict import Verdict, Violation

NAMES = ("n1", "n2", "n3")
SETTLED_WITHIN_S = 20.0
SETTLED_POLL_S = 0.05
STEADY_S = 1.0
BETWEEN_S = (0.1, 0.6)
TTLS = (0.5, 3.0)
FLAP_S = (0.03, 0.4)
LOSS = (0.05, 0.3)
TWO_AT_ONCE = 0.15
# Of all cuts, how many are made once more without UDP.
SILENT_SHARE = 5
DATABASE = ("database", "database_refused", "database_out", "database_in")
GOSSIP = ("gossip", "gossip_out", "gossip_all", "gossip_flaps", "udp")
RECEIVERS = ("receivers", "receivers_out", "receivers_in")
MIXED = ("alone", "database_flaps", "loss")
KINDS = (*DATABASE, *GOSSIP, *RECEIVERS, *MIXED)
WITHOUT_UDP = ("database", "receivers", "database_flaps")
STANDING = "SELECT sum(epoch), count(wanted_by), count(incarnation) FROM leases"
RING_KEY = "chaos: the key of a ring that is taken apart"


class Places(msgspec.Struct, frozen=True):
    """Who is where."""

    network: Network
    database: Host
    receivers: Host
    nodes: dict[str, Host]


class Cutter:
    """Makes the cuts by their names."""

    def __init__(self, stage: Stage, places: Places, labels: tuple[str, ...]) -> None:
        self._stage = stage
        self._places = places
        self._labels = labels
        self._deck: list[str] = []
        self.unsettled: list[Violation] = []

    def _draw(self) -> str:
        """Every label as often as the others."""
        if not self._deck:
            self._deck = self._stage.random.sample(self._labels, len(self._labels))
        return self._deck.pop()

    async def cut(self, left: int) -> int:
        """One cut, or two at once; how many. Then wait until all is well again."""
        random = self._stage.random
        labels = [self._draw()]
        if left > 1 and labels[0] not in GOSSIP and random.random() < TWO_AT_ONCE:
            labels.append(self._draw())
        if labels[0] in GOSSIP:
            await steady(self._stage)
        names = random.sample(NAMES, len(labels))
        await asyncio.gather(*(self._one(*pair) for pair in zip(labels, names, strict=True)))
        await settle(self._stage, len(NAMES), f"after {' and '.join(labels)}", self.unsettled)
        if any(label in GOSSIP for label in labels):
            await asyncio.sleep(STEADY_S)
        await asyncio.sleep(random.uniform(*BETWEEN_S))
        return len(names)

    async def _one(self, label: str, name: str) -> None:
        random, process = self._stage.random, self._stage.ring[name].process
        assert process is not None
        for_s = random.uniform(*TTLS) * self._stage.ttl_s
        at = now_ms()
        if label.endswith("_flaps"):
            kind = label.removesuffix("_flaps")
            give_up = asyncio.get_running_loop().time() + for_s
            while asyncio.get_running_loop().time() < give_up:
                await self._hold(kind, name, random.uniform(*FLAP_S))
                await asyncio.sleep(random.uniform(*FLAP_S))
            self._stage.history.add(Fault(at, now_ms(), "cut", process.number, label))
        else:
            whole_at, ended = await self._hold(label, name, for_s)
            self._stage.history.add(Fault(at, ended, "cut", process.number, label, whole_at))

    async def _hold(self, label: str, name: str, for_s: float) -> tuple[int, int]:
        """Cut, wait, and mend; when it was whole, and when it was begun to be mended."""
        cut = self._make(label, self._places.nodes[name])
        whole_at = now_ms()
        try:
            await asyncio.sleep(for_s)
            return whole_at, now_ms()
        finally:
            cut.heal()

    def _make(self, label: str, node: Host) -> Cut:
        random, net, database, receivers = self._stage.random, self._places.network, *self._sides()
        others = [host for host in self._places.nodes.values() if host is not node]
        makers: dict[str, Callable[[], list[Cut]]] = {
            "database": lambda: [net.both_ways(node, database)],
            "database_refused": lambda: [net.both_ways(node, database, how="prohibit")],
            "database_out": lambda: [net.one_way(node, database)],
            "database_in": lambda: [net.one_way(database, node)],
            "gossip": lambda: [net.both_ways(node, other) for other in others],
            "gossip_out": lambda: [net.one_way(node, other) for other in others],
            "gossip_all": lambda: [net.one_way(*pair) for pair in permutations([node, *others], 2)],
            "udp": lambda: [net.one_way(None, None, "udp")],
            "receivers": lambda: [net.both_ways(node, receivers)],
            "receivers_out": lambda: [net.one_way(node, receivers)],
            "receivers_in": lambda: [net.one_way(receivers, node)],
            "alone": lambda: [net.both_ways(node, other) for other in (*others, database, receivers)],
            "loss": lambda: [net.loss(node, random.uniform(*LOSS))],
        }
        cuts = makers[label]()
        return Cut([cut.heal for cut in cuts])

    def _sides(self) -> tuple[Host, Host]:
        return self._places.database, self._places.receivers


async def settle(stage: Stage, wanted: int, when: str, unsettled: list[Violation]) -> None:
    """Wait until so many share all partitions; written down if that never comes."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + SETTLED_WITHIN_S
    seen = None
    async with stage.store.connection() as raw:
        while loop.time() < give_up:
            seen = await ring_dump.sharers(raw)
            if seen == wanted:
                return
            await asyncio.sleep(SETTLED_POLL_S)
    unsettled.append(Violation("not_converged", f"{seen} of {wanted} share the partitions {SETTLED_WITHIN_S} s {when}"))


async def steady(stage: Stage) -> None:
    """Wait until nothing has moved, and nothing is asked for, for a whole term: who has a share may be due another."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + SETTLED_WITHIN_S
    async with stage.store.connection() as raw:
        last, since = None, loop.time()
        while loop.time() < give_up:
            seen = tuple(await raw.fetchrow(STANDING))
            if seen != last or seen[1]:
                last, since = seen, loop.time()
            elif loop.time() - since > stage.ttl_s:
                return
            await asyncio.sleep(SETTLED_POLL_S)


async def leave_and_join(stage: Stage, unsettled: list[Violation]) -> None:
    """The third leaves, the two share all; it joins, and the three do."""
    await stage.ring.stop(NAMES[2])
    await settle(stage, 2, "after one has left", unsettled)
    await steady(stage)
    at = now_ms()
    await stage.ring.healthy(NAMES[2])
    await settle(stage, 3, "after one has joined", unsettled)
    await steady(stage)
    process = stage.ring[NAMES[2]].process
    assert process is not None
    stage.history.add(Fault(at, now_ms(), "join", process.number, "third"))


async def _nothing(stage: Stage, count: int) -> None:
    """The run makes the cuts itself: it has the network."""


def plan(name: str, labels: tuple[str, ...]) -> Plan:
    """A suite whose long runs see each of these."""
    demanded = ("fault_cut", "acknowledged", "hits", "moved_to_third" if "gossip" in labels else "found_by_polling")
    return Plan(
        name, _nothing, demanded, (*(f"at_{label}" for label in labels), "sent_before_cut"), long=2 * len(labels)
    )


class CutRun(RingRun):
    """One run on a network, with UDP or without."""

    def __init__(self, count: int, seed: int, folder: Path, *, udp: bool = True) -> None:
        labels = KINDS if udp else WITHOUT_UDP
        self._labels = tuple(one for one in labels if one != "loss" or network.loss_trouble() is None)
        self._udp = udp
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(plan("partition" if udp else "partition without udp", self._labels), count, seed, folder)
        self._cutter: Cutter | None = None
        self._places: Places | None = None
        self._unsettled: list[Violation] = []

    async def run(self) -> Verdict:
        """Break it, let it heal, judge. The harness is where the clients are."""
        with ExitStack() as stack:
            made = stack.enter_context(Network())
            database, receivers, clients = (made.host(name) for name in ("database", "receivers", "clients"))
            self._places = Places(made, database, receivers, {name: made.host(name) for name in NAMES})
            stack.enter_context(clients.namespace.entered())
            verdict = await super().run()
        return msgspec.structs.replace(verdict, violations=[*verdict.violations, *self._unsettled])

    async def _ground(self, stack: AsyncExitStack) -> Ground:
        places = self._places
        assert places is not None
        server = servers.Server(SERVER_SETTINGS, host=places.database)
        stack.callback(server.remove)
        url = await server.new_database()
        if not self._udp:
            places.network.one_way(None, None, "udp")
        key = self._folder / "ring.key"
        key.write_text(RING_KEY)
        key.chmod(0o600)
        return Ground(
            server,
            url,
            server.far_url(url),
            places.receivers,
            {name: Site(host.address, host.namespace.prefix, ALL_ADDRESSES) for name, host in places.nodes.items()},
            {"TASKTICK_CLUSTER__KEYS_FILE": str(key)},
        )

    async def _break(self, stage: Stage) -> None:
        assert self._places is not None
        began = now_ms()
        if self._udp:
            await leave_and_join(stage, self._unsettled)
        cutter = Cutter(stage, self._places, self._labels)
        cutter.unsettled = self._unsettled
        made = 0
        while made < self._count:
            made += await cutter.cut(self._count - made)
        if not self._udp:
            stage.history.add(Fault(began, now_ms(), "cut", 0, "no_udp"))


class PartitionRun:
    """One run of the suite: with UDP, then without."""

    def __init__(self, count: int, seed: int, folder: Path) -> None:
        self._count = count
        self._seed = seed
        self._folder = folder

    async def run(self) -> Verdict:
        """Both, as one verdict."""
        without = max(1, self._count // SILENT_SHARE)
        counts = {True: max(1, self._count - without), False: without}
        found = [
            await CutRun(count, self._seed, self._folder / ("udp" if udp else "no-udp"), udp=udp).run()
            for udp, count in counts.items()
        ]
        counters: Counter[str] = Counter()
        for one in found:
            counters |= Counter({name: n for name, n in one.counters.items() if name.endswith("_ms")})
            counters += Counter({name: n for name, n in one.counters.items() if not name.endswith("_ms")})
        violations = [violation for one in found for violation in one.violations]
        return Verdict(violations, counters, [reason for one in found for reason in one.void])


def trouble() -> str | None:
    """Why it cannot run here; None if it can."""
    return network.trouble() or servers.trouble()
