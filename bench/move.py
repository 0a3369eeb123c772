"""A store moves to a PostgreSQL of this machine and back: rows a second, and what the command holds in memory.

Beside it, in the same round, the limit: the same rows, already in memory, by COPY or by INSERT alone, as many a
transaction, into the same tables. A move reads and copies, and then reads all again on both sides to compare.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bench.boot import FAR_SPAN_MS, stocked
from bench.figures import Figure, per_second, ratio
from bench.tasks import NEXT_YEAR_MS, now_ms
from tasktick.store.database import FILE_NAME
from tasktick.store.moving_ends import ROWS_MAX, Change, Chunk, End
from tasktick.store.moving_sqlite import SqliteEnd
from tasktick.store.moving_tables import TABLES, Row, Table
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.postgres_moving import PostgresEnd
from tests.postgres import installed, own_cluster

TASKS = 100_000
ROUNDS = 3
RUN = "bench"


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, on the newest server that is there."""
    count, rounds = (TASKS // 10, 1) if quick else (TASKS, ROUNDS)
    data = stocked(folder / "data", count, now_ms() + NEXT_YEAR_MS, FAR_SPAN_MS)
    version = max(installed())
    found: dict[str, list[float]] = {name: [] for name in ("there", "copy", "back", "insert", "end", "memory")}
    for number in range(rounds):
        place = folder / f"round-{number}"
        place.mkdir()
        shutil.copy(data / FILE_NAME, place / "from.db")
        with own_cluster(version) as server:
            url, limit_url = (asyncio.run(server.new_database()) for _ in range(2))
            rows = _move(found, "there", f"sqlite:///{place}/from.db", url)
            _move(found, "back", url, f"sqlite:///{place}/back.db")
            held = asyncio.run(_held(SqliteEnd(place / "back.db", may_make=False)))
            assert rows >= sum(len(part) for _, part in held), "all that is held was moved"
            limit = PostgresEnd(PostgresAddress(limit_url, RUN), may_make=True)
            found["copy"].append(asyncio.run(_limit(limit, held)))
            found["insert"].append(asyncio.run(_limit(SqliteEnd(place / "limit.db", may_make=True), held)))
        shutil.rmtree(place)
    there, back, copy, insert = (_rate(name, found) for name in ("there", "back", "copy", "insert"))
    return [
        there,
        copy,
        ratio("to PostgreSQL, to the limit", there, copy),
        back,
        insert,
        ratio("back to SQLite, to the limit", back, insert),
        Figure("neither is served: comparing, at the end", "s", tuple(found["end"])),
        Figure("memory of the command, at most", "MB", tuple(found["memory"])),
    ]


TITLES = {
    "there": f"to PostgreSQL, {TASKS:,} tasks with all that is theirs",
    "copy": "limit: COPY alone",
    "back": "back to SQLite",
    "insert": "limit: INSERT alone",
}


def _rate(name: str, found: dict[str, list[float]]) -> Figure:
    return Figure(TITLES[name], "rows/s", tuple(found[name]))


def _move(found: dict[str, list[float]], name: str, source: str, target: str) -> int:
    """Run the command; how many rows it moved."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "tasktick", "store", "move", "--from", source, "--to", target, "-o", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    said = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    moved = json.loads(said)
    rows = sum(int(one["rows"]) for one in moved["tables"])
    found[name].append(per_second(rows, seconds))
    found["end"].append(moved["downtime_ms"] / 1_000)
    found["memory"].append(usage.ru_maxrss / 1_024)
    return rows


async def _held(end: End) -> list[tuple[Table, list[Row]]]:
    """All that a store holds."""
    await end.look()
    held = []
    for table in TABLES:
        await end.columns(table)
        held.append((table, [] if table.only else await end.between(table, None, None, 1 << 40)))
    await end.close()
    return held


async def _limit(end: End, held: list[tuple[Table, list[Row]]]) -> float:
    """Rows a second, written and nothing else."""
    await end.hold()
    await end.begin("nowhere", RUN, RUN, clear=False)
    for table, _ in held:
        await end.columns(table)
    started = time.perf_counter()
    for table, rows in held:
        for at in range(0, len(rows), ROWS_MAX):
            change = Change(None, Chunk(rows[at : at + ROWS_MAX], None), replace=False, run=RUN, progress="")
            await end.put(table, change)
    seconds = time.perf_counter() - started
    await end.close()
    return per_second(sum(len(rows) for _, rows in held), seconds)
