"""Whether the events of a store, as they lie on disk, add up to what its tasks are."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

UNBORN = 0
ID_CHARS = 32


def troubles(connection: sqlite3.Connection) -> list[str]:
    """Each task's changes follow on one another from its birth, and end in the state that it is in."""
    rows = connection.execute("SELECT sequence, items FROM events ORDER BY sequence").fetchall()
    return differences(rows, dict(connection.execute("SELECT id, state FROM tasks").fetchall()))


def differences(rows: Iterable[Any], there: Mapping[str, int]) -> list[str]:
    """The same for (sequence, items) in their order, and the state of each task by its id."""
    wrong: list[str] = []
    told: dict[str, int] = {}
    rows = list(rows)
    if [sequence for sequence, _ in rows] != list(range(1, len(rows) + 1)):
        wrong.append("batches of events are missing")
    for sequence, items in rows:
        for task_id, before, after in _changes(items):
            if told.get(task_id, UNBORN) != before:
                wrong.append(f"event {sequence}: {task_id} was {told.get(task_id, UNBORN)}, and is told to be {before}")
            told[task_id] = after
    wrong += [
        f"{one} is {state}, and told to be {told.get(one)}" for one, state in there.items() if told.get(one) != state
    ]
    return wrong


def _changes(items: str) -> Iterable[tuple[str, int, int]]:
    """Each task's by itself: what is told of several that changed alike has all their ids, one after the other."""
    for of_tenant in json.loads(items).values():
        for ids, before, after, _, _, *of_others in of_tenant:
            if not of_others:
                yield from ((ids[at : at + ID_CHARS], before, after) for at in range(0, len(ids), ID_CHARS))
