"""The one way into a SQLite store: whoever waits together commits together.

Jobs queue in lanes (claims and completions, creates, upkeep). While a transaction commits, the next one
gathers; then it takes from each lane in turn, up to a bound, and everything in it shares one synced commit. Many who
create go in two lots (`Lots`): while one is written, the other is answered and comes again. A claim is handed on, with
the ends that wait, while the commit before it is under way; and where nobody else waits, so is a lot that is complete,
or a slice of a large batch. A claim that comes behind two of those is next, and without further creates.

What is written most is one step for all who share a commit (`one_step`): a statement that is a transaction by itself.
Where there is anything else, or a part of it turns out to need more, it is a transaction of the operations of all. A
transaction is first made without marks between its parts: each would be two statements more, and each statement hands
the interpreter's lock over. Where a part has to be undone, all of it is made again with them, and so are those that
follow for a while.

A batch that fails is split until the bad item stands alone, so that one bad row fails by itself. A full disk refuses
what waits and recovers by itself; a commit or a checkpoint whose fate is unknown ends the writer: nothing is written
after it.

An operation may run twice, when another of its transaction is refused, or that is rolled back and split: it must not
keep what it did outside the transaction.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from tasktick import logs
from tasktick.clock import turns
from tasktick.errors import StoreBroken, StoreError, StoreFull
from tasktick.store.connect import DatabaseError, Link, RawConnection, is_full
from tasktick.store.lanes import GATHERING_TURNS, Job, LaneWriter, answers
from tasktick.store.lots import Lots
from tasktick.store.one_step import Apart, OneStep, bound
from tasktick.store.protocol import Alone, Batch, Lane
from tasktick.store.sqlite import PartFailed, SqliteTransaction, at_once, in_savepoint, step, write_with

T = TypeVar("T")
log = logs.get("store")

TURN_ROWS_MAX = {Lane.FIRE: 1_000, Lane.CREATE: 500, Lane.UPKEEP: 1}
# A caller that is refused may come again at once: so many transactions after it have marks from the start.
MARKED_AFTER = 100
# Of a batch that was not for one step there is more on its way: so many transactions with it are made in parts.
IN_PARTS_AFTER = 100
# As many fill a commit: nothing is waited for then.
FULL_ROWS = TURN_ROWS_MAX[Lane.CREATE]
# After so much an idle moment is used to move the log into the file; after more, it is done without one. Who waits for
# a claim meanwhile must not notice: 20,000 rows take 30 ms or 50, and what is claimed ahead of its time lasts for 15.
CHECKPOINT_IDLE_SECONDS = 0.02
CHECKPOINT_IDLE_ROWS = 2_000
CHECKPOINT_IDLE_CHARS = 8_388_608
CHECKPOINT_BUSY_ROWS = 4_000
CHECKPOINT_BUSY_CHARS = 16_777_216


class Group(msgspec.Struct):
    """Jobs that are one statement: those of a batch; an operation is one by itself."""

    batch: Batch | None
    jobs: list[Job]

    @property
    def name(self) -> str:
        """What its batch is called."""
        return "" if self.batch is None else self.batch.name

    @property
    def items(self) -> list[Any]:
        """Those of all jobs, in order."""
        return [item for job in self.jobs for item in job.items]


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
        # Who creates and is being written.
        self._creating = 0
        # When the connection's thread was heard of last, and how long it had been at work on that.
        self._ended = self._took = 0.0
        self._one_step = OneStep()
        # By the name of a batch, transactions with it that are yet to be made statement by statement.
        self._in_parts: dict[str, int] = {}

    def _woken(self, lane: Lane) -> None:
        if lane is Lane.CREATE:
            self._lots.came()
        self._wake.set()
        self._wake_ahead.set()

    async def run(self) -> None:
        """Write until closed; what was queued before the close is still written."""
        await asyncio.gather(self._write_in_turn(), self._write_ahead())

    async def _write_in_turn(self) -> None:
        """Write all that waits, one commit after the other."""
        while self._broken is None:
            if self._in_turn and not self._claim_waits():
                await _cleared(self._wake)
                continue
            if self._log_is_long(CHECKPOINT_BUSY_ROWS, CHECKPOINT_BUSY_CHARS):
                await self._shorten_log()
                continue
            if not self._in_turn:
                await self._gather()
            # A claim for which there was no room ahead waits for no more creates than are on their way.
            jobs = self._take([Lane.FIRE, Lane.UPKEEP] if self._creating else Lane)
            if jobs:
                await self._commit(jobs)
            elif self._in_turn:  # the claim was taken back
                continue
            elif self._closing:
                return
            elif not self._log_is_long(CHECKPOINT_IDLE_ROWS, CHECKPOINT_IDLE_CHARS):
                await _cleared(self._wake)
            elif await self._stays_idle():
                await self._shorten_log()

    async def _write_ahead(self) -> None:
        """Hand on what is to be next while something is written: its turn comes at once then, and not when the event
        loop has heard of what was before it, settled that, and come back here."""
        while self._broken is None and not self._closing:
            jobs = self._next() if self._in_turn == 1 else []
            if jobs:
                await self._commit(jobs)
            else:  # it may be that the claim that waited was taken back
                await _cleared(self._wake_ahead)

    def _next(self) -> list[Job]:
        """A claim with the ends that wait; where nobody waits but who creates, as many of those as go at once."""
        if self._claim_waits():
            return self._take([Lane.FIRE])
        others = self._lanes[Lane.FIRE] or self._lanes[Lane.UPKEEP]
        is_long = self._log_is_long(CHECKPOINT_BUSY_ROWS, CHECKPOINT_BUSY_CHARS)
        return [] if others or is_long or not (self._has_lot() or self._has_slice()) else self._take([Lane.CREATE])

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
        return waiting >= self._lots.share(waiting, self._creating)

    def _has_slice(self) -> bool:
        """Whether a slice is next that is more than a turn: it was made so since nothing is about to start."""
        creates = self._lanes[Lane.CREATE]
        return bool(creates) and creates[0].rows > TURN_ROWS_MAX[Lane.CREATE]

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

        clock = asyncio.get_running_loop().time
        began = clock()
        self._in_turn += 1
        try:
            return await self._link.call(done)
        finally:
            self._in_turn -= 1
            began, self._ended = max(began, self._ended), clock()
            self._took = self._ended - began
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
            share = self._lots.share(len(waiting), self._creating) if lane is Lane.CREATE else len(waiting)
            while waiting and room > 0 and share > 0:
                job = waiting[0]
                if job.batch is not None and job.batch.is_prompt and any(one.batch is job.batch for one in taken):
                    break
                if lane is Lane.CREATE and room < min(job.rows, TURN_ROWS_MAX[lane]):  # it is one by itself
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
        callers = sum(job.lane is Lane.CREATE for job in jobs)
        self._creating += callers
        try:
            try:
                outcomes, chars, changes = await self._written(groups)
            finally:
                self._creating -= callers
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
            if callers:
                self._lots.wrote(callers, self._took)
            self._settle([job for group in groups for job in group.jobs], outcomes)
            self.committed()

    async def _written(self, groups: list[Group]) -> tuple[list[Any], int, int]:
        """An outcome for each job in order, characters bound, rows changed; in one step, if these can be that.

        What turns out to be none is made in parts, behind what has been handed on meanwhile.
        """
        parts = self._as_one_step(groups)
        if parts is not None:
            step_parts = [bound(part.query, part.parameters) for part in parts]
            try:
                written = await self._in_thread(lambda raw: self._one_step.write(raw, step_parts))
            except Apart as apart:
                for group, part in zip(groups, parts, strict=True):
                    if part.query == apart.query:
                        self._in_parts[group.name] = IN_PARTS_AFTER
            else:
                outcomes = [
                    outcome
                    for group, part, answer in zip(groups, parts, written.answers, strict=True)
                    for outcome in answers(group.jobs, _read(group, part, answer))
                ]
                return outcomes, sum(part.chars for part in step_parts), written.changes
        return await self._in_thread(lambda raw: self._write(raw, groups))

    def _as_one_step(self, groups: list[Group]) -> list[Alone] | None:
        """What these jobs write, if that can be one step: put together here, where what they bring is at hand."""
        found = [self._maker(group) for group in groups]
        makers = [maker for maker in found if maker is not None]
        if len(makers) < len(groups):
            return None
        made = [maker(group.items) for maker, group in zip(makers, groups, strict=True)]
        parts = [part for part in made if part is not None]
        return parts if len(parts) == len(groups) else None

    def _maker(self, group: Group) -> Callable[[list[Any]], Alone | None] | None:
        """What makes a single statement of these, if that is to be tried."""
        left = self._in_parts.get(group.name, 0)
        if left:
            self._in_parts[group.name] = left - 1
            return None
        return None if group.batch is None else group.batch.alone

    def _write(self, raw: RawConnection, groups: list[Group]) -> tuple[list[Any], int, int]:
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


def _grouped(jobs: list[Job]) -> list[Group]:
    """Jobs of one batch together, so that they are one statement; the order of lanes stays."""
    groups: dict[object, Group] = {}
    for job in jobs:
        key = job.batch.name if job.batch else id(job)
        if key in groups:
            groups[key].jobs.append(job)
        else:
            groups[key] = Group(job.batch, [job])
    return list(groups.values())


def _read(group: Group, part: Alone, answer: Any) -> list[Any]:
    """The results of what is committed. Whoever's cannot be read hears of that, and nobody else."""
    if part.read is None:
        return part.results
    try:
        return part.read(answer)
    except Exception as error:  # noqa: BLE001 - it is written: nothing of it may be tried again
        return [error] * len(group.items)


def _run(raw: RawConnection, tx: SqliteTransaction, groups: list[Group], *, marks: bool) -> tuple[list[Any], int, int]:
    """Run every group in the open transaction: an outcome for each job in order, characters bound, rows changed."""
    tx.has_marks = marks
    outcomes: list[Any] = []
    changes_before = raw.total_changes
    for group in groups:
        if group.batch is None:
            [job] = group.jobs
            assert job.operation is not None
            outcomes.append((in_savepoint if marks else at_once)(raw, tx, job.operation))
            continue
        items = group.items
        results = step(group.batch.operation(tx, items))
        assert len(results) == len(items), f"{group.batch.name} must answer each item"
        outcomes += answers(group.jobs, results)
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
