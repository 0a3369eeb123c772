"""Lines in the store: who may not be under way together, whatever schedules and partitions they are of.

A row stands for a fire that was let run, and goes in the transaction in which that ends, however it ends: nothing is
locked by who is not there any more. Who decides about a line, or ends a fire of it, holds the line until its commit,
before it holds rows of schedules and of tasks; so of two nodes that decide at once the second finds its plan stale.
On a store with one writer there are no two at once.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from tasktick.model.line import LineFire
from tasktick.model.schedule import Plan, Schedule
from tasktick.model.state import Event, State, after
from tasktick.model.task import Due
from tasktick.store.counts import Deltas
from tasktick.store.protocol import Transaction, only

Named = list[tuple[str, str]]


class Freed(msgspec.Struct, frozen=True, array_like=True):
    """Who is first in a line where nobody is at work any more."""

    line: str
    due: Due


def named(schedules: Iterable[Schedule], rows: Iterable[LineFire]) -> Named:
    """The lines (tenant, line) that these schedules and these rows are about, in order."""
    own = {(one.tenant, one.line) for one in schedules if one.line is not None}
    return sorted(own | {(row.tenant, row.line) for row in rows})


async def hold(
    tx: Transaction,
    lines: Sequence[tuple[str, str]] = (),
    *,
    tasks: Sequence[str] = (),
    schedules: Sequence[str] = (),
) -> None:
    """Nobody else decides about these lines, nor those in which these tasks and schedules stand, until the commit.

    The rows of these schedules are held too: they come before rows of tasks.
    """
    await tx.run("lines_hold", lines=list(lines), tasks=sorted(set(tasks)), schedules=sorted(set(schedules)))


async def any_bound(tx: Transaction, tasks: Sequence[str], schedules: Sequence[str]) -> bool:
    """Whether something hangs on the ends of these fires, which are held as by `hold`: nearly always nothing does."""
    asked = {"lines": [], "tasks": sorted(set(tasks)), "schedules": sorted(set(schedules))}
    return bool(only(await tx.rows("lines_any_bound", bool, **asked)))


async def read(tx: Transaction, schedules: Sequence[Schedule]) -> list[LineFire]:
    """Who stands in the lines of these schedules, and where else their own fires stand, in order."""
    ids = [one.id for one in schedules]
    return await tx.rows("lines_read", LineFire, lines=named(schedules, ()), schedules=ids)


def of_each(schedules: Sequence[Schedule], rows: Sequence[LineFire]) -> dict[str, tuple[LineFire, ...]]:
    """What of these rows concerns each schedule."""
    if not rows:
        return {}
    in_line: defaultdict[tuple[str, str], list[LineFire]] = defaultdict(list)
    of_schedule: defaultdict[str, list[LineFire]] = defaultdict(list)
    for row in rows:
        in_line[row.tenant, row.line].append(row)
        of_schedule[row.schedule_id].append(row)
    found = {}
    for one in schedules:
        mine = {*in_line.get((one.tenant, one.line or ""), ()), *of_schedule.get(one.id, ())}
        found[one.id] = tuple(sorted(mine, key=LineFire.order))
    return found


Standing = dict[str, tuple[LineFire, ...]]


async def held_for(tx: Transaction, plans: Sequence[Plan]) -> Standing:
    """Who stands in the lines on which these plans rest, by schedule; nobody else changes them until the commit."""
    resting = [plan for plan in plans if _rests_on_line(plan)]
    if not resting:
        return {}
    schedules = [plan.before for plan in resting]
    await hold(tx, named(schedules, [row for plan in resting for row in plan.line or ()]))
    return of_each(schedules, await read(tx, schedules))


def stale(plans: Sequence[Plan], standing: Standing, stale_already: Collection[int]) -> set[int]:
    """The places of plans made for lines in which others stand by now, once those before them are written.

    A plan that leaves a line as it is may rest on how it was before all of them, one that joins it comes after those
    that have. One that changes what stands there comes alone: who is freed by it must stand there already. Who gives
    way to another does so only if that one comes.
    """
    found: set[int] = set()
    joined: defaultdict[tuple[str, str], list[LineFire]] = defaultdict(list)
    taken: set[tuple[str, str]] = set()
    coming: set[str] = set()
    for place, plan in enumerate(plans):
        if place in stale_already:
            continue
        if _rests_on_line(plan):
            about = set(named([plan.before], plan.line or ()))
            before = standing.get(plan.before.id, ())
            after = _after_joins(plan, before, joined)
            moves = _moves_others(plan)
            is_first = plan.line == before and not (plan.joins or moves)
            is_behind = bool(about & taken) or (moves and not about.isdisjoint(joined))
            if not is_first and (is_behind or plan.line != after):
                found.add(place)
                continue
            for row in plan.joins:
                joined[row.tenant, row.line].append(row)
            if moves:
                taken |= about
        if plan.joins:
            coming.add(plan.before.id)
    waiting = {place for place, plan in enumerate(plans) if plan.gives_way_to is not None}
    return found | {place for place in waiting if plans[place].gives_way_to not in coming}


def _after_joins(
    plan: Plan, before: tuple[LineFire, ...], joined: Mapping[tuple[str, str], Sequence[LineFire]]
) -> tuple[LineFire, ...]:
    """Who stands there for a schedule, once others have joined."""
    others = joined.get((plan.before.tenant, plan.before.line or ""), ())
    return tuple(sorted((*before, *others), key=LineFire.order)) if others else before


def _moves_others(plan: Plan) -> bool:
    """Whether somebody who stood there does not after it, or not as before."""
    standing = {row.task_id for row in plan.line or ()}
    return any(one.after.id in standing for one in plan.changes)


def _rests_on_line(plan: Plan) -> bool:
    return plan.line is not None and (plan.before.line is not None or bool(plan.line))


async def join(tx: Transaction, joins: Sequence[LineFire]) -> None:
    """These stand in a line from now on."""
    if joins:
        await tx.run("lines_join", rows=joins)


async def leave(tx: Transaction, ended: Sequence[str], now: int, deltas: Deltas) -> dict[str, Due]:
    """These tasks have ended: who is next in their lines goes; by a task that was in the way."""
    rows = await tx.rows("lines_of", LineFire, ids=ended) if ended else []
    if not rows:
        return {}
    left = named((), rows)
    await hold(tx, left)
    await tx.run("lines_leave", ids=sorted({row.task_id for row in rows}))
    in_line = [row for row in rows if row.waits]
    if in_line:
        await tx.run(
            "lines_step_out",
            ids=sorted({row.task_id for row in in_line}),
            schedules=sorted({row.schedule_id for row in in_line}),
        )
    freed = await advance(tx, left, now, deltas)
    holders = {row.line: row.task_id for row in rows}
    return {holders[one.line]: one.due for one in freed}


async def advance(tx: Transaction, lines: Named, now: int, deltas: Deltas) -> list[Freed]:
    """Whoever is first in these lines, which are held, goes where nobody is at work."""
    freed = await tx.rows("lines_freed", Freed, lines=lines, now=now)
    if freed:
        state = after(Event.UNBLOCK, State.BLOCKED)
        ids = [one.due.id for one in freed]
        await tx.run("lines_go", ids=ids)
        await tx.run("waiters_go", ids=ids, now=now, state=int(state))
        for one in freed:
            deltas.moved(one.due.tenant, State.BLOCKED, state, one.due.id, now, 0)
    return freed


async def begin(tx: Transaction, tenant: str, line: str, now: int) -> list[Due]:
    """Some have just joined a line, which is held, all of them to wait: the first goes, if nobody is at work."""
    deltas = Deltas()
    freed = await advance(tx, [(tenant, line)], now, deltas)
    await deltas.write(tx)
    return [one.due for one in freed]
