"""The ledger in the store: what became of each nominal time, and the counts of schedules, which are those of it.

A time that was missed or skipped, and runs later after all, keeps its row: the row says so, and what had been decided
before. Whoever takes up such a task again does that here, in the transaction in which the task is taken up, so that
row, task and counts never part. What retention takes from the ledger stays counted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from tasktick.model.schedule import LedgerRow, Plan, Recorder
from tasktick.store.protocol import Aborted, Transaction
from tasktick.store.rows import columns

RUN_LATER = "run_later"
# In the order in which `ledger_insert` reads them.
LEDGER_COLUMNS = (
    *("schedule_id", "nominal_at", "outcome", "reason", "task_id", "local_ms", "schedule_version", "collapsed"),
    *("missed", "until_at", "times", "node", "epoch", "tzdata", "decided_at", "failed", "was"),
)
_plain_columns = attrgetter(*LEDGER_COLUMNS[:-1])
Deciding = Callable[[str], Recorder]


class Old(msgspec.Struct, frozen=True, array_like=True):
    """A row that goes."""

    schedule_id: str
    nominal_at: int
    outcome: str
    times: int
    last_at: int
    failed: bool


async def write(tx: Transaction, plans: Sequence[Plan]) -> None:
    """Write what plans say of times; how many gave up is counted by what is written."""
    new = [row for plan in plans for row in (*plan.ledger, *plan.left)]
    if new:
        await tx.run("ledger_insert", rows=[ledger_row(row) for row in new])
    amended = [columns(row) for plan in plans for row in plan.amended]
    if amended:
        await tx.run("ledger_amend", rows=amended)
    rewritten = [row for plan in plans for row in plan.rewritten]
    if rewritten:
        await _rewrite(tx, rewritten)
    failed = Counter(row.schedule_id for row in new if row.failed)
    if failed:
        await tx.run("schedule_failed", rows=sorted(failed.items()))


async def _rewrite(tx: Transaction, rows: Sequence[LedgerRow]) -> None:
    found = await tx.run("ledger_rewrite", rows=[_row(row) for row in rows])
    assert found == len(rows), "they were read under the lock of their schedules"


def ledger_row(row: LedgerRow) -> tuple[Any, ...]:
    """The row that `ledger_insert` reads, by `LEDGER_COLUMNS`."""
    return *_plain_columns(row), None if row.was is None else msgspec.json.encode(row.was).decode()


def _row(row: LedgerRow) -> dict[str, Any]:
    found = columns(row)
    found["was"] = None if row.was is None else msgspec.json.encode(row.was).decode()
    return found


async def between(tx: Transaction, schedule_id: str, from_at: int, to_at: int) -> list[LedgerRow]:
    """Every row that has to do with a stretch of time, the earliest first."""
    return await tx.rows("ledger_between", LedgerRow, schedule_id=schedule_id, from_at=from_at, to_at=to_at)


async def condensed(
    tx: Transaction, schedule_id: str, outcomes: list[str], from_at: int | None, to_at: int | None
) -> int:
    """How many times of a schedule have such an outcome, and no task, as they stand in a stretch."""
    found = await tx.rows(
        "ledger_condensed", int, schedule_id=schedule_id, outcomes=outcomes, from_at=from_at, to_at=to_at
    )
    return found[0]


async def idle(tx: Transaction, ids: Sequence[str]) -> dict[str, LedgerRow]:
    """The rows of these tasks, as far as they say that they did not run; their schedules are held."""
    rows = await tx.rows("ledger_idle", LedgerRow, ids=sorted(ids)) if ids else []
    return {str(row.task_id): row for row in rows}


async def ran_later(tx: Transaction, rows: Sequence[LedgerRow], now: int, deciding: Deciding | None) -> None:
    """These times, which were missed or skipped, run after all: the ledger and the counts say so."""
    if not rows:
        return
    await _rewrite(tx, [_run_later(row, now, deciding) for row in rows])
    by_schedule: dict[str, list[LedgerRow]] = defaultdict(list)
    for row in rows:
        by_schedule[row.schedule_id].append(row)
    counted = [
        [
            name,
            len(mine),
            -sum(row.outcome == "skipped" for row in mine),
            -sum(row.outcome == "missed" for row in mine),
            max(row.nominal_at for row in mine),
        ]
        for name, mine in sorted(by_schedule.items())
    ]
    await tx.run("schedule_recount", rows=counted)
    await tx.run("schedule_exhausted", ids=sorted(by_schedule), now=now)


def _run_later(row: LedgerRow, now: int, deciding: Deciding | None) -> LedgerRow:
    by = None if deciding is None else deciding(row.schedule_id)
    return msgspec.structs.replace(
        row,
        outcome="run",
        reason=RUN_LATER,
        decided_at=now,
        node=row.node if by is None else by.node,
        epoch=row.epoch if by is None else by.epoch,
        tzdata=row.tzdata if by is None else by.tzdata,
        was=row.as_former,
    )


async def count_failed(tx: Transaction, dead: Sequence[tuple[str, int, str]]) -> None:
    """These fires (schedule, nominal time, task) have given up: each counts once, and those outside the ledger never.

    One that is not in the ledger yet counts when it is written down.
    """
    rows = [[place, *one] for place, one in enumerate(dead)]
    first = [dead[place] for place in sorted(await tx.rows("ledger_unfailed", int, rows=rows))]
    if not first:
        return
    await tx.run("ledger_fail", rows=[[schedule_id, nominal_at] for schedule_id, nominal_at, _ in first])
    await tx.run("schedule_failed", rows=sorted(Counter(schedule_id for schedule_id, _, _ in first).items()))


async def purge(tx: Transaction, before: int, limit: int) -> int:
    """Remove some rows that are old and whose tasks are gone; how many."""
    old = await tx.rows("ledger_old", Old, before=before, limit=limit)
    if not old:
        return 0
    by_schedule: dict[str, list[Old]] = defaultdict(list)
    for row in old:
        by_schedule[row.schedule_id].append(row)
    await tx.run("schedule_forget", rows=[_gone(name, mine) for name, mine in sorted(by_schedule.items())])
    removed = await tx.run("ledger_remove", rows=[msgspec.to_builtins(row) for row in old])
    if removed != len(old):
        raise Aborted("Another transaction has just changed what the ledger says of old times.")
    return removed


def _gone(name: str, rows: list[Old]) -> list[Any]:
    counts = Counter({"run": 0, "skipped": 0, "missed": 0})
    for row in rows:
        counts[row.outcome] += row.times
    return [
        name,
        counts["run"],
        counts["skipped"],
        counts["missed"],
        sum(row.failed for row in rows),
        min(row.nominal_at for row in rows),
        max(row.last_at for row in rows),
    ]
