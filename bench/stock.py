"""Fills a store quickly: one task, or one schedule, is created as any other, and its rows are copied under new ids and
times.

The columns are read off the tables, so that a new one needs nothing here.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.tasks import now_ms
from tasktick.model.state import State
from tasktick.store.connect import raw_connection
from tasktick.store.database import FILE_NAME

TABLES = {"tasks": "id", "task_details": "id"}
TIMES = ("run_at", "due_at", "wake_at")
# The same shape as `model.ids`: milliseconds, version 7, a count, variant, random bits, partition.
NEW_ID = """printf('%012x7%03xa%013x%02x', :now + n / 4096, n % 4096, abs(random()) % 4503599627370496, n % 256)"""
NUMBERS = """WITH RECURSIVE numbers (n) AS (
    SELECT :from UNION ALL SELECT n + 1 FROM numbers WHERE n < :from + :together - 1
)"""
# So many in a transaction: a store of ten million is to be made in the memory of one of a hundred thousand.
TOGETHER = 250_000
FINISHED = {
    "state": str(int(State.SUCCEEDED)),
    "attempt": "1",
    "sla_met": "1",
    **dict.fromkeys(("fence", "started_at", "completed_at"), "one.updated_at"),
}
ATTEMPTS = """INSERT INTO attempts (
    task_id, attempt, series, fence, state, picked_at, started_at, completed_at, node, epoch, status
)
SELECT copies.id, 1, 1, one.fence, 'succeeded', one.updated_at, one.updated_at, one.updated_at, 'bench', 1, 200
FROM copies JOIN tasks AS one ON one.id = copies.id ORDER BY copies.n"""
COUNTED = """INSERT INTO counts (tenant, state, tasks) SELECT tenant, state, count(*) FROM tasks WHERE true
GROUP BY tenant, state ON CONFLICT (tenant, state) DO UPDATE SET tasks = excluded.tasks"""
PRAGMAS = ("PRAGMA synchronous = OFF", "PRAGMA cache_size = -262144")


def fill(data: Path, count: int, first_at_ms: int, span_ms: int, tenants: int = 1, *, finished: bool = False) -> None:
    """Make `count` copies of the task that waits there (the last due), due evenly over a span; the one itself goes.

    They are of so many tenants, in turn. Finished ones have succeeded, at their first attempt.
    """
    raw: Any = raw_connection(data / FILE_NAME, PRAGMAS)
    try:
        latest = "SELECT id FROM tasks WHERE state = ? ORDER BY run_at DESC, id DESC LIMIT 1"
        (original,) = raw.execute(latest, (int(State.SCHEDULED),)).fetchone()
        known = {"now": now_ms(), "count": count, "original": original, "first": first_at_ms, "span": span_ms}
        known |= {"tenants": tenants}
        columns = {table: [row[1] for row in raw.execute(f"PRAGMA table_info({table})")] for table in TABLES}
        for at in range(0, count, TOGETHER):
            known |= {"from": at, "together": min(TOGETHER, count - at)}
            raw.execute("BEGIN")
            raw.execute("CREATE TEMP TABLE copies (n INTEGER PRIMARY KEY, id TEXT NOT NULL)")
            raw.execute(f"INSERT INTO copies {NUMBERS} SELECT n, {NEW_ID} FROM numbers", known)
            for table, key in TABLES.items():
                raw.execute(_copy(table, key, columns[table], finished=finished), known)
            if finished:
                raw.execute(ATTEMPTS)
            raw.execute("DROP TABLE copies")
            raw.execute("COMMIT")
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        raw.execute("BEGIN")
        for table, key in TABLES.items():
            raw.execute(f"DELETE FROM {table} WHERE {key} = :original", known)
        raw.execute("UPDATE counts SET tasks = 0")
        raw.execute(COUNTED)
        raw.execute("COMMIT")
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        raw.close()
    _sync(data / FILE_NAME)


def _sync(file: Path) -> None:
    """Have it all on the disk: whoever commits to it next is not to wait for what was made here."""
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())


def fill_schedules(data: Path, count: int, first_at_ms: int, span_ms: int, groups: int = 1, group_ms: int = 0) -> None:
    """Make `count` copies of the one schedule that is there, whose fires ahead are due evenly over a span.

    In so many groups: each is due over such a span, so long after the one before.
    """
    raw: Any = raw_connection(data / FILE_NAME, PRAGMAS)
    try:
        schedule, fire = raw.execute("SELECT id, next_id FROM schedules").fetchone()
        known = {"now": now_ms(), "count": count, "schedule": schedule, "original": fire}
        known |= {
            "from": 0,
            "together": count,
            "first": first_at_ms,
            "span": span_ms,
            "groups": groups,
            "apart": group_ms,
        }
        raw.execute("BEGIN")
        raw.execute("CREATE TEMP TABLE copies (n INTEGER PRIMARY KEY, id TEXT NOT NULL, schedule TEXT NOT NULL)")
        # A fire is of its schedule's partition, and younger.
        raw.execute(
            f"INSERT INTO copies {NUMBERS} SELECT n, {NEW_ID}, {NEW_ID.replace(':now', ':now - 3600000')} FROM numbers",
            known,
        )
        at = ":first + copies.n % :groups * :apart + copies.n / :groups * :groups * :span / :count"
        of_fire = {"id": "copies.id", **dict.fromkeys(TIMES, at)}
        looks = dict.fromkeys(("next_at", "next_local_ms", "next_due_at", "look_at"), at)
        for table, key, original, values in (
            ("tasks", "id", ":original", {**of_fire, "template_id": "copies.schedule", "decide_by": f"{at} + 60000"}),
            ("task_details", "id", ":original", {"id": "copies.id", "schedule_id": "copies.schedule"}),
            ("payloads", "task_id", ":schedule", {"task_id": "copies.schedule"}),
            ("schedules", "id", ":schedule", {"id": "copies.schedule", "next_id": "copies.id", **looks}),
        ):
            _multiply(raw, table, key, original, values, known)
        raw.execute("DROP TABLE copies")
        raw.execute("UPDATE counts SET tasks = ? WHERE state = ?", (count, int(State.SCHEDULED)))
        raw.execute("COMMIT")
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        raw.close()
    _sync(data / FILE_NAME)


def _multiply(raw: Any, table: str, key: str, original: str, values: dict[str, str], known: dict[str, Any]) -> None:
    columns = [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]
    chosen = ", ".join(values.get(name, f"one.{name}") for name in columns)
    raw.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} "
        f"FROM copies JOIN {table} AS one ON one.{key} = {original} ORDER BY copies.n",
        known,
    )
    raw.execute(f"DELETE FROM {table} WHERE {key} = {original}", known)


def _copy(table: str, key: str, columns: Sequence[str], *, finished: bool) -> str:
    values = {
        key: "copies.id",
        "tenant": "CASE WHEN :tenants = 1 THEN one.tenant ELSE 'tenant-' || (copies.n % :tenants) END",
        **dict.fromkeys(TIMES, ":first + copies.n * :span / :count"),
        **(FINISHED if finished and table == "tasks" else {}),
    }
    chosen = ", ".join(values.get(name, f"one.{name}") for name in columns)
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} "
        f"FROM copies JOIN {table} AS one ON one.{key} = :original ORDER BY copies.n"
    )
