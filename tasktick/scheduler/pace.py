"""How decisions about schedules are spread over time: what is about to start goes first. Pure.

A fire starts without a decision about it; what follows it (the line in the ledger, the next fire) can wait a moment.
So while something is about to start, a round is small, and most of the time after it is left to claims: ten thousand
schedules that are due in one second start as tasks do, and are written down behind them. That ends where a decision has
waited too long, or where there were schedules lately that cannot wait: whose fires start by a decision alone, or that
fire again so soon that the next would come late for it. While nothing is about to start, rounds are large: rows of many
schedules share pages only where they are written together.
"""

SCHEDULES_MAX = 250
ROWS_MAX = 1_500
# No more than a batch of the store's: those of a line are written together.
QUIET_SCHEDULES_MAX = 500
QUIET_ROWS_MAX = 2_500
# Where fires come closer than this, their schedules are decided about together: a transaction each would cost more
# than all that is written in it.
ROUND_EVERY_MS = 25
# Of the time, so many parts for one of ours.
LEFT_TO_STARTS = 3
WAITS_MAX_MS = 1_000
HURRIED_MS = 60_000


class Pace:
    """How large a round is, and how long to rest after it."""

    def __init__(self) -> None:
        self.schedules_max = SCHEDULES_MAX
        self.rows_max = ROWS_MAX
        # More is due already than this round decides about.
        self.is_behind = False
        self._waited_ms = 0
        # Until then there may be schedules that cannot wait.
        self._hurried_until = 0

    def begin(self, *, pressed: bool) -> None:
        """A round begins, while something is about to start or nothing is."""
        self.schedules_max = SCHEDULES_MAX if pressed else QUIET_SCHEDULES_MAX
        self.rows_max = ROWS_MAX if pressed else QUIET_ROWS_MAX

    def found(self, count: int, waited_ms: int) -> None:
        """It has found so many, the oldest of which has waited for so long."""
        self.is_behind = count >= self.schedules_max
        self._waited_ms = waited_ms

    def comes_again(self, look_at: int, now: int) -> None:
        """The first of those that it has decided about wants to be looked at again then."""
        self.is_behind = self.is_behind or look_at <= now
        if look_at <= now + 2 * WAITS_MAX_MS:
            self.hurry(now)

    def hurry(self, now: int) -> None:
        """There was one that cannot wait, and it comes again."""
        self._hurried_until = now + HURRIED_MS

    def rest_ms(self, took_ms: float, now: int, *, pressed: bool) -> float:
        """How long to rest after a round that took so long."""
        left_ms = ROUND_EVERY_MS - took_ms
        if pressed and self._waited_ms < WAITS_MAX_MS and self._hurried_until <= now:
            # A round that took long, since the store did, is no reason to let what comes behind it wait for longer.
            return max(min(LEFT_TO_STARTS * took_ms, WAITS_MAX_MS), left_ms)
        return 0 if self.is_behind else max(left_ms, 0)
