"""Reads the books of schedules from a store, by SQL and nobody's code but SQLite's."""

from collections import defaultdict
from collections.abc import Mapping, Set
from typing import Any

import msgspec

from tests.chaos.dump import STATES
from tests.chaos.ledger_story import Book, Edition, Entry, Fire, Former

SCHEDULES = """
    SELECT id, version, next_id, fired, skipped, missed, failed, paused, consecutive_failures
    FROM schedules ORDER BY id
"""
ENTRIES = """
    SELECT schedule_id, nominal_at, outcome, reason, task_id, schedule_version, decided_at, local_ms, collapsed,
        missed, until_at, times, was, failed
    FROM fires ORDER BY schedule_id, nominal_at
"""
FIRES = """
    SELECT d.schedule_id, t.id, t.run_at, t.state, t.attempt, t.picked_at, t.completed_at,
        (SELECT min(a.picked_at) FROM attempts AS a WHERE a.task_id = t.id)
    FROM tasks AS t JOIN task_details AS d ON d.id = t.id WHERE d.schedule_id IS NOT NULL ORDER BY t.id
"""


def books(
    connection: Any,
    editions: Mapping[str, list[Edition]],
    triggered: Set[str] = frozenset(),
    filled: Mapping[str, Set[int]] | None = None,
) -> list[Book]:
    """Every schedule that was asked for, as the store has it; versions that nobody asked for are pauses that ended.

    `filled` are the times that backfills have put in, if they were noted.
    """
    entries: dict[str, list[Entry]] = defaultdict(list)
    for row in connection.execute(ENTRIES):
        entries[row[0]].append(entry_of(*row[1:]))
    fires: dict[str, list[Fire]] = defaultdict(list)
    for row in connection.execute(FIRES):
        fires[row[0]].append(msgspec.structs.replace(fire_of(*row[1:]), triggered=row[1] in triggered))
    rows = {row[0]: row[1:] for row in connection.execute(SCHEDULES)}
    asked = sorted(editions.items())
    found = [book_of(name, versions, entries[name], fires[name], rows.get(name)) for name, versions in asked]
    if filled is None:
        return found
    return [msgspec.structs.replace(book, filled=frozenset(filled.get(book.schedule_id, ()))) for book in found]


def entry_of(nominal_at: int, outcome: str, reason: str | None, task_id: str | None, version: int, *rest: Any) -> Entry:
    """A row of `fires`, in the order of ENTRIES."""
    decided_at, local_ms, collapsed, missed, until_at, times, was, failed = rest
    return Entry(
        nominal_at=nominal_at,
        outcome=outcome,
        reason=reason,
        task_id=task_id,
        version=version,
        decided_at=decided_at,
        local_ms=local_ms,
        collapsed=collapsed,
        missed=missed,
        until_at=until_at,
        times=times,
        was=None if was is None else msgspec.json.decode(was, type=Former),
        failed=bool(failed),
    )


def fire_of(
    task_id: str,
    nominal_at: int,
    state: int,
    attempts: int,
    claimed_at: int | None,
    completed_at: int | None,
    first_at: int | None,
) -> Fire:
    """A task of a schedule, in the order of FIRES."""
    picked_at = first_at if first_at is not None else claimed_at
    return Fire(
        task_id=task_id,
        nominal_at=nominal_at,
        state=STATES[state],
        attempts=attempts,
        picked_at=picked_at if attempts else None,
        completed_at=completed_at,
    )


def book_of(name: str, asked: list[Edition], entries: list[Entry], fires: list[Fire], row: Any) -> Book:
    """A schedule with its times, and its own row, if it is still there."""
    if row is None:  # deleted: its counts went with it
        ran = [sum(one.times for one in entries if one.outcome == word) for word in ("run", "skipped", "missed")]
        row = (asked[-1].version, None, *ran, sum(one.failed for one in entries))
    version, next_id, fired, skipped, missed, failed, *standing = row
    paused, failures = standing or (False, None)
    return Book(
        schedule_id=name,
        editions=with_ends_of_pauses(asked, version),
        entries=entries,
        fires=fires,
        next_id=next_id,
        fired=fired,
        skipped=skipped,
        missed=missed,
        failed=failed,
        paused=bool(paused),
        consecutive_failures=failures,
    )


def with_ends_of_pauses(asked: list[Edition], version: int) -> list[Edition]:
    """A pause with an end ends by itself, and failures begin one, which is one more version each."""
    found: list[Edition] = []
    for edition in asked:
        _by_itself(found, edition.version)
        found.append(edition)
    _by_itself(found, version + 1)
    return found


def _by_itself(found: list[Edition], before: int) -> None:
    """What a schedule became between what it was asked to be and that version."""
    while found and found[-1].version < before - 1:
        last = found[-1]
        by_failures = not last.paused and last.pause_on_failures is not None
        if last.paused_until is None and not by_failures:
            return
        fields = {"version": last.version + 1, "at": last.paused_until or last.at, "paused": by_failures}
        found.append(msgspec.structs.replace(last, **fields, paused_until=None, by_failures=by_failures))
