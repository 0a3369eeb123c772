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
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tasktick import logs
from tasktick.clock import turns
from tasktick.errors import StoreBroken, StoreError, StoreFull
from tasktick.store.connect import DatabaseError, Link, RawConnection, is_full
from tasktick.store.lanes import GATHERING_TURNS, Job, LaneWriter, answers, lot_of
from tasktick.store.one_step import Apart, OneStep, bound
from tasktick.store.protocol import Alone, Lane
from tasktick.store.sqlite import PartFailed, SqliteTransaction, at_once, in_savepoint, step, write_with

T = TypeVar("T")
log = logs.get("store")

TURN_ROWS_MAX = {Lane.FIRE: 1_000, Lane.CREATE: 500, Lane.UPKEEP: 1}
# A caller that is refused may come again at once: so many transactions after it have marks from the start.
MARKED_AFTER = 100
# Of a batch that was not for one step there is more on its way: so many transactions with it are made in parts.
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
        self._wake_ahead = asyncio.Event()
        # What the connection's thread has to do, or does.
        self._in_turn = 0
        # The fate of something is not known: the connection's thread, which sets it, does nothing more.
        self._unknown = False
        self._rows_in_log = 0
        self._chars_in_log = 0
        # Transactions that are yet to be made with marks between their parts.
        self._marked = 0
        self._lots = Lots()
        self._one_step = OneStep()
        # By the name of a batch, transactions with it that are yet to be made statement by statement.
        self._in_parts: dict[str, int] = {}

    def _woken(self, lane: Lane) -> None:
        if lane is Lane.CREATE:
            self._lots.came()
        self._wake_all()

    async def run(self) -> None:
        """Write until closed; what was queued before the close is still written."""
        await asyncio.gather(self._write_in_turn(), self._write_ahead())

    async def _write_in_turn(self) -> None:
        while self._broken is None:
            if self._in_turn and not self._claim_waits():  # who writes ahead does
                await _cleared(self._wake)
                continue
            if self._log_is_long(CHECKPOINT_BUSY_ROWS, CHECKPOINT_BUSY_CHARS):
                await self._shorten_log()
                continue
            if not self._in_turn:
                await self._gather()
            jobs = self._take(Lane)
            if jobs:
                await self._commit(jobs)
            elif self._closing:
                return
            elif not self._log_is_long(CHECKPOINT_IDLE_ROWS, CHECKPOINT_IDLE_CHARS):
                await _cleared(self._wake)
            elif await self._stays_idle():
                await self._shorten_log()

    async def _write_ahead(self) -> None:
        """Where a claim waits while something is written, hand it on with the ends that wait: its turn comes at once
        then, and not when the event loop has heard of what was before it, settled that, and come back here."""
        while self._broken is None and not self._closing:
            if self._in_turn == 1 and self._claim_waits():
                await self._commit(self._take([Lane.FIRE]))
            else:
                await _cleared(self._wake_ahead)

    def _claim_waits(self) -> bool:
        return any(map(_is_prompt, self._lanes[Lane.FIRE]))

    async def _gather(self) -> None:
        """Let who is on the way come along, unless a claim waits."""
        for _ in range(GATHERING_TURNS):
            if self._claim_waits() or not 0 < self._waiting_rows < FULL_ROWS or self._has_lot():
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
            await self._in_thread(_checkpoint)
        except StoreError as error:
            self._break(error, [])

    async def _in_thread(self, work: Callable[[RawConnection], T]) -> T:
        """Have it done on the connection, in its turn; not behind something whose fate is unknown."""

        def done(raw: RawConnection) -> T:
            if self._unknown:
                raise StoreBroken("What was written before it has failed.")
            try:
                return work(raw)
            except StoreBroken:
                self._unknown = True
                raise

        self._in_turn += 1
        try:
            return await self._link.call(done)
        finally:
            self._in_turn -= 1
            self._wake_all()

    def close(self) -> None:
        """Take nothing more; `run` ends when the queue is empty."""
        self._closing = True
        self._wake_all()

    def _wake_all(self) -> None:
        self._wake.set()
        self._wake_ahead.set()

    def _take(self, lanes: Iterable[Lane]) -> list[Job]:
        """What goes next of these, of each lane as much as is its turn; one claim."""
        taken: list[Job] = []
        for lane in lanes:
            waiting = self._lanes[lane]
            room = TURN_ROWS_MAX[lane]
            share = self._lots.share(len(waiting)) if lane is Lane.CREATE else len(waiting)
            while waiting and room > 0 and share > 0:
                job = waiting[0]
                if job.batch is not None and job.batch.is_prompt and any(one.batch is job.batch for one in taken):
                    break
                waiting.popleft()
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
        parts = self._as_one_step(groups)
        if parts is not None:
            step_parts = [bound(part.query, part.parameters) for part in parts]
            try:
                written = await self._in_thread(lambda raw: self._one_step.write(raw, step_parts))
            except Apart as apart:
                self._not_one_step(groups, parts, apart.query)
            else:
                outcomes = [
                    outcome
                    for group, part, answer in zip(groups, parts, written.answers, strict=True)
                    for outcome in answers(group, part.results if part.read is None else part.read(answer))
                ]
                return outcomes, sum(part.chars for part in step_parts), written.changes
        return await self._in_thread(lambda raw: self._write(raw, groups))

    def _as_one_step(self, groups: list[list[Job]]) -> list[Alone] | None:
        """What these jobs write, if that can be one step: put together here, where what they bring is at hand."""
        batches = [group[0].batch for group in groups]
        if not all(batch is not None and batch.alone is not None for batch in batches):
            return None
        names = [batch.name for batch in batches if batch is not None]
        waits = [name for name in names if self._in_parts.get(name)]
        for name in waits:
            self._in_parts[name] -= 1
        if waits:
            return None
        parts: list[Alone] = []
        for group in groups:
            batch = group[0].batch
            assert batch is not None
            assert batch.alone is not None
            part = batch.alone([item for job in group for item in job.items])
            if part is None:
                return None
            parts.append(part)
        return parts

    def _not_one_step(self, groups: list[list[Job]], parts: list[Alone], query: str) -> None:
        for group, part in zip(groups, parts, strict=True):
            if part.query == query and group[0].batch is not None:
                self._in_parts[group[0].batch.name] = IN_PARTS_AFTER

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
        if self._broken is not None:  # it was on its way when that was found out
            self._settle(jobs, [self._broken] * len(jobs))
            return
        self._broken = error
        waiting = [job for lane in self._lanes.values() for job in lane]
        for lane in self._lanes.values():
            lane.clear()
        self._settle(jobs + waiting, [error] * (len(jobs) + len(waiting)))
        self._wake_all()
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
    try:
        raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except DatabaseError as error:
        if not is_full(error):
            raise StoreBroken(f"A checkpoint failed and its fate is unknown: {error}") from error
        log.warning("checkpoint_waits_for_disk", error=str(error))


async def _cleared(event: asyncio.Event) -> None:
    """Wait for what comes from now on."""
    event.clear()
    await event.wait()


def _is_prompt(job: Job) -> bool:
    return job.batch is None or job.batch.is_prompt
