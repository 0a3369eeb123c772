"""Reads the end of a run: every table by SQL, from outside and by nobody's code but SQLite's, and the API's view."""

import base64
import re
import sqlite3
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.chaos import told
from tests.chaos.history import ApiDump, AttemptLine, DeadLetterLine, SqlDump, TaskLine, now_ms

# The numbers on disk, written out once more: a checker that imports what it checks believes it.
STATES = {
    1: "blocked",
    2: "scheduled",
    4: "running",
    5: "retrying",
    6: "paused",
    7: "awaiting",
    10: "succeeded",
    11: "dead",
    12: "cancelled",
    13: "expired",
    14: "skipped",
    15: "missed",
    -1: "purged",
}
PAGE = 1_000
EVENT = re.compile(r'^tasktick_(?:events|attempts)_total\{(?:event|outcome)="([a-z_]+)"\} (\S+)$', re.MULTILINE)
TASKS = """
    SELECT t.id, d.name, t.state, t.attempt, t.max_attempts, t.series, t.fence, t.run_at, t.wake_at, t.lease_until,
        t.reason, coalesce(CASE WHEN t.payload_version = 1 THEN d.payload END, p.payload)
    FROM tasks AS t
    LEFT JOIN task_details AS d ON d.id = t.id
    LEFT JOIN payloads AS p ON p.task_id = t.id AND p.version = t.payload_version
    ORDER BY t.id
"""
ATTEMPTS = """
    SELECT task_id, attempt, series, fence, state, status, picked_at, completed_at FROM attempts
    ORDER BY task_id, attempt
"""
# Rows that hang on no task.
STRAYS = """
    SELECT 'task_details ' || id FROM task_details WHERE id NOT IN (SELECT id FROM tasks)
    UNION ALL SELECT 'payloads ' || task_id FROM payloads WHERE task_id NOT IN (SELECT id FROM tasks)
    UNION ALL SELECT 'attempts ' || task_id FROM attempts WHERE task_id NOT IN (SELECT id FROM tasks)
    UNION ALL SELECT 'dead_letters ' || task_id FROM dead_letters WHERE task_id NOT IN (SELECT id FROM tasks)
"""
UNFINISHED = "SELECT count(*) FROM tasks WHERE state < 10"


def open_read_only(file: Path) -> sqlite3.Connection:
    """A connection that changes nothing, beside whoever else has the file open."""
    return sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10.0)


def unfinished(file: Path) -> int:
    """How many tasks are still to come."""
    connection = open_read_only(file)
    try:
        return int(connection.execute(UNFINISHED).fetchone()[0])
    finally:
        connection.close()


def by_sql(connection: sqlite3.Connection) -> SqlDump:
    """Every table, and what SQLite and the tables themselves say of their soundness."""
    troubles = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    troubles += [f"a stray row: {row[0]}" for row in connection.execute(STRAYS)]
    troubles += [f"a wrong event: {one}" for one in told.troubles(connection)]
    return SqlDump(
        at=now_ms(),
        tasks=[task_line(row) for row in connection.execute(TASKS)],
        attempts=[AttemptLine(wire(row[0]), *row[1:]) for row in connection.execute(ATTEMPTS)],
        dead_letters=[
            DeadLetterLine(wire(row[0]), row[1], row[2])
            for row in connection.execute("SELECT task_id, reason, resolution FROM dead_letters")
        ],
        counts={
            STATES[state]: n for state, n in connection.execute("SELECT state, sum(tasks) FROM state_counts GROUP BY 1")
        },
        integrity=troubles,
    )


def wire(internal: str) -> str:
    return f"tsk_{internal}"


def task_line(row: Any, schedule_id: str | None = None) -> TaskLine:
    """A row of the query, whichever store gave it."""
    task_id, mark, state, attempt, max_attempts, series, fence, run_at, wake_at, lease_until, reason, payload = row
    return TaskLine(
        id=wire(task_id),
        mark=mark,
        state=STATES[state],
        attempt=attempt,
        max_attempts=max_attempts,
        series=series,
        fence=fence,
        run_at=run_at,
        wake_at=wake_at,
        lease_until=lease_until,
        reason=reason,
        body=None if payload is None else body_of(msgspec.json.decode(payload)["target"]),
        schedule_id=schedule_id,
    )


def body_of(target: dict[str, Any]) -> bytes:
    """The bytes that are to be sent."""
    body: str = target.get("body", "")
    return base64.b64decode(body) if target.get("body_kind") == "base64" else body.encode()


async def by_api(session: aiohttp.ClientSession, attempts_of: list[str]) -> ApiDump:
    """The same through the API: every task by its pages, the counts, the attempts of some."""
    tasks: list[TaskLine] = []
    cursor: str | None = ""
    while cursor is not None:
        asked = {"limit": str(PAGE), "order": "asc"} | ({"cursor": cursor} if cursor else {})
        page = await _get(session, "/v1/tasks", asked)
        tasks += [
            TaskLine(one["id"], one["name"], one["state"], one["attempt"], reason=one["reason"]) for one in page["data"]
        ]
        cursor = page["next_cursor"]
    attempts: list[AttemptLine] = []
    for task_id in attempts_of:
        for one in (await _get(session, f"/v1/tasks/{task_id}/attempts", {"limit": str(PAGE)}))["data"]:
            fields = (one["attempt"], one["series"], one["fence"], one["state"], one["status"])
            attempts.append(AttemptLine(task_id, *fields))
    counts = (await _get(session, "/v1/stats", {}))["tasks"]
    listed = {state: count for state, count in counts.items() if count}
    return ApiDump(now_ms(), tasks, listed, attempts, attempts_of)


async def signing_secrets(session: aiohttp.ClientSession) -> list[str]:
    """The secrets, as a receiver would be given them."""
    return [one["secret"] for one in (await _get(session, "/v1/secrets", {"reveal": "1"}))["data"]]


async def events(session: aiohttp.ClientSession) -> dict[str, int]:
    """What the daemon has counted since its start: events by their name, ends of attempts by their outcome."""
    async with session.get("/metrics") as answer:
        text = await answer.text()
    return {name: int(float(number)) for name, number in EVENT.findall(text)}


async def _get(session: aiohttp.ClientSession, path: str, query: dict[str, str]) -> Any:
    async with session.get(path, params=query) as answer:
        body = await answer.read()
        assert answer.status == 200, f"GET {path} {query} was answered {answer.status}: {body[:500]!r}"
        return msgspec.json.decode(body)
