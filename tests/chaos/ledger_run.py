"""Suite `ledger`: schedules of seconds, a daemon that is killed around their fires, stays away, and whose clock is set.

In the end everything is paused and ends; then what became of each time, as SQL and the API tell it, is held against
the oracle, and against what receivers saw (`ledger`). Clocks are set by libfaketime; where that is not installed the
rest runs, and the run says that it is void.
"""

import asyncio
import signal
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import msgspec

from tests.chaos import dump, faketime
from tests.chaos.faketime import ClockFile
from tests.chaos.history import Answered, HistoryWriter, Hit, now_ms
from tests.chaos.ledger import count, judge
from tests.chaos.ledger_documents import instant
from tests.chaos.ledger_dump import books
from tests.chaos.ledger_hands import Hands
from tests.chaos.ledger_story import Absence, Arrival, Book, LedgerStory
from tests.chaos.process import Daemons, Process
from tests.chaos.receiver import Receiver
from tests.chaos.verdict import Verdict, Violation

FILE = "tasktick.db"
SCHEDULES = 12
MISSED_AFTER_MS = 3_000
SLACK_MS = 1_500
SETTINGS = {
    "TASKTICK_SCHEDULER__MISSED_AFTER_MS": str(MISSED_AFTER_MS),
    "TASKTICK_SCHEDULER__MISSED_ROWS_MAX": "8",
}
UP_S = (0.8, 3.0)
ACT_S = (0.05, 0.4)
OUTAGE_S = (4.5, 7.0)
AROUND_A_FIRE_S = 0.03
ARMED_WITHIN_S = 8.0
CALM_S = 3.0
SETTLED_WITHIN_S = 60.0
# An end is written down a moment after its time; a restart takes up what was cut.
COMMIT_MS = 2_000
STEPS_MS = (-2_000, 1_000, -20_000, 20_000, 90_000, -3_600_000, 86_400_000)
ARMED = (
    "before_ledger_commit",
    "after_ledger_commit",
    "after_claim_before_send",
    "before_end_commit",
    "after_end_commit",
    "before_commit",
)
FAULTS = {"around": 30, "armed": 25, "outage": 20, "clock": 20, "term": 5}
DEMANDED = ("arrivals", "fault around", "fault outage", "fault armed", "ledger run", "ledger skipped(overlap)")
DEMANDED_LONG = (
    "did edit",
    "did hold",
    "did pause",
    "did resume",
    "did trigger",
    "ledger missed(catch_up:all)",
    "ledger missed(catch_up:earliest)",
    "ledger missed(catch_up:latest)",
    "ledger missed(catch_up:none)",
    "ledger run(buffered)",
    "ledger skipped(paused)",
    "ledger stretch",
    "fault term",
    *(f"at {label}" for label in ARMED),
)
CLOCK_DEMANDED = ("fault clock",)
CLOCK_DEMANDED_LONG = ("clock set back", "clock set forward")
LONG = 50


class LedgerRun:
    """One run of the suite."""

    def __init__(self, count: int, seed: int, folder: Path) -> None:
        self._count = count
        self._seed = seed
        self._folder = folder
        self._random = Random(f"ledger.{seed}")
        self._history = HistoryWriter(folder / "history.jsonl")
        self._clock = ClockFile(folder)
        self._clock_can_be_set = faketime.library() is not None
        settings = SETTINGS | self._clock.environment()
        self._daemons = Daemons(folder / "data", self._history, folder / "daemon.log", settings=settings)
        self._segments = [(0, 0)]
        self._absences: list[Absence] = []
        self._deaths: list[int] = []
        self._died_wall: int | None = None
        self._counters: Counter[str] = Counter()
        self._deck: list[str] = []
        self._violations: list[Violation] = []

    def _wall(self) -> int:
        return now_ms() + self._clock.offset_ms

    async def run(self) -> Verdict:
        """Break it, let it heal, judge."""
        try:
            async with Receiver(self._history) as receiver:
                process = await self._start()
                async with self._daemons.session() as session:
                    hands = Hands(session, receiver, self._wall, self._seed)
                    process = await self._break(process, hands)
                    await self._heal(process, session, hands)
                return self._verdict(hands)
        finally:
            self._daemons.close()
            self._history.close()

    async def _start(self, label: str | None = None, passes: int = 1) -> Process:
        """A process that is ready, or has died on its label before it was."""
        began = now_ms()
        process = await self._daemons.start(label, passes)
        wall = self._wall()
        self._absences.append(Absence(self._died_wall or wall, wall, began, start=True))
        ready = await process.ready()
        assert ready or label is not None, f"it is not ready: see {self._folder / 'daemon.log'}"
        # It may have noticed its own start a little later.
        self._absences.append(Absence(wall, self._wall(), now_ms(), sure=False))
        return process

    async def _break(self, process: Process, hands: Hands) -> Process:
        """Fault after fault, while clients make up and change their minds."""
        await hands.make(SCHEDULES)
        label: str | None = None
        for number in range(self._count):
            kind = "armed" if label is not None else self._draw()
            acting = asyncio.create_task(self._act(hands))
            try:
                await self._strike(process, kind, label)
            finally:
                acting.cancel()
                await asyncio.gather(acting, return_exceptions=True)
            self._counters[f"fault {kind}"] += 1
            if kind != "clock":
                await self._stay_away(kind)
                label = None
                if number + 1 < self._count and self._peek() == "armed":
                    self._draw()
                    label = ARMED[self._counters["fault armed"] % len(ARMED)]
                process = await self._start(label, self._random.randint(1, 6))
        if label is not None and not await process.gone(0):
            await self._die(process, "kill", signal.SIGKILL)
        return process if process.alive else await self._start()

    def _peek(self) -> str:
        if not self._deck:
            # Each kind has its share, in an order of the seed's.
            shown = [kind for kind, share in FAULTS.items() for _ in range(share // 5)]
            self._deck = [kind for kind in shown if kind != "clock" or self._clock_can_be_set]
            self._random.shuffle(self._deck)
        return self._deck[-1]

    def _draw(self) -> str:
        self._peek()
        return self._deck.pop()

    async def _act(self, hands: Hands) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(*ACT_S))
            done = await hands.act()
            self._counters[f"did {done}"] += done is not None

    async def _strike(self, process: Process, kind: str, label: str | None) -> None:
        if kind == "armed" and label is not None:
            if await process.gone(ARMED_WITHIN_S):
                self._counters[f"at {label}"] += 1
                self._note_death()
                process.write_off("armed", label=label)
                return
        else:
            await process.gone(self._random.uniform(*UP_S))
        if kind == "clock":
            self._step(self._random.choice(STEPS_MS), noticed=True)
            await process.gone(self._random.uniform(*UP_S))
        elif kind == "term":
            await self._die(process, "term", signal.SIGTERM)
        else:
            # Most of the schedules fire at whole seconds.
            to_next_ms = 1_000 - self._wall() % 1_000
            await process.gone(to_next_ms / 1_000 + self._random.uniform(-AROUND_A_FIRE_S, AROUND_A_FIRE_S))
            await self._die(process, "kill", signal.SIGKILL)

    async def _die(self, process: Process, kind: Any, number: signal.Signals) -> None:
        await process.strike(kind, number)
        self._note_death()

    def _note_death(self) -> None:
        self._deaths.append(now_ms())
        self._died_wall = self._wall()

    async def _stay_away(self, kind: str) -> None:
        """After an outage it is gone for longer than a fire may be late, and the clock may be set meanwhile."""
        if kind != "outage":
            return
        await asyncio.sleep(self._random.uniform(*OUTAGE_S))
        if self._clock_can_be_set and self._random.random() < 0.3:
            self._step(self._random.choice(STEPS_MS), noticed=False)

    def _step(self, by_ms: int, *, noticed: bool) -> None:
        """Set the clock. One that is far behind is set right: all would stand still."""
        ahead_ms = max(offset for _, offset in self._segments)
        if ahead_ms - self._clock.offset_ms > 1_000:
            by_ms = ahead_ms - self._clock.offset_ms
        before = self._wall()
        self._clock.set(self._clock.offset_ms + by_ms)
        self._segments.append((now_ms(), self._clock.offset_ms))
        self._counters["clock set forward" if by_ms > 0 else "clock set back"] += 1
        if noticed and by_ms > MISSED_AFTER_MS - SLACK_MS:
            sure = by_ms > MISSED_AFTER_MS + SLACK_MS
            self._absences.append(Absence(before, before + by_ms, now_ms(), sure=sure))

    async def _heal(self, process: Process, session: aiohttp.ClientSession, hands: Hands) -> None:
        """No more faults: a while of calm, then everything is paused and ends."""
        if max(offset for _, offset in self._segments) > self._clock.offset_ms:
            self._step(0, noticed=True)
        await asyncio.sleep(CALM_S)
        file = self._daemons.data / FILE
        self._violations += [Violation("stuck", f"{one} is not looked at") for one in _stuck(file, self._wall())]
        await hands.settle()
        give_up = asyncio.get_running_loop().time() + SETTLED_WITHIN_S
        while dump.unfinished(file) and process.alive and asyncio.get_running_loop().time() < give_up:
            await process.gone(0.1)
        assert process.alive, f"it died by itself: see {self._folder / 'daemon.log'}"
        self._books = self._read(hands)
        for book in self._books:
            self._violations += _differences(book, await hands.ledger(f"sch_{book.schedule_id}"))
        self._counters.update({f"event {name}": number for name, number in (await dump.events(session)).items()})
        await self._die(process, "term", signal.SIGTERM)

    def _read(self, hands: Hands) -> list[Book]:
        editions = {one.schedule_id.removeprefix("sch_"): one.editions for one in hands.kept.values()}
        triggered = {one.removeprefix("tsk_") for one in hands.triggered}
        connection = dump.open_read_only(self._daemons.data / FILE)
        try:
            return books(connection, editions, triggered)
        finally:
            connection.close()

    def _verdict(self, hands: Hands) -> Verdict:
        story = LedgerStory(
            books=self._books,
            arrivals=_arrivals(self._history),
            absences=self._absences,
            clock=self._segments,
            deaths=self._deaths,
            ended_true=now_ms(),
            missed_after_ms=MISSED_AFTER_MS,
            slack_ms=SLACK_MS,
            commit_ms=COMMIT_MS,
        )
        (self._folder / "story.json").write_bytes(msgspec.json.encode(story))
        found = _without_doubtful(judge(story), hands.doubtful_triggers)
        counters = +(self._counters + count(story))
        demanded = DEMANDED + (DEMANDED_LONG if self._count >= LONG else ())
        if self._clock_can_be_set:
            demanded += CLOCK_DEMANDED_LONG if self._count >= LONG else CLOCK_DEMANDED
        void = [f"{name} was never seen" for name in demanded if not counters[name]]
        if not self._clock_can_be_set:
            void.append(f"no clock was set: libfaketime is not installed ({faketime.NAMED} may name it)")
        return Verdict([*self._violations, *found], counters, void)


def _stuck(file: Path, wall: int) -> list[str]:
    connection = dump.open_read_only(file)
    try:
        late = wall - 2_000
        return [row[0] for row in connection.execute("SELECT id FROM schedules WHERE look_at < ?", (late,))]
    finally:
        connection.close()


def _arrivals(history: HistoryWriter) -> list[Arrival]:
    answered = {one.hit: one for one in history.records if isinstance(one, Answered)}
    found = []
    for hit in history.records:
        if isinstance(hit, Hit):
            answer = answered.get(hit.hit)
            status = None if answer is None or answer.how != "answer" else answer.status
            task_id = hit.headers["webhook-id"].removeprefix("tsk_")
            found.append(Arrival(task_id, hit.at, answer.at if answer and status is not None else None, status))
    return found


def _differences(book: Book, rows: list[dict[str, Any]]) -> list[Violation]:
    """The ledger as the API tells it must be the one that SQL does."""
    told = [
        (
            instant(row["nominal"]),
            row["outcome"],
            row["reason"],
            row["task_id"] and row["task_id"].removeprefix("tsk_"),
            row["schedule_version"],
            instant(row["decided_at"]),
            row["collapsed"],
            row["missed"],
            row["to"] and instant(row["to"]),
            row["count"],
        )
        for row in rows
    ]
    stored = [
        (
            one.nominal_at,
            one.outcome,
            one.reason,
            one.task_id,
            one.version,
            one.decided_at,
            one.collapsed,
            one.missed,
            one.until_at,
            one.times,
        )
        for one in book.entries
    ]
    if told == stored:
        return []
    odd = sorted(map(repr, set(told) ^ set(stored)))[:4]
    return [Violation("api_differs", f"{book.schedule_id}: the API and SQL tell of {len(told)}, {len(stored)}: {odd}")]


def _without_doubtful(found: list[Violation], doubtful: int) -> list[Violation]:
    """A trigger that was cut off may have made a task that nobody knows of."""
    kept, strays = [], 0
    for one in found:
        strays += one.kind == "fire_without_row"
        if one.kind not in {"fire_without_row", "hit_without_row"} or strays > doubtful:
            kept.append(one)
    return kept
