"""A run of a suite on a ring: server, nodes, load, schedules; then what the suite does to them; then heal, and judge.

A suite is a function that breaks things until it has made as many faults as were asked for. What it is given is a
`Stage`: it leaves every node that it has stopped or killed to be started again by `heal`, if not by itself.
"""

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import aiohttp
import msgspec

from tests.chaos import dump, ring_dump
from tests.chaos.checker import check
from tests.chaos.history import HistoryWriter, Logged, Run, Secret
from tests.chaos.ledger_documents import asked, instant
from tests.chaos.ledger_story import Edition
from tests.chaos.load import Load
from tests.chaos.network import Host
from tests.chaos.nodes import TTL_MS, Ring
from tests.chaos.nominal import Timing
from tests.chaos.process import LEASE_MARGIN_MS, START_DELAY_MS, SWEEP_EVERY_MS, Site
from tests.chaos.receiver import Receiver
from tests.chaos.ring_store import SERVER_SETTINGS, RingStore, connections_by_second
from tests.chaos.verdict import Verdict
from tests.postgres import Cluster, installed

CLIENTS = 4
SETTLED_WITHIN_S = 60.0
CONVERGED_WITHIN_S = 20.0
POLL_S = 0.1
API_ATTEMPTS_OF_MAX = 60
TIMINGS = (
    Timing(every_ms=1_000),
    Timing(every_ms=1_500, anchor_at=250),
    Timing(cron="* * * * * *", zone="Asia/Kolkata"),
)
CALM_S = 1.0
ANSWER_S = 5.0
PAUSE_TRIES = 50
# What nodes say in their logs that no metric counts.
LOGGED = frozenset({"commit_unknown", "commit_found_out", "partitions_lost", "store_unreachable", "claim_failed"})


class Plan(msgspec.Struct, frozen=True):
    """What a suite is."""

    name: str
    breaks: Callable[["Stage", int], Awaitable[None]]
    demanded: tuple[str, ...]
    # What a run of so many faults must have seen besides.
    demanded_long: tuple[str, ...] = ()
    long: int = 20
    names: tuple[str, ...] = ("n1", "n2", "n3")
    behaviours: Mapping[str, int] | None = None
    settings: Mapping[str, str] = {}
    delay_max_ms: int | None = None


class Stage:
    """What a suite is given to break."""

    def __init__(self, ring: Ring, store: RingStore, server: Cluster, history: HistoryWriter, random: Random) -> None:
        self.ring = ring
        self.store = store
        self.server = server
        self.history = history
        self.random = random
        self.ttl_s = TTL_MS / 1_000


class Ground(msgspec.Struct, frozen=True):
    """What a run stands on: its server, as the harness reaches it and as the nodes do, and where everybody is."""

    server: Cluster
    store_url: str
    nodes_url: str
    receivers: Host | None = None
    sites: Mapping[str, Site] = {}
    settings: Mapping[str, str] = {}


class RingRun:
    """One run of a suite on a ring."""

    def __init__(self, plan: Plan, count: int, seed: int, folder: Path, plant: str | None = None) -> None:
        self._plan = plan
        self._count = count
        self._seed = seed
        self._folder = folder
        self._plant = plant
        self._random = Random(f"{plan.name}.{seed}")
        self._history = HistoryWriter(folder / "history.jsonl")
        self._editions: dict[str, list[Edition]] = {}

    async def run(self) -> Verdict:
        """Break it, let it heal, judge."""
        self._history.add(self._said())
        try:
            async with AsyncExitStack() as stack:
                ground = await self._ground(stack)
                store = RingStore(ground.store_url, self._history)
                receiver = await stack.enter_async_context(Receiver(self._history, ground.receivers))
                ring = Ring(
                    self._folder,
                    ground.nodes_url,
                    self._history,
                    self._plan.names,
                    settings={**self._plan.settings, **ground.settings},
                    plant=self._plant,
                    sites=ground.sites,
                )
                stack.push_async_callback(ring.close)
                stack.push_async_callback(store.unwatch)
                stage = Stage(ring, store, ground.server, self._history, self._random)
                await self._through(stage, receiver)
                self._history.add(connections_by_second(stage.server.log))
                shutil.copy(stage.server.log, self._folder / "postgres.log")
        finally:
            self._history.close()
        return self._judge()

    def _judge(self) -> Verdict:
        return check(self._history.records)

    async def _ground(self, stack: AsyncExitStack) -> Ground:
        """Where it all is; whoever is on `stack` ends what was begun for it."""
        server = Cluster(min(installed(), key=int), SERVER_SETTINGS)
        stack.callback(server.remove)
        url = await server.new_database()
        return Ground(server, url, url)

    async def _break(self, stage: Stage) -> None:
        """Fault after fault."""
        await self._plan.breaks(stage, self._count)

    def _said(self) -> Run:
        plan, long = self._plan, self._count >= self._plan.long
        demanded = [] if self._plant else [*plan.demanded, *(plan.demanded_long if long else ())]
        marks = (START_DELAY_MS, LEASE_MARGIN_MS, SWEEP_EVERY_MS)
        run = Run(plan.name, self._seed, self._count, *marks, demanded)
        return msgspec.structs.replace(run, ttl_ms=TTL_MS, delay_max_ms=plan.delay_max_ms)

    async def _through(self, stage: Stage, receiver: Receiver) -> None:
        """Fault after fault under load, then heal, and read the end."""
        ring, store = stage.ring, stage.store
        await ring.begin(self._plan.names[:3])
        await store.audit()
        store.watch()
        for secret in await dump.signing_secrets(ring.session(self._random)):
            self._history.add(Secret(secret))
        for number in range(len(TIMINGS)):
            await self._schedule(ring.session(self._random), receiver, number)
        load = Load(ring.doors, receiver, self._history, self._seed, self._plan.behaviours)
        load.up.set()
        load.start(CLIENTS)
        try:
            await asyncio.sleep(CALM_S)
            await self._break(stage)
            await self._restart(ring)
            await (load.stop() if self._plant else load.stop_once_all_was_seen())
        finally:
            await load.close()
        await self._heal(stage)

    async def _schedule(self, session: aiohttp.ClientSession, receiver: Receiver, number: int) -> None:
        edition = Edition(version=1, at=0, timing=TIMINGS[number], overlap="allow", mode="all")
        task = {
            "target": {"url": receiver.url("ok", f"s{number}"), "timeout": 1},
            "retry": {"strategy": "fixed", "initial": 0.3, "jitter": 0},
        }
        async with session.post("/v1/schedules", json={"task": task, **asked(edition)}) as answer:
            made = await answer.json()
            assert answer.status == 201, made
        self._editions[made["id"].removeprefix("sch_")] = [
            msgspec.structs.replace(edition, at=instant(made["created_at"]))
        ]

    async def _restart(self, ring: Ring) -> None:
        """The first three are there again, and nobody else."""
        for name in ring.members:
            member = ring[name]
            if name in self._plan.names[:3]:
                if not member.alive:
                    await ring.healthy(name)
            elif member.alive:
                await ring.stop(name)

    async def _heal(self, stage: Stage) -> None:
        """Wait until every task has ended and every partition has its owner, read the end both ways, stop in order."""
        ring, loop = stage.ring, asyncio.get_running_loop()
        for name in sorted(self._editions):
            await self._pause(ring, name)
        async with stage.store.connection() as raw:
            give_up = loop.time() + SETTLED_WITHIN_S
            while await ring_dump.unfinished(raw) and ring.up and loop.time() < give_up:  # noqa: ASYNC110 # a database
                await asyncio.sleep(POLL_S)
            await self._converge(stage)
            tables = await ring_dump.tables(raw)
            sample = self._random.sample([row.id for row in tables.tasks], min(len(tables.tasks), API_ATTEMPTS_OF_MAX))
            if ring.up:
                self._history.add(await dump.by_api(ring.session(self._random), sample))
            self._history.add(tables)
            self._history.add(await ring_dump.books(raw, self._editions))
        for member in ring.members.values():
            await ring.see(member)
        await stage.store.unwatch()
        await stage.store.write_down()
        await ring.stop(*(member.name for member in ring.alive))
        for member in ring.members.values():
            self._history.add(Logged(member.name, dict(logged(self._folder / f"{member.name}.log"))))

    async def _converge(self, stage: Stage) -> None:
        """Wait until everybody who is there has a share and nobody else has; the checker says if that never came."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + CONVERGED_WITHIN_S
        while loop.time() < give_up:
            async with stage.store.connection() as raw:
                seen = await ring_dump.sharers(raw)
            if seen == len(stage.ring.up):
                return
            await asyncio.sleep(POLL_S)

    async def _pause(self, ring: Ring, name: str) -> None:
        """Its times end here; asked until it is known."""
        edition = self._editions[name][-1]
        for _ in range(PAUSE_TRIES):
            try:
                async with asyncio.timeout(ANSWER_S):
                    session = ring.session(self._random)
                    async with session.post(f"/v1/schedules/sch_{name}/pause", json={}) as answer:
                        document = await answer.json()
            except (OSError, TimeoutError, aiohttp.ClientError):
                continue
            if answer.status == 200:
                at = instant(document["updated_at"])
                paused = msgspec.structs.replace(edition, paused=True, version=int(document["version"]), at=at)
                self._editions[name].append(paused)
                return
            await asyncio.sleep(POLL_S)
        raise AssertionError(f"{name} could not be paused: {answer.status}")


def logged(log: Path) -> Counter[str]:
    """How often each of LOGGED stands in a node's log."""
    found: Counter[str] = Counter()
    for line in log.read_bytes().splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        event = said.get("event")
        if event in LOGGED:
            found[f"{event}_{'ours' if said['committed'] else 'not'}" if "committed" in said else event] += 1
    return found
