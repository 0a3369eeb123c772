"""Limit of `create`: the store by itself. So many creators that wait for the same commits, and no HTTP."""

import argparse
import asyncio
import secrets
import sys
import time
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import uvloop

from bench.tasks import NEXT_YEAR_MS, body_of, now_ms
from tasktick import logs
from tasktick.clock import SystemClock
from tasktick.model.ids import PARTITIONS, IdMaker
from tasktick.model.state import State
from tasktick.model.task import DEFAULT_PRIORITY, NewTask, Payload, Target, TaskDetail, TaskState
from tasktick.service import Services
from tasktick.store.database import FILE_NAME, SqliteDatabase, open_sqlite
from tasktick.store.tasks import CREATE, Create

HOST = "127.0.0.1:9"


def new_task(ids: IdMaker, random: Random, number: int) -> NewTask:
    """A task as the API would make it."""
    now = now_ms()
    at, task_id = now + NEXT_YEAR_MS, ids.new(now, random.randrange(PARTITIONS))
    return NewTask(
        TaskState(
            id=task_id,
            tenant="default",
            state=State.SCHEDULED,
            queue="default",
            host=HOST,
            priority=DEFAULT_PRIORITY,
            run_at=at,
            due_at=at,
            wake_at=at,
            max_attempts=5,
            timeout_ms=30_000,
            updated_at=now,
        ),
        TaskDetail(task_id, "default", now, name="bench"),
        Payload(Target(f"http://{HOST}/never", body_kind="json", body=body_of(number).decode())),
    )


async def _create(database: SqliteDatabase, ids: IdMaker, random: Random, per_call: int, until: float) -> int:
    count = 0
    while time.perf_counter() < until:
        creates = [Create(new_task(ids, random, count + n)) for n in range(per_call)]
        results = await database.write_batch(CREATE, creates)
        assert results == [None] * per_call
        count += per_call
    return count


async def measure(folder: Path, creators: int, per_call: int, seconds: float) -> dict[str, float]:
    """Create for so long."""
    logs.configure("error", "console")
    services = Services(SystemClock())
    random = Random(secrets.randbits(64))
    database = await open_sqlite(folder / FILE_NAME, services.spawn, partial(services.crash, "store"))
    try:
        ids = IdMaker(random)
        began = time.perf_counter()
        jobs = [_create(database, ids, random, per_call, began + seconds) for _ in range(creators)]
        counts = await asyncio.gather(*jobs)
        return {"rows": sum(counts), "seconds": time.perf_counter() - began}
    finally:
        await database.close()


def main() -> None:
    """Measure once and say it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--folder", type=Path, required=True)
    arguments.add_argument("--creators", type=int, required=True)
    arguments.add_argument("--per-call", type=int, required=True)
    arguments.add_argument("--seconds", type=float, required=True)
    given = arguments.parse_args()
    said = uvloop.run(measure(given.folder, given.creators, given.per_call, given.seconds))
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")


if __name__ == "__main__":
    main()
