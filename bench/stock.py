"""Fills a store quickly: one task, or one schedule, is created as any other, and its rows are copied under new ids and
times.

The columns are read off the tables, so that a new one needs nothing here.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.tasks import now_ms
from tasktick.model.state import State
from tasktick.store.connect import raw_connection
from tasktick.store.database import FILE_NAME

TABLES = {"tasks": "id", "task_details": "id", "payloads": "task_id"}
TIMES = ("run_at", "due_at", "wake_at")
# The same shape as `model.ids`: milliseconds, version 7, a count, variant, random bits, partition.
NEW_ID = """printf('%012x7%03xa%013x%02x', :now + n / 4096, n % 4096, abs(random()) % 4503599627370496, n % 256)"""
NUMBERS = "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count - 1)"


def fill(data: Path, count: int, first_at_ms: int, span_ms: int, tenants: int = 1) -> None:
    """Make `count` copies of the task that waits there (the last due), due evenly over a span; the one itself goes.

    They are of so many tenants, in turn.
    """
    raw: Any = raw_connection(data / FILE_NAME, ("PRAGMA synchronous = OFF", "PRAGMA cache_size = -262144"))
    try:
        latest = "SELECT id FROM tasks WHERE state = ? ORDER BY run_at DESC, id DESC LIMIT 1"
        (original,) = raw.execute(latest, (int(State.SCHEDULED),)).fetchone()
        known = {"now": now_ms(), "count": count, "original": original, "first": first_at_ms, "span": span_ms}
        known |= {"tenants": tenants}
        raw.execute("BEGIN")
        raw.execute("CREATE TEMP TABLE copies (n INTEGER PRIMARY KEY, id TEXT NOT NULL)")
        raw.execute(f"INSERT INTO copies {NUMBERS} SELECT n, {NEW_ID} FROM numbers", known)
        for table, key in TABLES.items():
            columns = [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]
            raw.execute(_copy(table, key, columns), known)
            raw.execute(f"DELETE FROM {table} WHERE {key} = :original", known)
        raw.execute("DROP TABLE copies")
        raw.execute(_COUNTED)
        raw.execute("COMMIT")
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        raw.close()


def finish(data: Path) -> None:
    """Let all that is there have succeeded, at its first attempt."""
    raw: Any = raw_connection(data / FILE_NAME, ("PRAGMA synchronous = OFF", "PRAGMA cache_size = -262144"))
    try:
        raw.execute("BEGIN")
        raw.execute(
            "UPDATE tasks SET state = ?, attempt = 1, fence = updated_at, started_at = updated_at, sla_met = 1, "
            "completed_at = updated_at",
            (int(State.SUCCEEDED),),
        )
        raw.execute(
            "INSERT INTO attempts (task_id, attempt, series, fence, state, picked_at, started_at, completed_at, node, "
            "epoch, status) SELECT id, 1, 1, fence, 'succeeded', updated_at, updated_at, updated_at, 'bench', 1, 200 "
            "FROM tasks ORDER BY id"
        )
        raw.execute("UPDATE counts SET tasks = 0")
        raw.execute(_COUNTED)
        raw.execute("COMMIT")
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        raw.close()


_COUNTED = """INSERT INTO counts (tenant, state, tasks) SELECT tenant, state, count(*) FROM tasks WHERE true
GROUP BY tenant, state ON CONFLICT (tenant, state) DO UPDATE SET tasks = excluded.tasks"""


def fill_schedules(data: Path, count: int, first_at_ms: int, span_ms: int, groups: int = 1, group_ms: int = 0) -> None:
    """Make `count` copies of the one schedule that is there, whose fires ahead are due evenly over a span.

    In so many groups: each is due over such a span, so long after the one before.
    """
    raw: Any = raw_connection(data / FILE_NAME, ("PRAGMA synchronous = OFF", "PRAGMA cache_size = -262144"))
    try:
        schedule, fire = raw.execute("SELECT id, next_id FROM schedules").fetchone()
        known = {"now": now_ms(), "count": count, "schedule": schedule, "original": fire}
        known |= {"first": first_at_ms, "span": span_ms, "groups": groups, "apart": group_ms}
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


def _multiply(raw: Any, table: str, key: str, original: str, values: dict[str, str], known: dict[str, Any]) -> None:
    columns = [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]
    chosen = ", ".join(values.get(name, f"one.{name}") for name in columns)
    raw.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} "
        f"FROM copies JOIN {table} AS one ON one.{key} = {original} ORDER BY copies.n",
        known,
    )
    raw.execute(f"DELETE FROM {table} WHERE {key} = {original}", known)


def _copy(table: str, key: str, columns: Sequence[str]) -> str:
    values = {
        key: "copies.id",
        "tenant": "CASE WHEN :tenants = 1 THEN one.tenant ELSE 'tenant-' || copies.n % :tenants END",
        **dict.fromkeys(TIMES, ":first + copies.n * :span / :count"),
    }
    chosen = ", ".join(values.get(name, f"one.{name}") for name in columns)
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} "
        f"FROM copies JOIN {table} AS one ON one.{key} = :original ORDER BY copies.n"
    )
