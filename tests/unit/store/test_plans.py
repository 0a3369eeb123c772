"""Statements that are given a few ids look at those alone, however much there is besides."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from tasktick.store.connect import raw_connection
from tasktick.store.migrate import migrate
from tasktick.store.queries import load


def plans_of(name: str, folder: Path) -> list[str]:
    """The steps of all that stands under a name, in an empty store."""
    raw = raw_connection(folder / "tasktick.db")
    try:
        migrate(raw)
        steps = []
        for statement in load("sqlite")[name]:
            given = defaultdict(lambda: None, dict.fromkeys(re.findall(r":([a-z_]+)", statement)))
            steps += [str(row[3]) for row in raw.execute(f"EXPLAIN QUERY PLAN {statement}", dict(given))]
        return steps
    finally:
        raw.close()


@pytest.mark.parametrize("name", ["due_between", "due_in", "timers_between", "timers_in", "forecast_tasks"])
def test_what_is_due_is_found_by_its_slot_and_told_by_the_index(name: str, tmp_path: Path) -> None:
    steps = plans_of(name, tmp_path)
    found = [one for one in steps if " tasks " in one]
    assert found == [
        "SEARCH tasks USING COVERING INDEX tasks_waiting_by_slot (<expr>=? AND id>?)",
        "SEARCH tasks USING COVERING INDEX tasks_waiting_by_slot (<expr>>? AND <expr><?)",
    ], steps
    rows = [one for one in steps if re.match(r"(SCAN|SEARCH) t\b", one)]
    assert rows == ([] if name.startswith("timers") else ["SEARCH t USING PRIMARY KEY (id=?)"]), steps
    if name != "forecast_tasks":  # which counts, and tells where it ended
        assert not [one for one in steps if "ORDER BY" in one], steps


@pytest.mark.parametrize(
    "name",
    [
        *("task_views", "task_foreseen", "task_claimed", "task_detail_change", "task_delete", "waiters_step_out"),
        *("names_take_again", "ledger_idle", "fires_late_held", "fires_asked"),
    ],
)
def test_details_are_looked_up_one_by_one(name: str, tmp_path: Path) -> None:
    steps = plans_of(name, tmp_path)
    looked_up = [one for one in steps if re.match(r"SEARCH (d|task_details)\b", one)]
    assert looked_up, steps
    assert all("USING PRIMARY KEY (tenant=? AND id=?)" in one for one in looked_up), steps
    assert not [one for one in steps if re.match(r"SCAN (d|task_details|tasks|payloads)\b", one)], steps


@pytest.mark.parametrize("name", ["task_ids_matching", "dead_letters_matching"])
def test_what_is_looked_at_begins_with_the_ids(name: str, tmp_path: Path) -> None:
    steps = plans_of(name, tmp_path)
    looked_at = [one for one in steps if re.match(r"(SCAN|SEARCH) (wanted|l|d|t)\b", one)]
    assert looked_at[0].startswith("SCAN wanted"), steps
    # `SCAN l` alone is of the rows that were found.
    assert all("id=?)" in one or one == "SCAN l" for one in looked_at[1:]), steps
