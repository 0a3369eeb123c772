"""What a simulated node stands on: a clock that can be set, a store connection that can die, receivers with moods."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec

from tasktick.dispatch.outcome import Outcome, Request
from tasktick.store.connect import RawConnection, raw_connection
from tasktick.store.database import Links, SqliteDatabase
from tasktick.store.migrate import migrate
from tests.sim.deadlines import Deadlines

T = TypeVar("T")

EPOCH_MS = 1_790_000_000_000
PRAGMAS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF")
MOODS = ("ok", "ok", "ok", "slow", "flaky", "error", "reject", "later", "reset", "silent", "refuse")


class Died(BaseException):
    """The process is dead: whoever still runs is a ghost and must not go on."""


class SimClock:
    """A node's own wall clock over the loop's time; it may be set."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.offset_ms = 0

    def now_ms(self) -> int:
        return EPOCH_MS + self.offset_ms + int(self._loop.time() * 1_000)

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1_000

    async def sleep_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(max(0.0, duration_ms) / 1_000)


class Life:
    """Whether the process that holds this still lives."""

    def __init__(self) -> None:
        self.dead = False


class InlineLink:
    """A connection without a thread, which does one thing after the other as a thread does: what a dead process asks of
    it never happens."""

    def __init__(self, raw: RawConnection, life: Life, random: Random) -> None:
        self._raw = raw
        self._life = life
        self._random = random
        self._turn = asyncio.Lock()

    async def call(self, work: Callable[[RawConnection], T]) -> T:
        async with self._turn:
            await asyncio.sleep(self._random.random() * 0.002)
            if self._life.dead:
                raise Died
            result = work(self._raw)
        # The commit is done and its caller does not know yet: a death here is an acknowledged nothing.
        await asyncio.sleep(self._random.random() * 0.002)
        if self._life.dead:
            raise Died
        return result

    async def close(self) -> None:
        self._raw.close()


def open_database(
    path: Path,
    life: Life,
    random: Random,
    crash: Callable[[BaseException], None],
    writer: Callable[[RawConnection], InlineLink] | None = None,
) -> tuple[SqliteDatabase, Callable[[], None]]:
    """The real store over inline connections; and what closes them behind a dead process."""
    raws = [raw_connection(path, PRAGMAS) for _ in range(3)]
    migrate(raws[0])
    links = [InlineLink(raw, life, random) for raw in raws]
    if writer is not None:
        links[0] = writer(raws[0])
    database = SqliteDatabase(Links(*links), crash)

    def bury() -> None:
        for raw in raws:
            raw.close()

    return database, bury


class Hit(msgspec.Struct, frozen=True):
    """A complete request at a receiver."""

    task_id: str
    attempt: int
    fence: int
    at: int
    wall: int
    status: int | None
    life: int


class Receivers:
    """All receivers: what each task meets is drawn from its id, so that a run can be repeated."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seed: int) -> None:
        self._loop = loop
        self._seed = seed
        self.hits: list[Hit] = []

    def mood(self, task_id: str) -> str:
        drawn = hashlib.sha256(f"{self._seed}:{task_id}".encode()).digest()[0]
        return MOODS[drawn % len(MOODS)]

    def plan(self, task_id: str, attempt: int) -> tuple[float, int | None, str | None]:
        """How long it takes, what is answered, or which failure there is."""
        drawn = int.from_bytes(hashlib.sha256(f"{self._seed}:{task_id}:{attempt}".encode()).digest()[:4], "big")
        quick = 0.001 + drawn % 20 / 1_000
        match self.mood(task_id):
            case "slow":
                return 0.5 + drawn % 3, 200, None
            case "flaky":
                return quick, 200 if attempt > 2 else 503, None
            case "error":
                return quick, 500, None
            case "reject":
                return quick, 422, None
            case "later":
                return quick, 200 if attempt > 1 else 429, None
            case "reset":
                return quick, 200 if attempt > 2 else None, "reset"
            case "silent":
                return 3_600.0, None, "timeout"
            case "refuse":
                return quick, 200 if attempt > 1 else None, "connect_failed"
        return quick, 200, None


class SimSender(Deadlines):
    """Sends to the receivers of this world. A request that has left arrives, whatever becomes of its sender."""

    def __init__(self, receivers: Receivers, clock: SimClock, life: Life, number: int) -> None:
        super().__init__()
        self._receivers = receivers
        self._clock = clock
        self._life = life
        self._number = number

    async def send(self, request: Request) -> Outcome:
        started_ms = self._clock.monotonic_ms()
        if started_ms > request.start_by_ms:
            return outcome_of(None, "too_late", started_ms, 0.0, byte_left=False)
        headers = dict(request.all_headers)
        task_id, attempt = headers["webhook-id"], int(headers["TaskTick-Attempt"])
        seconds, status, failure = self._receivers.plan(task_id, attempt)
        task = asyncio.current_task()
        assert task is not None
        self._deadlines[task] = request.deadline_ms
        try:
            await asyncio.sleep(0.0005)
            if self._life.dead:
                raise Died
            if failure != "connect_failed" or status is not None:
                self._hit(task_id, attempt, int(headers["TaskTick-Fence"]), status)
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if task not in self._expired or task.uncancel() > 0:
                raise
            status, failure = None, "timeout"
        finally:
            self._deadlines.pop(task, None)
            self._expired.discard(task)
        duration_ms = self._clock.monotonic_ms() - started_ms
        return outcome_of(status, failure, started_ms, duration_ms, byte_left=failure != "connect_failed")

    def _hit(self, task_id: str, attempt: int, fence: int, status: int | None) -> None:
        at, wall = int(self._clock.monotonic_ms()), self._clock.now_ms()
        hit = Hit(task_id.removeprefix("tsk_"), attempt, fence, at, wall, status, self._number)
        self._receivers.hits.append(hit)


def outcome_of(
    status: int | None, failure: str | None, started_ms: float, duration_ms: float, *, byte_left: bool
) -> Outcome:
    failed = status is None
    return Outcome(
        status=status,
        headers=[("Retry-After", "1")] if status == 429 else [],
        body=b"",
        truncated=False,
        error_code=failure if failed else None,
        error_class="network" if failed else None,
        detail=failure or "",
        byte_left=byte_left,
        started_at_monotonic_ms=started_ms,
        duration_ms=duration_ms,
    )


class NoSecrets:
    """Signing is tried elsewhere. Of some tenants nothing is known until it is let go."""

    def __init__(self) -> None:
        self.held: dict[str, asyncio.Event] = {}

    def knows(self, tenants: Iterable[str]) -> bool:
        return not any(tenant in self.held and not self.held[tenant].is_set() for tenant in tenants)

    async def load(self, tenants: Iterable[str]) -> None:
        for tenant in tenants:
            if tenant in self.held:
                await self.held[tenant].wait()

    def of(self, tenant: str) -> Sequence[bytes]:
        return [b"0" * 32]


def unsealed(tenant: str, sealed: Mapping[str, str]) -> dict[str, str]:
    """Nothing is sealed here."""
    return dict(sealed)
