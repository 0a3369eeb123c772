"""The one way into a SQLite store: whoever waits together commits together.

Jobs queue in lanes (claims and completions, creates, upkeep). While a transaction commits, the next one
gathers; then it takes from each lane in turn, up to a bound, and everything in it shares one synced commit. Many who
create go in two lots (`Lots`): while one is written, the other is answered and comes again.
A batch that fails is split until the bad item stands alone, so that one bad row fails by itself. A transaction is first
made without marks between its parts: each would be two statements more, and each statement hands the interpreter's lock
over. Where a part has to be undone, all of it is made again with them, and so are those that follow for a while.
A full disk refuses what waits and recovers by itself; a commit or a checkpoint whose fate is unknown ends the
writer: nothing is written after it.

An operation may run twice, when another of its transaction is refused, or that is rolled back and split: it must not
keep what it did outside the transaction.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from tasktick import logs
from tasktick.clock import turns
from tasktick.errors import StoreBroken, StoreError, StoreFull
from tasktick.store.connect import DatabaseError, Link, RawConnection, is_full
from tasktick.store.lanes import GATHERING_TURNS, Job, LaneWriter, answers, lot_of
from tasktick.store.one_step import OneStep, bound
from tasktick.store.protocol import Alone, Lane
from tasktick.store.sqlite import PartFailed, SqliteTransaction, at_once, in_savepoint, step, write_with

log = logs.get("store")

TURN_ROWS_MAX = {Lane.FIRE: 1_000, Lane.CREATE: 500, Lane.UPKEEP: 1}
# A caller that is refused may come again at once: so many transactions after it have marks from the start.
MARKED_AFTER = 100
# In one step nothing was written, since a tenant has a quota: others of it are on their way.
IN_PARTS_AFTER = 100
# So long the event loop takes for a caller whom it answers and hears again, some 40 us, and a thread for his rows.
ANSWERED_SECONDS = 0.00005
# How much the last commit counts of what commits take.
NEWEST_COUNTS = 0.1
# As many fill a commit: nothing is waited for then.
FULL_ROWS = TURN_ROWS_MAX[Lane.CREATE]
# After so much an idle moment is used to move the log into the file; after more, it is done without one. Who waits for
# a claim meanwhile must not notice: 20,000 rows take 30 ms or 50, and what is claimed ahead of its time lasts for 15.
CHECKPOINT_IDLE_SECONDS = 0.02
CHECKPOINT_IDLE_ROWS = 2_000
CHECKPOINT_IDLE_CHARS = 8_388_608
CHECKPOINT_BUSY_ROWS = 4_000
CHECKPOINT_BUSY_CHARS = 16_777_216


class Lots:
    """How many of those who create share a commit.

    Left to themselves, all who call and wait for their answer fall into step: they are written in one commit, while the
    event loop has nothing to do, and then answered and heard, while the store has nothing to do. As two lots, each is
    written while the other is answered. That is worth a second sync where a commit takes no longer than it takes to
    answer and hear all of them: on a slow disk they go together.
    """

    def __init__(self) -> None:
        # Callers of the last commit, and who has come since it was answered: the same ones, as far as anybody can tell.
        self._last = 0
        self._since = 0
        # What a commit took of late.
        self._seconds = 0.0

    def came(self) -> None:
        """Somebody waits."""
        self._since += 1

    def wrote(self, callers: int, seconds: float) -> None:
        """So many are answered, whom it took so long to write."""
        self._last, self._since = callers, 0
        if callers:
            self._seconds += (seconds - self._seconds) * NEWEST_COUNTS

    def share(self, waiting: int) -> int:
        """How many go now, if so many wait: half of all, those who will soon come again among them."""
        callers = waiting + max(0, self._last - self._since)
        return lot_of(callers) if self._seconds <= callers * ANSWERED_SECONDS else max(callers, 1)


class SqliteWriter(LaneWriter):
    """Queues jobs and runs them, transaction after transaction, on one connection."""

    def __init__(self, link: Link, crash: Callable[[BaseException], None]) -> None:
        super().__init__()
        self._link = link
        self._crash = crash
        self._wake = asyncio.Event()
        self._rows_in_log = 0
        self._chars_in_log = 0
        # Transactions that are yet to be made with marks between their parts.
        self._marked = 0
        self._lots = Lots()
        self._one_step = OneStep()
        # Transactions that are yet to be made statement by statement.
        self._in_parts = 0

    def _woken(self, lane: Lane) -> None:
        if lane is Lane.CREATE:
            self._lots.came()
        self._wake.set()

    async def run(self) -> None:
        """Write until closed; what was queued before the close is still written."""
        while self._broken is None:
            if self._log_is_long(CHECKPOINT_BUSY_ROWS, CHECKPOINT_BUSY_CHARS):
                await self._shorten_log()
                continue
            await self._gather()
            jobs = self._take()
            if jobs:
                await self._commit(jobs)
            elif self._closing:
                return
            elif not self._log_is_long(CHECKPOINT_IDLE_ROWS, CHECKPOINT_IDLE_CHARS):
                self._wake.clear()
                await self._wake.wait()
            elif await self._stays_idle():
                await self._shorten_log()

    async def _gather(self) -> None:
        """Let who is on the way come along, unless a claim waits: it is large by itself, and calls wait for it."""
        for _ in range(GATHERING_TURNS):
            claim_waits = any(job.batch is None for job in self._lanes[Lane.FIRE])
            if claim_waits or not 0 < self._waiting_rows < FULL_ROWS or self._has_lot():
                return
            await turns(1)

    def _has_lot(self) -> bool:
        """Whether as many wait to create as go at once."""
        waiting = len(self._lanes[Lane.CREATE])
        return waiting >= self._lots.share(waiting)

    async def _stays_idle(self) -> bool:
        """Whether nobody comes for a moment: who is between two calls would wait for the whole log."""
        self._wake.clear()
        timer = asyncio.get_running_loop().call_later(CHECKPOINT_IDLE_SECONDS, self._wake.set)
        await self._wake.wait()
        timer.cancel()
        return not self._waiting_rows and not self._closing

    def _log_is_long(self, rows: int, chars: int) -> bool:
        return self._rows_in_log > rows or self._chars_in_log > chars

    async def _shorten_log(self) -> None:
        """Move the log into the file. A sync that fails here may have lost what was acknowledged long ago."""
        self._rows_in_log = self._chars_in_log = 0
        try:
            await self._link.call(_checkpoint)
        except DatabaseError as error:
            if is_full(error):
                log.warning("checkpoint_waits_for_disk", error=str(error))
            else:
                self._break(StoreBroken(f"A checkpoint failed and its fate is unknown: {error}"), [])

    def close(self) -> None:
        """Take nothing more; `run` ends when the queue is empty."""
        self._closing = True
        self._wake.set()

    def _take(self) -> list[Job]:
        taken: list[Job] = []
        for lane, waiting in self._lanes.items():
            room = TURN_ROWS_MAX[lane]
            share = self._lots.share(len(waiting)) if lane is Lane.CREATE else len(waiting)
            while waiting and room > 0 and share > 0:
                job = waiting.popleft()
                if job.future.cancelled():
                    self._waiting_rows -= job.rows
                    continue
                room -= job.rows
                share -= 1
                taken.append(job)
        return taken

    async def _commit(self, jobs: list[Job]) -> None:
        if self._broken is not None:
            self._settle(jobs, [self._broken] * len(jobs))
            return
        groups = _grouped(jobs)
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            outcomes, chars, changes = await self._written(groups)
        except StoreError as error:
            self.full = isinstance(error, StoreFull)
            if isinstance(error, StoreBroken):
                self._break(error, jobs)
            else:
                self._settle(jobs, [error] * len(jobs))
        except Exception as error:  # noqa: BLE001 - a row's fault: found by halving, given to its caller
            await self._halve(jobs, error, self._commit)
        else:
            self.full = self.full and not changes  # a commit of nothing finds room on any disk
            self.commits += 1
            self._rows_in_log += sum(job.rows for job in jobs)
            self._chars_in_log += chars
            self._lots.wrote(sum(job.lane is Lane.CREATE for job in jobs), clock() - began)
            self._settle([job for group in groups for job in group], outcomes)
            self.committed()

    async def _written(self, groups: list[list[Job]]) -> tuple[list[Any], int, int]:
        """An outcome for each job in order, characters bound, rows changed; in one step, if these can be that."""
        alone = self._alone(groups)
        if alone is not None:
            whole = bound(alone.query, alone.parameters)
            changes = await self._link.call(lambda raw: self._one_step.write(raw, whole))
            if changes:
                return answers(groups[0], alone.results), whole.chars, changes
            self._in_parts = IN_PARTS_AFTER
        return await self._link.call(lambda raw: self._write(raw, groups))

    def _alone(self, groups: list[list[Job]]) -> Alone | None:
        """What these jobs write, if that can be one step: put together here, where what they bring is at hand."""
        batch = groups[0][0].batch
        if len(groups) > 1 or batch is None or batch.alone is None:
            return None
        if self._in_parts:
            self._in_parts -= 1
            return None
        return batch.alone([item for job in groups[0] for item in job.items])

    def _write(self, raw: RawConnection, groups: list[list[Job]]) -> tuple[list[Any], int, int]:
        """Run every group in one transaction. It is the connection's thread that does."""
        if not self._marked:
            try:
                return write_with(raw, lambda tx: _run(raw, tx, groups, marks=False))
            except PartFailed:
                self._marked = MARKED_AFTER
        self._marked -= 1
        return write_with(raw, lambda tx: _run(raw, tx, groups, marks=True))

    def _break(self, error: StoreError, jobs: list[Job]) -> None:
        """Nothing is known any more: refuse everything and end the process."""
        self._broken = error
        waiting = [job for lane in self._lanes.values() for job in lane]
        for lane in self._lanes.values():
            lane.clear()
        self._settle(jobs + waiting, [error] * (len(jobs) + len(waiting)))
        self._crash(error)


def _grouped(jobs: list[Job]) -> list[list[Job]]:
    """Jobs of one batch together, so that they are one statement; the order of lanes stays."""
    groups: dict[object, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.batch.name if job.batch else id(job), []).append(job)
    return list(groups.values())


def _run(
    raw: RawConnection, tx: SqliteTransaction, groups: list[list[Job]], *, marks: bool
) -> tuple[list[Any], int, int]:
    """Run every group in the open transaction: an outcome for each job in order, characters bound, rows changed."""
    tx.has_marks = marks
    outcomes: list[Any] = []
    changes_before = raw.total_changes
    for group in groups:
        first = group[0]
        if first.batch is None:
            assert first.operation is not None
            outcomes.append((in_savepoint if marks else at_once)(raw, tx, first.operation))
            continue
        items = [item for job in group for item in job.items]
        results = step(first.batch.operation(tx, items))
        assert len(results) == len(items), f"{first.batch.name} must answer each item"
        outcomes += answers(group, results)
    return outcomes, tx.bound_chars, raw.total_changes - changes_before


def _checkpoint(raw: RawConnection) -> None:
    """Move what the log holds into the file, as far as no reader stands in the way."""
    raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
