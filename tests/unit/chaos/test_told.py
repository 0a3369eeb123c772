"""The checker of events finds each way in which they could be wrong."""

import json
import sqlite3

import pytest

from tests.chaos import told

GOOD = [{"a": [["x", 0, 2, 1, 0], ["y", 0, 2, 1, 0]]}, {"a": [["x", 2, 4, 2, 1]], "b": [["z", 0, 15, 2, 0]]}]


def troubles(batches: dict[int, object], tasks: dict[str, int]) -> list[str]:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE TABLE events (sequence INTEGER PRIMARY KEY, items TEXT)")
        connection.execute("CREATE TABLE tasks (id TEXT, state INTEGER)")
        rows = [(sequence, json.dumps(items)) for sequence, items in batches.items()]
        connection.executemany("INSERT INTO events VALUES (?, ?)", rows)
        connection.executemany("INSERT INTO tasks VALUES (?, ?)", tasks.items())
        return told.troubles(connection)
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("batches", "tasks", "said"),
    [
        ({1: GOOD[0], 2: GOOD[1]}, {"x": 4, "y": 2, "z": 15}, None),
        ({1: GOOD[0], 2: GOOD[1]}, {"x": 2, "y": 2, "z": 15}, "x is 2, and told to be 4"),
        ({1: GOOD[0], 2: GOOD[1]}, {"x": 4, "y": 2, "z": 15, "w": 2}, "w is 2, and told to be None"),
        ({1: GOOD[0], 3: GOOD[1]}, {"x": 4, "y": 2, "z": 15}, "batches of events are missing"),
        ({1: GOOD[1], 2: GOOD[0]}, {"x": 2, "y": 2, "z": 15}, "x was 0, and is told to be 2"),
        ({1: GOOD[0], 2: GOOD[1], 3: GOOD[1]}, {"x": 4, "y": 2, "z": 15}, "x was 4, and is told to be 2"),
    ],
)
def test_what_is_told_has_to_add_up(batches: dict[int, object], tasks: dict[str, int], said: str | None) -> None:
    found = troubles(batches, tasks)
    assert (found == []) if said is None else any(said in one for one in found)
