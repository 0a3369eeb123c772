"""The way into a PostgreSQL: each lane has connections of its own, so that creates never share a transaction with
claims and completions, nor wait for them.

On a connection one transaction follows another. What waits for it meanwhile, and is of one batch, is the next; many
creates are parted among their connections, so that some are served while others commit. Other operations go one by
one, since several connections commit together anyway. A batch that fails is split until the bad
item stands alone. What others undid is done again; so is what was lost with its connection, as long as the caller's
lane has patience: claims, ends and upkeep wait for the store, a client is told.

A commit whose answer was lost is done again by its mark (`postgres`): either it was there, and its results hold, or it
is certain that it never will be. An operation may therefore run more than once, and must not keep what it did outside
the transaction.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tasktick import logs
from tasktick.clock import Clock, turns
from tasktick.errors import StoreError, StoreFull, StoreUnavailable
from tasktick.service import Spawner
from tasktick.store.lanes import GATHERING_TURNS, Job, LaneWriter, answers, lot_of
from tasktick.store.postgres import BEGIN_FIRE, BEGIN_WRITE, CommitUnknown, was_committed, write_alone, write_with
from tasktick.store.postgres_links import Gate, PostgresLink
from tasktick.store.protocol import Aborted, Alone, Lane, Transaction

log = logs.get("store")

# How long a caller of a lane waits for a store that cannot be reached, until he is told.
PATIENCE_MS: Mapping[Lane, float] = {Lane.FIRE: float("inf"), Lane.CREATE: 5_000, Lane.UPKEEP: float("inf")}
CLOSING_PATIENCE_MS = 3_000
ABORTS_MAX = 20
# As many fill a transaction: nothing is waited for then.
FULL_ROWS = 500
# Between two marks of a writer: the one that passes over the first stands there.
MARK_STEP = 2
# A single statement wrote nothing, since a tenant has a quota: others of it are on their way.
NOT_ALONE_MS = 1_000


class Hand(msgspec.Struct):
    """A connection that writes, and the row of its marks."""

    name: str
    link: PostgresLink
    mark: int = 0
    results: Any = None
    # The last commit's fate is not known: its mark says.
    unknown: bool = False
    # How many callers wait for what it does now.
    callers: int = 0


class PostgresWriter(LaneWriter):
    """Queues jobs and runs them, lane by lane."""

    def __init__(self, gate: Gate, clock: Clock, name: str, connections: Mapping[Lane, int]) -> None:
        super().__init__()
        self._gate = gate
        self._clock = clock
        self._hands = {
            lane: [
                Hand(
                    f"{name}-{lane.name.lower()}-{number}",
                    PostgresLink(gate, watched=True, alone=lane is Lane.CREATE),
                )
                for number in range(count)
            ]
            for lane, count in connections.items()
        }
        self._wakes = {lane: asyncio.Event() for lane in Lane}
        self._workers: list[asyncio.Task[None]] = []
        self._not_alone_until_ms = 0.0
        self._closing_since_ms = 0.0

    def start(self, spawn: Spawner) -> None:
        """Begin to write."""
        self._workers = [
            spawn(self._work(lane, hand), f"store_{hand.name}") for lane, hands in self._hands.items() for hand in hands
        ]

    def _woken(self, lane: Lane) -> None:
        self._wakes[lane].set()

    async def close(self) -> None:
        """Take nothing more; write what is queued, if the store is there."""
        self._closing, self._closing_since_ms = True, self._clock.monotonic_ms()
        for wake in self._wakes.values():
            wake.set()
        await asyncio.gather(*self._workers, return_exceptions=True)
        for hands in self._hands.values():
            for hand in hands:
                await hand.link.close()

    async def _work(self, lane: Lane, hand: Hand) -> None:
        wake = self._wakes[lane]
        while True:
            waiting = len(self._lanes[lane])
            if 0 < waiting < self._share(lane) and self._waiting_rows < FULL_ROWS:
                await turns(GATHERING_TURNS)
            jobs = self._take(lane)
            if jobs:
                await self._commit(hand, jobs)
            elif self._closing:
                return
            else:
                wake.clear()
                await wake.wait()

    def _share(self, lane: Lane) -> int:
        """How many callers one transaction is for. Those whose creates came together, of whom there are many, are told
        in two lots: the event loop answers and hears the one while the server writes the other."""
        hands = self._hands[lane]
        if lane is not Lane.CREATE:
            return FULL_ROWS
        callers = len(self._lanes[lane]) + sum(hand.callers for hand in hands)
        return lot_of(callers, len(hands))

    def _take(self, lane: Lane) -> list[Job]:
        """The first that waits, and those behind it that are of the same batch, up to a share of all."""
        waiting, share = self._lanes[lane], self._share(lane)
        taken: list[Job] = []
        rows = 0
        while waiting and len(taken) < share:
            job = waiting[0]
            if job.future.cancelled():
                self._waiting_rows -= waiting.popleft().rows
                continue
            if taken and (job.batch is None or job.batch is not taken[0].batch or rows + job.rows > job.batch.rows_max):
                break
            taken.append(waiting.popleft())
            rows += job.rows
            if job.batch is None or job.batch.is_prompt:
                break
        return taken

    async def _commit(self, hand: Hand, jobs: Sequence[Job]) -> None:
        jobs = list(jobs)
        hand.callers = len(jobs)
        try:
            outcomes = await self._patiently(hand, jobs)
        except StoreError as error:
            self.full = isinstance(error, StoreFull)
            self._settle(jobs, [error] * len(jobs))
        except Exception as error:  # noqa: BLE001 - a row's fault: found by halving, given to its caller
            if jobs[0].batch is None:
                self._settle(jobs, [error])
            else:
                await self._halve(jobs, error, lambda part: self._commit(hand, part))
        else:
            self.full = False
            self.commits += 1
            self._settle(jobs, outcomes)
            self.committed()
        finally:
            hand.callers = 0

    async def _patiently(self, hand: Hand, jobs: list[Job]) -> list[Any]:
        """Run and commit these jobs, again and again if it must be; the results, or what stands in the way."""
        give_up_ms = self._clock.monotonic_ms() + PATIENCE_MS[jobs[0].lane]
        aborts = failures = unknowns = 0
        hand.unknown = False
        while True:
            try:
                return await self._once(hand, jobs)
            except Aborted as error:
                aborts += 1
                if aborts > ABORTS_MAX or self._has_closed_for(CLOSING_PATIENCE_MS):
                    raise StoreUnavailable(f"Others were in the way too often: {error}") from error
                await self._clock.sleep_ms(self._gate.rest_ms(0) * min(aborts, 10) / 10)
            except CommitUnknown as error:
                log.warning("commit_unknown", writer=hand.name, error=str(error))
                hand.unknown, hand.results = True, error.result
                unknowns += 1
                if unknowns > 1:  # the first is found out about, however long it took
                    self._judge_patience(StoreUnavailable(str(error)), give_up_ms)
            except StoreFull:
                raise
            except StoreUnavailable as error:
                self._judge_patience(error, give_up_ms)
                failures += 1
                await self._gate.wait(failures)

    def _judge_patience(self, error: StoreUnavailable, give_up_ms: float) -> None:
        if self._clock.monotonic_ms() >= give_up_ms or self._has_closed_for(CLOSING_PATIENCE_MS):
            raise error

    def _has_closed_for(self, duration_ms: float) -> bool:
        return self._closing and self._clock.monotonic_ms() >= self._closing_since_ms + duration_ms

    async def _once(self, hand: Hand, jobs: list[Job]) -> list[Any]:
        raw = await hand.link.raw()
        if hand.unknown:
            there = await was_committed(raw, hand.name, hand.mark)
            hand.unknown = False
            log.info("commit_found_out", writer=hand.name, committed=there)
            if there:
                results: list[Any] = hand.results
                return results
        hand.mark += MARK_STEP
        alone = self._alone(hand, jobs)
        if alone is not None:
            results = answers(jobs, alone.results)
            if await write_alone(raw, alone, results, hand.name, hand.mark):
                return results
            self._not_alone_until_ms = self._clock.monotonic_ms() + NOT_ALONE_MS
            hand.mark += MARK_STEP
        begin = BEGIN_FIRE if jobs[0].lane is Lane.FIRE else BEGIN_WRITE
        return await write_with(raw, lambda tx: _run(tx, jobs), hand.name, hand.mark, begin)

    def _alone(self, hand: Hand, jobs: list[Job]) -> Alone | None:
        """These jobs as a single statement, if they can be one."""
        batch = jobs[0].batch
        if batch is None or batch.alone is None or not hand.link.takes_alone:
            return None
        if self._clock.monotonic_ms() < self._not_alone_until_ms:
            return None
        return batch.alone([item for job in jobs for item in job.items])


async def _run(tx: Transaction, jobs: list[Job]) -> list[Any]:
    """Run the jobs, of one batch or one alone: an outcome for each."""
    first = jobs[0]
    if first.batch is None:
        assert first.operation is not None
        return [await first.operation(tx)]
    items = [item for job in jobs for item in job.items]
    results = await first.batch.operation(tx, items)
    assert len(results) == len(items), f"{first.batch.name} must answer each item"
    return answers(jobs, results)
