"""Ledgers made by hand: a schedule of every ten seconds that nothing is wrong with, and what is told of it."""

from typing import Any

import msgspec

from tests.chaos.ledger_story import Absence, Arrival, Book, Edition, Entry, Fire, Former, LedgerStory
from tests.chaos.nominal import Timing

START = 1_790_000_000_000
STEP_MS = 10_000
HOUR_MS = 3_600_000
TIMING = Timing(every_ms=STEP_MS)


class Scribe:
    """Writes a history down. Times are in steps of ten seconds from its start, or ms where they are named so."""

    def __init__(self, **fields: Any) -> None:
        self.editions = [Edition(version=1, at=START, timing=TIMING, **fields)]
        self.entries: list[Entry] = []
        self.fires: list[Fire] = []
        self.arrivals: list[Arrival] = []
        self.absences: list[Absence] = [Absence(START, START, START, start=True)]
        self.clock = [(0, 0)]
        self.now = 0.0
        self.next_id: str | None = None
        self.counts: dict[str, int] | None = None
        self.lined = False
        # Steps that backfills have put in, if that was noted.
        self.filled: set[float] | None = None
        self.failures: tuple[int, bool] | None = None
        self.others: list[Scribe] = []
        self.name = "s"

    def decide(self, step: float, outcome: str = "run", reason: str | None = None, **fields: Any) -> Entry:
        """A row of the ledger and its task; a run is sent and succeeds."""
        at = START + int(step * STEP_MS)
        given: dict[str, Any] = {"version": 1, "decided_at": at, "local_ms": at, "task_id": f"t{step}"} | fields
        entry = Entry(nominal_at=at, outcome=outcome, reason=reason, **given)
        self.entries.append(entry)
        self.now = max(self.now, step, (entry.decided_at - START) / STEP_MS)
        if entry.task_id is not None:
            self.task(step, "succeeded" if outcome == "run" else outcome, entry.decided_at, entry.task_id)
            if outcome == "run":
                self.hit(entry.task_id, entry.decided_at - START + 10)
        return entry

    def task(self, step: float, state: str, at: int, task_id: str | None = None, **fields: Any) -> None:
        """A task of the schedule."""
        picked = at + 5 if state == "succeeded" else None
        given = {"state": state, "picked_at": picked, "completed_at": at + 20, "attempts": int(picked is not None)}
        nominal_at = START + int(step * STEP_MS)
        self.fires.append(Fire(task_id=task_id or f"t{step}", nominal_at=nominal_at, **(given | fields)))

    def hit(self, task_id: str, at_ms: int, took_ms: int = 10, status: int = 200) -> None:
        """A request, answered."""
        self.arrivals.append(Arrival(task_id, START + at_ms, START + at_ms + took_ms, status))

    def fill(self, step: float, at_step: float, was: Entry | None = None, **fields: Any) -> Entry:
        """A backfill lets a time run: one that was never there, or that was decided otherwise."""
        reason = fields.pop("reason", "backfill")
        at = START + int(at_step * STEP_MS)
        if was is not None:
            self.entries.remove(was)
            self.fires = [fire for fire in self.fires if fire.task_id != was.task_id]
            former = Former(was.outcome, was.reason, was.decided_at, was.version)
            fields = {"task_id": was.task_id, "was": former} | fields
        return self.decide(step, "run", reason, **({"decided_at": at} | fields))

    def run(self, *steps: float) -> "Scribe":
        """These ran, each at its time."""
        for step in steps:
            self.decide(step)
        return self

    def edit(self, step: float, **fields: Any) -> None:
        """Another version from here on."""
        last = self.editions[-1]
        changed = {"version": last.version + 1, "at": START + int(step * STEP_MS)} | fields
        self.editions.append(msgspec.structs.replace(last, **changed))

    def outage(self, from_step: float, to_step: float) -> None:
        """Nobody was there."""
        walls = [START + int(step * STEP_MS) for step in (from_step, to_step)]
        self.absences.append(Absence(walls[0], walls[1], walls[1], start=True))

    def beside(self, **fields: Any) -> "Scribe":
        """Another schedule of the same history."""
        other = Scribe(**fields)
        other.name = f"s{len(self.others)}"
        self.others.append(other)
        return other

    def story(self) -> LedgerStory:
        """All that was written down."""
        entries = sorted(self.entries, key=lambda one: one.nominal_at)
        counts = {
            word: sum(one.times for one in entries if one.outcome == word) for word in ("run", "skipped", "missed")
        }
        counts |= self.counts or {}
        failures, paused = self.failures or (None, False)
        book = Book(
            schedule_id=self.name,
            consecutive_failures=failures,
            paused=paused,
            editions=self.editions,
            entries=entries,
            fires=self.fires,
            next_id=self.next_id,
            fired=counts["run"],
            skipped=counts["skipped"],
            missed=counts["missed"],
            failed=sum(one.failed for one in entries),
            lined=self.lined,
            filled=None if self.filled is None else frozenset(START + int(step * STEP_MS) for step in self.filled),
        )
        return LedgerStory(
            books=[book, *(one for other in self.others for one in other.story().books)],
            arrivals=[*self.arrivals, *(one for other in self.others for one in other.arrivals)],
            absences=self.absences,
            clock=self.clock,
            ended_true=START + int(self.now * STEP_MS) + 1_000,
        )
