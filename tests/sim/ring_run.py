"""Plays one seed of a ring: three to five nodes on one server, in virtual time, and whatever may go wrong with them.

First everything that this seed has goes wrong, while clients go on; what must always hold is judged at each commit and
at each send (`watch`). Then it is calm: within a bounded time every partition has its one owner, all that was
acknowledged has ended, each ledger has each of its times once, and what was interrupted has its reason. In some seeds
gossip alone is cut at last, which must move nothing, and leave nothing lying.
"""

import asyncio
import hashlib
import tempfile
from collections import Counter
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

from tasktick.cluster.ring import placement
from tasktick.model.change import ACTIONS
from tasktick.model.state import TERMINAL, State
from tasktick.model.task import TaskState
from tasktick.store import counts, leases, schedules, tasks
from tasktick.store.protocol import Transaction
from tests import scratch
from tests.sim.loop import SimLoop
from tests.sim.ring_clients import RingClients
from tests.sim.ring_faults import NAMES, Faults, features_of
from tests.sim.ring_town import CONFIG, STOPS_WITHIN_S, TTL_MS, RingTown
from tests.sim.run import Report
from tests.sim.server import reached_by
from tests.store import told

UP_WITHIN_S = 6.0
FAULTS_S = (6.0, 12.0)
SWEEP_MS = CONFIG.scheduler.sweep_every_ms
# After it is calm: what nobody has claimed starts within a term, a sweep and a look.
PICKED_UP_MS = TTL_MS + SWEEP_MS + 2_500
ENDED_WITHIN_S = 25.0
TAIL_S = 2.5 * TTL_MS / 1_000
# Across the seeds of a long run each of these must have happened, or it shows nothing.
DEMANDED = (
    "lease stolen after expiry",
    "stale_write",
    "rescue",
    "interrupted",
    "hint lost but work found",
    "gossip alone cut, nothing moved",
    "partition moved in flight, completion accepted",
    "claim_given_back",
    "heir cut from the database",
    "unknown claim resolved as ours",
    "unknown commit not there",
    "commit late",
    "commit aborted",
    "member_accused_us",
    "member_recovered",
    "partition_handed_over",
    "stopped in order",
    "rolling restart",
    "drained",
    "joined",
    "killed",
    "frozen",
    "wall clock set",
    "store_clock_stepped",
    "store away",
    "history_regressed",
)
INTERRUPTED = ("lease_lost", "interrupted", "unknown")


class RingPlay:
    """One seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.random = Random(f"ring.{seed}")
        self.loop = SimLoop(Random(f"ring loop.{seed}"))
        self.folder = folder

    def run(self) -> Report:
        """Play it on its own loop."""
        asyncio.set_event_loop(self.loop)
        self.town = town = RingTown(
            self.seed, self.folder, self.loop, gossips="no_gossip" not in features_of(self.seed)
        )
        self.loop.set_exception_handler(lambda loop, context: town.watch.wrong(f"nobody heard: {context}"))
        try:
            with reached_by(town.wires):
                try:
                    self.loop.run_until_complete(self._play())
                finally:
                    bury(self.loop)
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()
            town.server.close()
        text = "\n".join(town.watch.trace)
        return Report(
            self.seed, hashlib.sha256(text.encode()).hexdigest()[:16], town.watch.violations, town.watch.sometimes
        )

    async def _play(self) -> None:
        town, random = self.town, self.random
        self.faults = Faults(town, self.seed)
        self.clients = RingClients(town, self.seed, loses_hints=random.random() < 0.5)
        self.faults.prepare()
        town.forgets = self.clients.forget
        noted = town.server.noted
        town.server.noted = lambda what: self._noted(what, noted)
        for name in NAMES[: random.randint(3, 5)]:
            town.begin(name)
        await self._until(lambda: len(town.up()) == len(town.nodes), UP_WITHIN_S, "the nodes are up")
        self.faults.begin()
        for_s = random.uniform(*FAULTS_S)
        using = town.beside(self.clients.play(for_s))
        await self.faults.play(for_s)
        await using
        self.faults.calm()
        await self._converge()
        if town.gossips and self.seed % 3 == 0:
            await self._gossip_alone_is_cut()
        await self._judge()
        for node in town.nodes.values():
            town.watch.sometimes.update(node.metrics.events + node.metrics.attempts)

    def _noted(self, what: str, noted: object) -> None:
        assert callable(noted)
        noted(what)
        if what in {"commit late", "commit late_undone"}:
            self.town.disturb(None, "locks held", self.town.server.late_s)

    async def _until(self, holds: object, within_s: float, what: str) -> bool:
        assert callable(holds)
        give_up = self.loop.time() + within_s
        while not holds():
            if self.loop.time() > give_up:
                self.town.watch.wrong(f"not within {within_s} s: {what}")
                return False
            self.town.look_after()
            await asyncio.sleep(0.05)
        return True

    # ------------------------------------------------------------------------------- calm

    async def _converge(self) -> None:
        town = self.town
        for name in NAMES:
            town.server.raw.execute("DELETE FROM drained_nodes WHERE name = ?", (name,))
        await self._until(
            lambda: not any(one.is_leaving for one in town.nodes.values()), STOPS_WITHIN_S, "who stops has"
        )
        self.faults.restart()
        await self._until(lambda: len(town.up()) == len(town.nodes), UP_WITHIN_S, "the nodes are up")
        began_at = town.server.now_ms()
        # A term or a lease that was given before the database's clock was set back ends so much later.
        await asyncio.sleep((PICKED_UP_MS + self.faults.set_back_ms) / 1_000)
        town.look_after()
        await self._until(self._is_settled, TTL_MS / 1_000, "each partition is where it should be")
        late = town.server.now_ms() - PICKED_UP_MS
        left = town.server.look(
            "SELECT id, state, wake_at, after_id, decide_by FROM tasks "
            "WHERE state IN (2, 5) AND wake_at < ? AND after_id IS NULL LIMIT 3",
            late,
        )
        if left:
            town.watch.wrong(f"calm since {began_at}, and nobody has taken up {left}")
        stuck = town.server.look("SELECT id, lease_until FROM tasks WHERE state = 4 AND lease_until < ? LIMIT 3", late)
        if stuck:
            town.watch.wrong(f"still running past their leases: {stuck}")
        await self._hold_schedules()
        await self._until(self._has_ended, ENDED_WITHIN_S, "everything has ended")

    def _is_settled(self) -> bool:
        """Every partition is owned once, by whom placement names, and he knows."""
        nodes = self.town.server.read(lambda tx: leases.view(tx, 0)).nodes
        placed = placement(nodes, self.town.server.now_ms())
        owned = {one: node.incarnation for node in self.town.nodes.values() for one in node.owned}
        held = dict(self.town.server.look("SELECT partition_id, incarnation FROM leases"))
        return len(placed) == len(held) and owned == placed == held

    async def _hold_schedules(self) -> None:
        """What is under way can end."""
        if not await self._until(self.town.up, UP_WITHIN_S, "a node is up"):
            return
        node = self.town.up()[0]
        for schedule_id in self.clients.schedules:
            await node.run(self.clients.hold(node, schedule_id))

    def _has_ended(self) -> bool:
        paused = self.town.server.look("SELECT id FROM tasks WHERE state = ?", int(State.PAUSED))
        if paused and (up := self.town.up()):
            self.town.mind(up[0].run(self._resume([row[0] for row in paused])))
        return not self.town.server.look(f"SELECT 1 FROM tasks WHERE state < {int(min(TERMINAL))} LIMIT 1")

    async def _resume(self, ids: list[str]) -> None:
        node, now = self.town.up()[0], self.town.server.now_ms()

        async def operation(tx: Transaction) -> list[TaskState]:
            rows = [row for row in await tasks.states(tx, ids) if row.state is State.PAUSED]
            changes = [ACTIONS["resume"](row, now) for row in rows]
            await tasks.change(tx, changes)
            return [one.after for one in changes]

        node.node.written(await node.database.write(operation))

    # ------------------------------------------------------------------------------- gossip alone

    async def _gossip_alone_is_cut(self) -> None:
        town = self.town
        before = town.server.look("SELECT partition_id, epoch, incarnation FROM leases ORDER BY 1")
        town.weather.cut_all = True
        await asyncio.sleep(TAIL_S)
        if (after := town.server.look("SELECT partition_id, epoch, incarnation FROM leases ORDER BY 1")) != before:
            moved = sum(one != other for one, other in zip(before, after, strict=True))
            town.watch.wrong(f"gossip alone was cut, and {moved} partitions moved")
        for node in town.up():
            town.mind(node.run(self.clients.create(node, 5, 0, hint=False)))
        await asyncio.sleep(0.2)
        await self._until(self._has_ended, ENDED_WITHIN_S, "what was made without hints has ended")
        town.watch.sometimes["gossip alone cut, nothing moved"] += 1

    # ------------------------------------------------------------------------------- in the end

    async def _judge(self) -> None:
        town, watch = self.town, self.town.watch
        rows = {row.id: row for row in town.server.read(lambda tx: tasks.states(tx, sorted(self.clients.acknowledged)))}
        for task_id in self.clients.acknowledged:
            if task_id not in rows:
                watch.wrong(f"{task_id}: acknowledged, and gone")
        for row in rows.values():
            watch.sometimes[f"ended {row.state.word}"] += 1
        if town.server.read(_live_counts) != town.server.read(counts.actual):
            watch.wrong("the counts are not what the table holds")
        for fault in town.server.read(told.faults):
            watch.wrong(fault)
        self._judge_attempts()
        self._judge_ledgers()

    def _judge_attempts(self) -> None:
        """Each that was sent has its row; each that was cut off has its reason."""
        town = self.town
        done: Counter[str] = Counter()
        series = dict(town.server.look("SELECT id, series FROM tasks"))
        for task_id, claims in town.watch.claims.items():
            for claim in claims.values():
                if claim.sent_at is not None and claim.recorded is None:
                    town.watch.wrong(f"sent, and has no row: {claim}")
                process = town.watch.process_of[claim.incarnation]
                explained = town.explains(process, claim.issued_true_ms, claim.true_ms + claim.lease_until - claim.at)
                if claim.recorded in INTERRUPTED and not explained:
                    town.watch.wrong(f"{claim.recorded} for no reason ({process}): {claim}")
                done[task_id] += claim.recorded == "succeeded"
        for task_id, count in done.items():
            if count > series[task_id]:
                town.watch.wrong(f"{task_id}: succeeded {count} times in {series[task_id]} series")

    def _judge_ledgers(self) -> None:
        """Every time once, from the first to the last, and all of them ran: nobody was away for long."""
        for one in self.clients.schedules:
            found = self.town.server.read(partial(schedules.ledger, schedule_id=one, limit=1_000))
            times = sorted(entry.row.nominal_at for entry in found)
            steps = {later - earlier for earlier, later in pairwise(times)}
            if len(steps) > 1:
                self.town.watch.wrong(f"schedule {one}: its times are {times}")
            outcomes = {entry.row.outcome for entry in found}
            if outcomes - {"run"}:
                self.town.watch.wrong(f"schedule {one}: outcomes {outcomes}")
            self.town.watch.sometimes["times of schedules"] += len(times)


async def _live_counts(tx: Transaction) -> list[object]:
    return [row for row in await counts.read(tx, None) if row.tasks and row.state >= 0]


def bury(loop: SimLoop) -> None:
    """Cut off whatever still runs."""
    loop.set_exception_handler(lambda loop, context: None)  # it may say anything
    pending = loop.living()
    for task in pending:
        task.cancel()
    loop.thaw_all()
    loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))


def play(seed: int) -> Report:
    """One seed, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="tasktick-sim-", dir=scratch.quick()) as folder:
        return RingPlay(seed, Path(folder)).run()
