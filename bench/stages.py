"""What the stages of a fire cost by themselves: the frame of `fire_stages` and `schedule_stages`.

A file of its own that is owned as a node owns it, one thread that does nothing else, and the processor time that each
stage took.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

import uvloop

from bench.tasks import now_ms
from tasktick import logs
from tasktick.clock import SystemClock
from tasktick.model.ids import IdMaker
from tasktick.service import Services
from tasktick.store import leases
from tasktick.store.claims import ClaimRequest
from tasktick.store.connect import raw_connection
from tasktick.store.database import FILE_NAME, open_sqlite
from tasktick.store.protocol import Operation
from tasktick.store.sqlite import WRITER_PRAGMAS, read_with, step, write_with

T = TypeVar("T")
HOST = "127.0.0.1:9"
TARGET_URL = f"http://{HOST}/never"
NODE, INCARNATION = "bench", "incarnation-1"
CREATED_AT_ONCE = 500


async def _make(file: Path) -> None:
    services = Services(SystemClock())
    crash: Callable[[BaseException], None] = partial(services.crash, "store")
    database = await open_sqlite(file, services.spawn, crash)
    await database.close()


class Stages:
    """A store that is ours, and what has been spent on each stage."""

    def __init__(self, folder: Path) -> None:
        logs.configure("error", "console")
        file = folder / FILE_NAME
        uvloop.run(_make(file))
        self._raw = raw_connection(file, WRITER_PRAGMAS)
        self._claims = 0
        self.random = Random(7)
        self.ids = IdMaker(Random(8))
        self.now = now_ms()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.fires = 0
        self.write(lambda tx: leases.start_node(tx, leases.Start(INCARNATION, NODE), self.now))
        self.epochs = self.write(lambda tx: leases.acquire(tx, INCARNATION, self.now))

    @contextmanager
    def spent(self, stage: str) -> Iterator[None]:
        """What is done within is this stage."""
        began = time.process_time()
        yield
        self.seconds[stage] += time.process_time() - began

    def write(self, operation: Operation[T]) -> T:
        """In a transaction of its own, as the writer does."""
        return write_with(self._raw, lambda tx: step(operation(tx)))

    def read(self, operation: Operation[T]) -> T:
        """As the loader does."""
        return read_with(self._raw, operation)

    def next_claim(self) -> ClaimRequest:
        """Who claims, and when."""
        self._claims += 1
        return ClaimRequest(NODE, INCARNATION, self.epochs, self._claims, self.now, 15, 2_000, 2_000)
