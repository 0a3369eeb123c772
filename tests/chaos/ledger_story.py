"""What is known of schedules at the end of a run, simulated or real: what was asked of them, what the store says of
their times, what receivers saw, when nobody was there and how the clock stood. Values only; `ledger` judges them.

Two clocks: `wall` is what the daemon read, `true` is the harness's own, which no step moves.
"""

from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from tests.chaos.nominal import Timing

RUN, SKIPPED, MISSED = "run", "skipped", "missed"
# Reasons of what ran after all, by somebody's wish.
BACKFILL, RUN_LATER = "backfill", "run_later"
# Said of what a backfill let run: that it runs, or how it ended before it began.
BY_BACKFILL = frozenset({BACKFILL, f"cancelled:{BACKFILL}", f"expired:{BACKFILL}"})
# A loop reads its clock, then the store: what is a little later by the clock may have come first.
ORDER_SLACK_MS = 100


class Edition(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule from one version of it on, as it was asked for."""

    version: int
    at: int
    """The daemon's clock as it became so."""
    timing: Timing
    overlap: str = "skip"
    mode: str = "latest"
    window_ms: int | None = None
    max_runs: int = 100
    start_at: int | None = None
    end_at: int | None = None
    max_fires: int | None = None
    jitter_ms: int = 0
    overlap_key: str | None = None
    pause_on_failures: int | None = None
    paused: bool = False
    paused_until: int | None = None
    deleted: bool = False
    by_failures: bool = False
    """It became so by itself."""


class Former(msgspec.Struct, frozen=True):
    """What had been decided about a time that ran later."""

    outcome: str
    reason: str | None
    decided_at: int
    schedule_version: int


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the ledger."""

    nominal_at: int
    outcome: str
    version: int
    decided_at: int
    local_ms: int
    reason: str | None = None
    task_id: str | None = None
    collapsed: int = 1
    missed: int = 0
    until_at: int | None = None
    times: int = 1
    was: Former | None = None
    failed: bool = False
    read_later: bool = False
    """Whether its reading is by the rule of a version that is not told here, as it ran later."""

    @property
    def in_course(self) -> "Entry | None":
        """As it was decided when its time came; None if a backfill has put it where nothing was."""
        first = self.at_first
        return None if first.reason in BY_BACKFILL else first

    @property
    def at_first(self) -> "Entry":
        """As its time was decided before it ran later."""
        was = self.was
        if was is None:
            return self
        return msgspec.structs.replace(
            self,
            outcome=was.outcome,
            reason=was.reason,
            decided_at=was.decided_at,
            version=was.schedule_version,
            was=None,
            read_later=True,
        )

    @property
    def last_at(self) -> int:
        """The last time that it decides."""
        return self.nominal_at if self.until_at is None else self.until_at

    @property
    def word(self) -> str:
        """Outcome and reason."""
        return self.outcome if self.reason is None else f"{self.outcome}({self.reason})"


class Fire(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a schedule, as it stands at the end."""

    task_id: str
    nominal_at: int
    state: str
    attempts: int = 0
    picked_at: int | None = None
    """When the first of its attempts was claimed."""
    completed_at: int | None = None
    triggered: bool = False
    beside: bool = False
    """Whether somebody wished it, beside what its schedule lets run at its times."""


class Arrival(msgspec.Struct, frozen=True):
    """A complete request at a receiver. `until`: when it was answered, if somebody was there to read it."""

    task_id: str
    true: int
    until: int | None = None
    status: int | None = None


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule at the end."""

    schedule_id: str
    editions: list[Edition]
    entries: list[Entry]
    fires: list[Fire]
    next_id: str | None = None
    fired: int = 0
    skipped: int = 0
    missed: int = 0
    failed: int = 0
    lined: bool = False
    """Whether all that was filled in was to run one after the other."""
    filled: frozenset[int] | None = None
    """The times that backfills were let put in where nothing was, if somebody has noted them."""
    paused: bool = False
    consecutive_failures: int | None = None

    @property
    def course(self) -> "Book":
        """The same as far as times were decided when they came."""
        entries = [entry.in_course for entry in self.entries]
        later = {entry.task_id for entry in self.entries if entry.reason in {BACKFILL, RUN_LATER}}
        fires = [msgspec.structs.replace(fire, beside=fire.task_id in later) for fire in self.fires]
        return msgspec.structs.replace(self, entries=[entry for entry in entries if entry is not None], fires=fires)


class Absence(msgspec.Struct, frozen=True):
    """Nobody decided about times between two readings of the daemon's clock; `true` is when that was over.

    A `sure` one is long enough and whole: policy must apply. Another one may have been noticed, or not.
    """

    from_wall: int
    to_wall: int
    true: int
    sure: bool = True
    start: bool = False
    """Whether it ended with the start of a process, which forgets what the one before it knew."""


class LedgerStory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the checker knows."""

    books: list[Book]
    arrivals: list[Arrival]
    absences: list[Absence]
    clock: list[tuple[int, int]]
    """From which true time on the daemon's clock was how far ahead of it, in order."""
    deaths: list[int] = []
    """When processes ended, in true time."""
    ended_true: int
    missed_after_ms: int = 60_000
    slack_ms: int = 3_000
    commit_ms: int = 0
    """How long after it was known an end may have become durable."""
    settled: bool = True
    """Whether a process was there in the end, with nothing left to do."""

    def wall(self, true: int) -> int:
        """What the daemon's clock read."""
        place = max(bisect_right(self.clock, (true, 1 << 62)) - 1, 0)
        return true + self.clock[place][1]

    def trues(self, wall: int) -> Iterator[int]:
        """When the daemon's clock read this: never, once, or several times."""
        for place, (begin, offset) in enumerate(self.clock):
            end = self.clock[place + 1][0] if place + 1 < len(self.clock) else self.ended_true
            if begin - self.slack_ms <= wall - offset <= end + self.slack_ms:
                yield wall - offset

    def may_precede(self, first_wall: int, second_wall: int, slack_ms: int = ORDER_SLACK_MS) -> bool:
        """Whether one reading may have come before another, or about with it."""
        firsts, seconds = list(self.trues(first_wall)), list(self.trues(second_wall))
        if not firsts or not seconds:
            return True
        return min(firsts) <= max(seconds) + slack_ms

    def latest_wall(self, true: int) -> int:
        """The latest that the daemon's clock had read by then: what was due once may start, wherever it is set to."""
        ends = [begin - 1 + self.clock[place][1] for place, (begin, _) in enumerate(self.clock[1:]) if begin <= true]
        return max([*ends, self.wall(true)])

    def came_again(self, wall: int, after_true: int, until_true: int) -> bool:
        """Whether a clock set back between two instants has brought a reading once more."""
        return any(after_true < begin <= until_true and begin + offset < wall for begin, offset in self.clock)
