"""What is known of schedules at the end of a run, simulated or real: what was asked of them, what the store says of
their times, what receivers saw, when nobody was there and how the clock stood. Values only; `ledger` judges them.

Two clocks: `wall` is what the daemon read, `true` is the harness's own, which no step moves.
"""

from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from tests.chaos.nominal import Timing

RUN, SKIPPED, MISSED = "run", "skipped", "missed"
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
    paused: bool = False
    consecutive_failures: int | None = None


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
