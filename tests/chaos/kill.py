"""Suite `kill`: one daemon on SQLite under load, killed with SIGKILL again and again.

A third of the processes are armed and kill themselves on a labelled crash point; the others are killed at a
random moment, some before they are ready. Now and then one is stopped in order (SIGTERM), or held (SIGSTOP)
for longer than a claim permits to start. In the end the faults stop, all that was created must come to its
end, and the history is judged.
"""

import asyncio
import signal
from bisect import bisect_left
from collections import defaultdict
from pathlib import Path
from random import Random

import aiohttp
import msgspec

from tests.chaos import dump
from tests.chaos.checker import check
from tests.chaos.history import Fault, HistoryWriter, Hit, Node, Run, Secret, Seen, SqlDump, now_ms
from tests.chaos.load import Door, Load
from tests.chaos.process import LEASE_MARGIN_MS, READY_WITHIN_S, START_DELAY_MS, SWEEP_EVERY_MS, Daemons, Process
from tests.chaos.receiver import Receiver
from tests.chaos.verdict import Verdict

FILE = "tasktick.db"
SETTLED_WITHIN_S = 90.0
PLANTED_SETTLED_WITHIN_S = 10.0
POLL_S = 0.1
ARMED_WITHIN_S = 1.2
# Of all processes, how many are armed; of the others, how many die before they are ready, or are held, and which
# are stopped in order.
ARMED_SHARE = 0.36
EARLY_SHARE = 0.15
HOLD_SHARE = 0.06
TERM_EVERY = 8
UP_S = (0.02, 0.5)
EARLY_S = (0.0, 0.4)
HOLD_S = (0.1, 1.5)
HOLD_ITSELF_S = (0.3, 1.5)
# Those that hold themselves do so between a claim and its sends: the claim's permit must not outlast the hold.
HOLD_LABEL = "after_claim_before_send"
HOLD_PASSES_MAX = 6
HOLD_EVERY = 7
API_ATTEMPTS_OF_MAX = 100
# Passes up to which an armed process may live, by label; what is rare is struck sooner.
PASSES_MAX = {
    "before_commit": 40,
    "after_commit_before_ack": 20,
    "after_claim_before_send": 10,
    "after_first_byte": 15,
    "after_answer_before_end": 15,
    "before_end_commit": 10,
    "after_end_commit": 10,
    "during_checkpoint": 3,
}
MIGRATION_PASSES = (1, 7, 14)
DEMANDED = [
    "acknowledged",
    "attempt_interrupted",
    "cancel_ok",
    "create_ok",
    "fault_armed",
    "fault_kill",
    "hits",
    "kills",
    "replayed",
    "retried",
]
# What a run of fifty kills must have seen besides.
DEMANDED_LONG = [
    *(f"at_{label}" for label in PASSES_MAX),
    "at_during_migration",
    "attempt_released",
    "attempt_unknown",
    "batch_ok",
    "cancelled_while_running",
    "delete_ok",
    "duplicates",
    "end_cancelled",
    "end_dead",
    "event_unclaimed",
    "fault_stop",
    "fault_term",
    "reason_attempts_exhausted",
    "reason_outcome_unknown",
    "reason_rejected",
    "retry_ok",
    "unknown_create_there",
]
LONG = 50


class Outcome(msgspec.Struct, frozen=True):
    """What came of a run: its verdict, its records, and how long restarts took."""

    verdict: Verdict
    to_ready_ms: list[int]
    to_first_hit_ms: list[int]


class KillRun:
    """One run of the suite."""

    def __init__(
        self, count: int, seed: int, folder: Path, plant: str | None = None, *, hold_share: float | None = None
    ) -> None:
        self._count = count
        self._random = Random(f"kill.{seed}")
        self._seed = seed
        self._folder = folder
        self._plant = plant
        self._history = HistoryWriter(folder / "history.jsonl")
        self._daemons = Daemons(folder / "data", self._history, folder / "daemon.log", plant)
        self._kills = 0
        self._holds_itself = False
        self._lives = 0
        self._deck: list[str] = []
        self._lives_since_stop = 0
        self._hold_share = HOLD_SHARE if hold_share is None else hold_share
        self._armed_share = ARMED_SHARE if hold_share is None else 0.0

    async def run(self) -> Outcome:
        """Break it, let it heal, judge."""
        long = self._count >= LONG
        demanded = DEMANDED + DEMANDED_LONG if long else DEMANDED
        marks = (START_DELAY_MS, LEASE_MARGIN_MS, SWEEP_EVERY_MS)
        self._history.add(Run("kill", self._seed, self._count, *marks, [] if self._plant else demanded))
        try:
            async with Receiver(self._history) as receiver:
                if self._plant is None:
                    await self._kill_migrations()
                process = await self._healthy()
                async with self._daemons.session() as session:
                    await self._break(process, session, receiver)
        finally:
            self._daemons.close()
            self._history.close()
        return self._outcome()

    async def _kill_migrations(self) -> None:
        """The very first starts die while they make the tables."""
        for passes in MIGRATION_PASSES[: max(1, self._count // 5)]:
            process = await self._daemons.start("during_migration", passes)
            assert await process.gone(READY_WITHIN_S), "it did not die while it migrated"
            process.write_off("armed", label="during_migration")
            self._kills += 1

    async def _healthy(self) -> Process:
        process = await self._daemons.start()
        assert await process.ready(), f"it is not ready: see {self._folder / 'daemon.log'}"
        return process

    async def _break(self, process: Process, session: aiohttp.ClientSession, receiver: Receiver) -> None:
        """Fault after fault under load, then heal."""
        for secret in await dump.signing_secrets(session):
            self._history.add(Secret(secret))
        load = Load([Door(session)], receiver, self._history, self._seed)
        load.start()
        try:
            label: str | None = None
            while True:
                await self._live_and_die(process, label, load, session)
                load.up.clear()
                if self._kills >= self._count:
                    break
                process, label = await self._next()
            process = await self._healthy()
            load.up.set()
            await (load.stop() if self._plant else load.stop_once_all_was_seen())
            await self._heal(process, session)
        finally:
            await load.close()
            if process.alive:
                await process.strike("kill", signal.SIGKILL)

    async def _next(self) -> tuple[Process, str | None]:
        """The next process, and the label on which it will die, if it is armed for one."""
        random = self._random
        self._lives += 1
        if random.random() < self._armed_share:
            label = self._draw_label()
            return await self._daemons.start(label, random.randint(1, PASSES_MAX[label])), label
        self._holds_itself = self._lives % HOLD_EVERY == 0 or random.random() < self._hold_share
        if self._holds_itself:
            return await self._daemons.start(HOLD_LABEL, random.randint(1, HOLD_PASSES_MAX), hold=True), None
        return await self._daemons.start(), None

    def _draw_label(self) -> str:
        """Labels in random order, each as often as the others."""
        if not self._deck:
            self._deck = self._random.sample(list(PASSES_MAX), len(PASSES_MAX))
        return self._deck.pop()

    async def _live_and_die(
        self, process: Process, label: str | None, load: Load, session: aiohttp.ClientSession
    ) -> None:
        """The life of one process, up to its fault."""
        random = self._random
        early = label is None and process.ready_at is None and not self._holds_itself
        if early and random.random() < EARLY_SHARE:
            await process.gone(random.uniform(*EARLY_S))
        else:
            if process.ready_at is not None or await process.ready():
                load.up.set()
            await self._live(process, label, load, session)
        if not process.alive:
            # An armed one did what it was armed for; any other ended by itself, which the checker has a word for.
            process.write_off("armed" if label is not None else None, label=label)
        elif label is None and process.ready_at is not None and self._is_time_to_stop():
            await process.strike("term", signal.SIGTERM)
            return
        else:
            await process.strike("kill", signal.SIGKILL)
        self._kills += 1

    def _is_time_to_stop(self) -> bool:
        """Every so many lives, the next one that can is stopped in order."""
        self._lives_since_stop += 1
        if self._lives_since_stop < TERM_EVERY:
            return False
        self._lives_since_stop = 0
        return True

    async def _live(self, process: Process, label: str | None, load: Load, session: aiohttp.ClientSession) -> None:
        if label is not None:
            await process.gone(ARMED_WITHIN_S)
            return
        if self._holds_itself:
            self._holds_itself = False
            if await process.holds_itself(ARMED_WITHIN_S):
                await process.hold(self._random.uniform(*HOLD_ITSELF_S), HOLD_LABEL)
                if process.ready_at is None and await process.ready():
                    load.up.set()
        elif process.alive and self._random.random() < self._hold_share:
            await process.hold(self._random.uniform(*HOLD_S))
        else:
            await process.gone(self._random.uniform(*UP_S))
            return
        await process.gone(self._random.uniform(*UP_S))
        if process.alive:
            self._history.add(Seen(now_ms(), process.number, await dump.events(session)))

    async def _heal(self, process: Process, session: aiohttp.ClientSession) -> None:
        """Wait until every task has ended, read the end both ways, stop in order."""
        file = self._daemons.data / FILE
        within_s = SETTLED_WITHIN_S if self._plant is None else PLANTED_SETTLED_WITHIN_S
        give_up = asyncio.get_running_loop().time() + within_s
        while dump.unfinished(file) and process.alive and asyncio.get_running_loop().time() < give_up:
            await process.gone(POLL_S)
        if process.alive:
            rows = _tables(file).tasks
            sample = self._random.sample([row.id for row in rows], min(len(rows), API_ATTEMPTS_OF_MAX))
            self._history.add(await dump.by_api(session, sample))
            self._history.add(Seen(now_ms(), process.number, await dump.events(session)))
            await process.strike("term", signal.SIGTERM)
        else:
            process.write_off(None)
        self._history.add(_tables(file))

    def _outcome(self) -> Outcome:
        lives: dict[int, dict[str, int]] = defaultdict(dict)
        for one in self._history.records:
            if isinstance(one, Node):
                lives[one.node][one.what] = one.at
        hits = sorted(one.at for one in self._history.records if isinstance(one, Hit))
        held = {one.node for one in self._history.records if isinstance(one, Fault) and one.kind == "stop"}
        to_ready, to_first_hit = [], []
        for node, life in lives.items():
            if "ready" in life and node not in held:
                to_ready.append(life["ready"] - life["started"])
                at = bisect_left(hits, life["started"])
                if at < len(hits) and hits[at] < life.get("exited", hits[at] + 1):
                    to_first_hit.append(hits[at] - life["started"])
        return Outcome(check(self._history.records), sorted(to_ready), sorted(to_first_hit))


def _tables(file: Path) -> SqlDump:
    connection = dump.open_read_only(file)
    try:
        return dump.by_sql(connection)
    finally:
        connection.close()
