"""Torn tails: a write-ahead log cut, blanked or scrambled anywhere after what was last synced.

A disk may have written any of the sectors that were not yet synced, and any part of the last one. So the log
up to the end of the last acknowledged commit is kept, and what follows is torn; what was acknowledged must be
there, each later commit whole or not at all, and in order.
"""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tasktick.model.ids import IdMaker
from tasktick.model.state import State
from tasktick.model.task import NewTask, Payload, Target, TaskDetail, TaskState
from tasktick.store.connect import raw_connection
from tasktick.store.database import open_sqlite
from tasktick.store.sqlite import WRITER_PRAGMAS
from tasktick.store.tasks import CREATE, Create
from tests.chaos import dump
from tests.chaos.history import now_ms
from tests.chaos.verdict import Violation

FILE = "tasktick.db"
LOG = f"{FILE}-wal"
SECTOR = 512
TEARS_A_STORE = 10
COMMITS_BEFORE = (1, 8)
COMMITS_AFTER = (1, 6)
TASKS_A_COMMIT = (1, 30)


class Torn(msgspec.Struct, frozen=True):
    """A store at rest, its log, and what had been acknowledged when the log had its safe length."""

    folder: Path
    safe_bytes: int
    acknowledged: set[str]
    later: list[set[str]]


async def make(folder: Path, random: Random) -> Torn:
    """Write a store, and keep it as it lies on disk while it is open."""
    live, kept = folder / "live", folder / "kept"
    ids = IdMaker(random)
    database = await open_sqlite(live / FILE, _spawn, _crashed)
    try:
        if random.random() < 0.5:  # a log that starts again leaves its old frames behind its end
            acknowledged = await _commit(database, ids, random)
            connection = raw_connection(live / FILE, WRITER_PRAGMAS)
            connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            connection.close()
        else:
            acknowledged = set()
        for _ in range(random.randint(*COMMITS_BEFORE)):
            acknowledged |= await _commit(database, ids, random)
        safe_bytes = end_of_log((live / LOG).read_bytes())
        later = [await _commit(database, ids, random) for _ in range(random.randint(*COMMITS_AFTER))]
        kept.mkdir()
        for name in (FILE, LOG):
            shutil.copy(live / name, kept / name)
    finally:
        await database.close()
    return Torn(kept, safe_bytes, acknowledged, later)


def _spawn(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    return asyncio.create_task(work, name=name)


def _crashed(error: BaseException) -> None:
    raise error


async def _commit(database: Any, ids: IdMaker, random: Random) -> set[str]:
    now = now_ms()
    creates = [
        _create(ids.new(now, random.randrange(256)), now, random) for _ in range(random.randint(*TASKS_A_COMMIT))
    ]
    results = await database.write_batch(CREATE, creates)
    assert not any(results), f"a create was refused: {results}"
    return {dump.wire(one.task.state.id) for one in creates}


def _create(task_id: str, now: int, random: Random) -> Create:
    state = TaskState(
        id=task_id,
        tenant="default",
        state=State.SCHEDULED,
        queue="default",
        host="receiver",
        priority=5,
        run_at=now,
        due_at=now,
        wake_at=now,
        max_attempts=5,
        timeout_ms=1_000,
        updated_at=now,
    )
    body = "x" * random.randint(0, 2_000)
    payload = Payload(Target("http://receiver/hook", body_kind="text", body=body))
    return Create(NewTask(state, TaskDetail(task_id, "default", now), payload))


def end_of_log(log: bytes | bytearray) -> int:
    """Where the frames of the log's present life end: those after it are of an earlier one."""
    page_bytes = int.from_bytes(log[8:12], "big")
    salt, at = log[16:24], 32
    while log[at + 8 : at + 16] == salt and at + 24 + page_bytes <= len(log):
        at += 24 + page_bytes
    return at


def _cut(log: bytearray, safe: int, end: int, random: Random) -> None:
    del log[random.randint(safe, end) :]


def _blank(log: bytearray, safe: int, end: int, random: Random) -> None:
    at = random.randint(safe, end)
    log[at:] = bytes(len(log) - at)


def _scramble(log: bytearray, safe: int, end: int, random: Random) -> None:
    """Some sectors arrived, some did not, some half."""
    for at in range(safe, end, SECTOR):
        draw = random.random()
        length = min(SECTOR, end - at)
        if draw < 0.3:
            log[at : at + length] = bytes(length)
        elif draw < 0.4:
            log[at : at + length] = random.randbytes(length)


TEARS: tuple[Callable[[bytearray, int, int, Random], None], ...] = (_cut, _blank, _scramble)


def tear(torn: Torn, to: Path, random: Random) -> list[Violation]:
    """Tear a copy of the log, open the store as the product does, and say what is wrong with it."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(torn.folder, to)
    log = bytearray((to / LOG).read_bytes())
    how = random.choice(TEARS)
    how(log, torn.safe_bytes, end_of_log(log), random)
    (to / LOG).write_bytes(log)
    connection = raw_connection(to / FILE, WRITER_PRAGMAS)
    try:
        recovered = dump.by_sql(connection)
    finally:
        connection.close()
    return _judge(torn, {row.id for row in recovered.tasks}, recovered.integrity, how.__name__)


def _judge(torn: Torn, there: set[str], troubles: list[str], how: str) -> list[Violation]:
    found = [Violation("integrity", f"{how}: {trouble}") for trouble in troubles]
    missing = torn.acknowledged - there
    if missing:
        found.append(Violation("lost", f"{how}: {len(missing)} of {len(torn.acknowledged)} acknowledged are gone"))
    whole = [commit <= there for commit in torn.later]
    if any(commit & there and not commit <= there for commit in torn.later):
        found.append(Violation("not_whole", f"{how}: a commit is there in part"))
    if whole != sorted(whole, reverse=True):
        found.append(Violation("not_whole", f"{how}: a later commit is there without an earlier one: {whole}"))
    return found
