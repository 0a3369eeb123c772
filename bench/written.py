"""What a task writes, by when it is made and when it fires: rows, and bytes that must reach a disk.

That is what a disk, a network to a standby, and a plan for many machines have to bear; see docs/scale.md.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import asyncpg

from bench.daemon import Ledger, ServerLedger, running
from bench.figures import Figure
from bench.fire import LOOK_SECONDS, SECONDS_MAX
from bench.processes import child
from bench.tasks import now_ms
from tests.postgres import installed, own_cluster

TASKS = 20_000
AHEAD_MS = 40_000
STATISTICS_SECONDS = 12.0
OF_A_SERVER = """SELECT pg_current_wal_lsn() - '0/0'::pg_lsn, sum(n_tup_ins)::bigint, sum(n_tup_upd)::bigint
FROM pg_stat_user_tables"""

Counts = tuple[float, ...]


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, for a file and for each version of PostgreSQL that is there."""
    count = TASKS // 10 if quick else TASKS
    found: list[Figure] = []
    with child("bench.receiver") as receiver:
        url = f"http://127.0.0.1:{receiver['port']}/fire"
        created, fired = _of(folder / "file", url, count, None)
        found += _figures("SQLite", count, ("bytes written",), created, fired)
        for version in sorted(installed()):
            with own_cluster(version) as server:
                created, fired = _of(folder / f"server-{version}", url, count, asyncio.run(server.new_database()))
            names = ("bytes of log", "rows inserted", "rows updated")
            found += _figures(f"PostgreSQL {version}", count, names, created, fired)
    return found


def _of(folder: Path, url: str, count: int, store: str | None) -> tuple[Counts, Counts]:
    """What was written until so many tasks were made, and from then on until all had succeeded."""
    with running(folder, store) as daemon:
        ledger = Ledger(folder) if store is None else ServerLedger(store)
        read: Callable[[], Counts] = (
            (lambda: _of_a_file(daemon.process.pid)) if store is None else (lambda: _of_a_server(store))
        )
        try:
            before = read()
            due_ms = now_ms() + AHEAD_MS
            daemon.create(url, [due_ms] * count)
            between = read()
            if now_ms() > due_ms - 1_000:
                raise RuntimeError("creating the tasks took so long that they are due: give them more time")
            while ledger.succeeded() < count and now_ms() < due_ms + SECONDS_MAX * 1_000:
                time.sleep(LOOK_SECONDS)
            if ledger.succeeded() < count:
                raise RuntimeError("not every task has succeeded")
            after = read()
        finally:
            ledger.close()
    return _less(between, before), _less(after, between)


def _of_a_file(pid: int) -> Counts:
    """Bytes that the process has had written to a disk."""
    lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return (float(lines["write_bytes"]),)


def _of_a_server(url: str) -> Counts:
    async def ask() -> Counts:
        connection = await asyncpg.connect(url)
        try:
            row = await connection.fetchrow(OF_A_SERVER)
            return tuple(float(one or 0) for one in row or ())
        finally:
            await connection.close()

    time.sleep(STATISTICS_SECONDS)  # a connection tells what it has written when it has been idle for ten seconds
    return asyncio.run(ask())


def _less(later: Counts, before: Counts) -> Counts:
    return tuple(one - other for one, other in zip(later, before, strict=True))


def _figures(store: str, count: int, names: tuple[str, ...], created: Counts, fired: Counts) -> list[Figure]:
    return [
        Figure(f"{name} to {what} a task, {store}", "", (value / count,))
        for what, values in (("make", created), ("fire", fired))
        for name, value in zip(names, values, strict=True)
    ]
