"""Statements that are given a few ids look at those alone, however much there is besides."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from tasktick.store.connect import raw_connection
from tasktick.store.migrate import migrate
from tasktick.store.queries import load


@pytest.mark.parametrize("name", ["task_ids_matching", "dead_letters_matching"])
def test_what_is_looked_at_begins_with_the_ids(name: str, tmp_path: Path) -> None:
    raw = raw_connection(tmp_path / "tasktick.db")
    try:
        migrate(raw)
        [statement] = load("sqlite")[name]
        given = defaultdict(lambda: None, dict.fromkeys(re.findall(r":([a-z_]+)", statement)))
        steps = [str(row[3]) for row in raw.execute(f"EXPLAIN QUERY PLAN {statement}", dict(given))]
    finally:
        raw.close()

    looked_at = [one for one in steps if re.match(r"(SCAN|SEARCH) (wanted|l|d|t)\b", one)]
    assert looked_at[0].startswith("SCAN wanted"), steps
    # `SCAN l` alone is of the rows that were found.
    assert all("(id=?)" in one or one == "SCAN l" for one in looked_at[1:]), steps
