"""What writers share: jobs that wait in lanes, those of one batch as one, and a bad item that fails alone."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import msgspec

from tasktick import logs
from tasktick.errors import StoreBroken, StoreError
from tasktick.store.protocol import Batch, Lane, Operation

T = TypeVar("T")
log = logs.get("store")

WAITING_MAX = 50_000
# Before a commit the event loop goes round so often: so long is the way from a socket to here, and whoever is on it
# comes along. With 32 callers there are half as many commits for it; a loop that has nothing to do goes round in no
# time.
GATHERING_TURNS = 4
# Creates of no more callers share a transaction: to part them would cost more than it saves.
TOGETHER = 16


def lot_of(callers: int, lots: int = 2) -> int:
    """How many of so many who create share a commit, of which there are so many at a time."""
    return TOGETHER if callers <= TOGETHER else -(-callers // lots)


class Listener:
    """Who waits for one item in no task: it is called with its result, or with the error."""

    __slots__ = ("told",)

    def __init__(self, told: Callable[[Any], None]) -> None:
        self.told = told

    def cancelled(self) -> bool:
        """It is never taken back."""
        return False


class Job(msgspec.Struct):
    """What one caller waits for."""

    future: asyncio.Future[Any] | Listener
    lane: Lane
    operation: Operation[Any] | None = None
    batch: Batch | None = None
    items: list[Any] = []
    rows: int = 1


def _nobody() -> None:
    return


class LaneWriter:
    """Queues jobs; who inherits takes them from their lanes, commits them, and settles them."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, deque[Job]] = {lane: deque() for lane in Lane}
        self._waiting_rows = 0
        self._closing = False
        self._broken: StoreError | None = None
        self.commits = 0
        # Called after each commit: a hint for whoever follows what is written.
        self.committed: Callable[[], None] = _nobody
        # The last write found no room on the disk; the next one that does says so.
        self.full = False

    @property
    def waiting_rows(self) -> int:
        """Rows in the queue: past a bound the door says 503."""
        return self._waiting_rows

    @property
    def overloaded(self) -> bool:
        """Whether creates should be refused for now."""
        return self._waiting_rows >= WAITING_MAX

    @property
    def broken(self) -> bool:
        """Whether the fate of something written is unknown, so that nothing more is."""
        return self._broken is not None

    async def write(self, operation: Operation[T], lane: Lane = Lane.CREATE) -> T:
        """Run one caller's operation; returns after the commit."""
        return cast(T, await self._queue(Job(self._future(), lane, operation=operation)))

    async def write_batch(self, batch: Batch, items: list[Any]) -> list[Any]:
        """Run a batch's operation over these items, with those of others; an item's own failure is its result.

        It raises where nothing was written; where only some of it was, the error is the result of the rest.
        """
        if not items:
            return []
        if len(items) <= batch.rows_max:
            return cast(list[Any], await self._queue(self._job(batch, items)))
        slices = [items[at : at + batch.rows_max] for at in range(0, len(items), batch.rows_max)]
        jobs = [self._job(batch, part) for part in slices]
        outcomes = await asyncio.gather(*(self._queue(job) for job in jobs), return_exceptions=True)
        joined = _joined(jobs, outcomes)
        if isinstance(joined, BaseException):
            raise joined
        return joined

    def begin(self, batch: Batch, item: Any, told: Callable[[Any], None]) -> None:
        """Write one item of a batch with those of others; its result, or the error, is told when it is committed."""
        rows = 1 if batch.rows_of is None else batch.rows_of(item)
        self._submit(Job(Listener(told), batch.lane, None, batch, [item], rows))

    def _job(self, batch: Batch, items: list[Any]) -> Job:
        rows = len(items) if batch.rows_of is None else sum(map(batch.rows_of, items))
        return Job(self._future(), batch.lane, None, batch, items, rows)

    def _future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    def _queue(self, job: Job) -> asyncio.Future[Any]:
        self._submit(job)
        return cast("asyncio.Future[Any]", job.future)

    def _submit(self, job: Job) -> None:
        if self._broken is not None or self._closing:
            self._waiting_rows += job.rows
            self._settle([job], [self._broken or StoreError("The store is closing.")])
        else:
            self._lanes[job.lane].append(job)
            self._waiting_rows += job.rows
            self._woken(job.lane)

    def _woken(self, lane: Lane) -> None:
        """A job waits in this lane."""
        raise NotImplementedError

    async def _halve(self, jobs: list[Job], error: Exception, commit: Callable[[list[Job]], Awaitable[None]]) -> None:
        """Commit what is left in halves, until the one that is at fault stands alone."""
        if len(jobs) > 1:
            middle = len(jobs) // 2
            await commit(jobs[:middle])
            await commit(jobs[middle:])
            return
        job = jobs[0]
        if job.batch is None or len(job.items) == 1:
            log.warning("write_failed", batch=job.batch.name if job.batch else None, error=str(error))
            self._settle(jobs, [[error] if job.batch else error])
            return
        middle = len(job.items) // 2
        halves = [self._job(job.batch, part) for part in (job.items[:middle], job.items[middle:])]
        self._waiting_rows += job.rows
        for half in halves:
            await commit([half])
        # Every one has settled.
        waits = [cast("asyncio.Future[Any]", half.future) for half in halves]
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        self._settle([job], [_joined(halves, outcomes)])

    def _settle(self, jobs: list[Job], outcomes: list[Any]) -> None:
        """Tell everybody what has come of it: from within nobody but the event loop."""
        heard: list[tuple[Callable[[Any], None], Any]] = []
        for job, outcome in zip(jobs, outcomes, strict=True):
            self._waiting_rows -= job.rows
            future = job.future
            if isinstance(future, Listener):
                heard.append((future.told, outcome if isinstance(outcome, BaseException) else outcome[0]))
            elif future.done():
                continue
            elif isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        if heard:
            loop = asyncio.get_running_loop()
            loop.call_soon(_tell, heard, loop)


def _tell(heard: list[tuple[Callable[[Any], None], Any]], loop: asyncio.AbstractEventLoop) -> None:
    """All in one turn; one that fails takes nothing from the others."""
    for told, outcome in heard:
        try:
            told(outcome)
        except Exception as error:  # noqa: BLE001 - as the event loop does
            loop.call_exception_handler({"message": "A listener of the store failed", "exception": error})


def _joined(jobs: list[Job], outcomes: list[Any]) -> list[Any] | BaseException:
    """The results of all items; an error, if no part was written or nobody knows what was."""
    errors = [one for one in outcomes if isinstance(one, BaseException)]
    unknown = next((one for one in errors if isinstance(one, StoreBroken)), None)
    if unknown is not None or len(errors) == len(outcomes):
        return unknown or errors[0]
    parts = (
        [one] * len(job.items) if isinstance(one, BaseException) else one
        for job, one in zip(jobs, outcomes, strict=True)
    )
    return [result for part in parts for result in part]


def answers(jobs: list[Job], results: list[Any]) -> list[Any]:
    """What each of these jobs of one batch is answered, of the results of all their items."""
    outcomes: list[Any] = []
    at = 0
    for job in jobs:
        outcomes.append(results[at : at + len(job.items)])
        at += len(job.items)
    return outcomes
