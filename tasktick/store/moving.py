"""A store moves: all that it holds is copied to another, compared there row by row, and only then served there.

The order (each step may be the last before a crash, and running the same move again goes on from there):

1. The target is marked as being filled: it is not served until it is whole.
2. Everything is copied, a chunk of a table at a time, each with how far that is in one transaction. Online, the source
   is served meanwhile; when this is done its daemon is asked to stop, and waited for.
3. The source says in a transaction of its own that it has moved: it is not served any more, and nobody writes to it.
4. Everything is read again on both sides and compared; what has changed since it was copied is copied again.
5. The target is opened.

Between 3 and 5 neither is served. Before 3 the source may be served again as if nothing had been; what it did then is
found by 4. Rows are equal by their logical values, whatever the dialects; the checksum of a table is the sum of those
of its rows, whose order does not matter.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from tasktick.clock import Clock
from tasktick.errors import StoreCorrupt, StoreError, StoreLocked, StoreMoved
from tasktick.store.moving_ends import Change, Chunk, End
from tasktick.store.moving_tables import TABLES, Row, Table
from tasktick.store.whereabouts import Whereabouts

S = TypeVar("S")
T = TypeVar("T")

LOOK_EVERY_MS = 500
# While the daemon is asked to stop, the copy follows what it does.
FOLLOW_EVERY_MS = 30_000
_BITS = 128


class Progress(msgspec.Struct, frozen=True):
    """How far it is, for a person."""

    phase: str
    table: str = ""
    rows: int = 0
    of: int = 0
    note: str = ""


class Carried(msgspec.Struct, frozen=True):
    """What both ends hold of a table."""

    table: str
    rows: int
    checksum: str


class Moved(msgspec.Struct, frozen=True):
    """What has been done."""

    source: str
    target: str
    tables: list[Carried]
    rows_copied: int = 0
    downtime_ms: int = 0
    already: bool = False


class Reached(msgspec.Struct, frozen=True):
    """How far the copy is, as the target keeps it: all tables before this one, and this one up to a key."""

    table: str
    after: Row | None = None


class Tools(msgspec.Struct, frozen=True):
    """What a move is given. `at` is told of each point at which it might be killed."""

    clock: Clock
    run: str
    tell: Callable[[Progress], None] = lambda progress: None
    at: Callable[[str], None] = lambda point: None


class Mover:
    """Moves one store to another place."""

    def __init__(self, source: End, target: End, tools: Tools) -> None:
        self._source = source
        self._target = target
        self._tools = tools
        self._rows = 0
        self._of = 0
        self._copied = 0

    async def move(self, *, online: bool = False, replace: bool = False) -> Moved:
        """Move, or go on with a move that was cut off."""
        self._require_two_places()
        if online:
            await self._source.look()
        else:
            try:
                await self._held(self._source)
            except StoreLocked as error:
                text = f"{error} Or add --online: then it is copied while it is served."
                raise StoreLocked(text, holder=error.holder) from error
        await self._held(self._target)
        there = await self._prepare(replace=replace)
        if there is None:
            return Moved(self._source.shown, self._target.shown, [], already=True)
        source = await self._source.whereabouts()
        if source.moved_to is None:
            await self._copy(there)
        if online:
            await self._wait_for_its_end(follow=source.moved_to is None)
        started_ms = self._tools.clock.monotonic_ms()
        await self._leave(await self._target.whereabouts())
        tables = await self._pass("check")
        self._tools.at("checked")
        await self._require_left()
        await self._target.open_up(self._tools.run)
        self._tools.at("opened")
        downtime_ms = round(self._tools.clock.monotonic_ms() - started_ms)
        return Moved(self._source.shown, self._target.shown, tables, self._copied, downtime_ms)

    async def forget(self, *, has_target: bool) -> None:
        """Give up a move that was cut off: the source is served again."""
        await self._held(self._source)
        found = await self._source.whereabouts()
        if found.moved_to is None:
            raise StoreError(f"The store {self._source.shown} has not moved: there is nothing to give up.")
        if has_target:
            self._require_two_places()
            await self._target.look()
            target = await self._target.whereabouts()
            if found.moved_to_id != target.store_id:
                raise StoreError(f"It moved to {found.moved_to}, which is not {self._target.shown}. Name that one.")
            if target.filled_from_id != found.store_id:
                raise StoreError(
                    f"The move to {self._target.shown} was not cut off: what has happened since is there alone. Move "
                    "back, the other way round, with --replace."
                )
            # A run that only slept would open the target beside the source: it is told that another has taken over.
            await self._held(self._target)
            await self._target.go_on(found.store_id, self._tools.run)
        await self._source.come_back()

    def _require_two_places(self) -> None:
        if self._source.shown == self._target.shown:
            raise StoreError(f"--from and --to are the same place, {self._source.shown}. Name another with --to.")

    async def _held(self, end: End) -> None:
        """Have it to ourselves; a node that was killed may seem to live for a while."""
        clock = self._tools.clock
        give_up_ms = clock.monotonic_ms() + end.patience_ms
        while True:
            try:
                await end.hold()
                return
            except StoreLocked as error:
                if clock.monotonic_ms() >= give_up_ms:
                    raise
                self._tools.tell(Progress("wait", note=str(error)))
                await clock.sleep_ms(LOOK_EVERY_MS)

    async def _prepare(self, *, replace: bool) -> Whereabouts | None:
        """See that the two belong together; None if all is done already. What is to be filled is marked."""
        source, target = await self._source.whereabouts(), await self._target.whereabouts()
        if source.store_id == target.store_id:
            raise StoreError(f"{self._target.shown} is {self._source.shown}, or a copy of it. Name an empty store.")
        if source.filled_from is not None:
            raise StoreMoved(
                f"{self._source.shown} is itself being filled from {source.filled_from}. End that move first."
            )
        if source.moved_to is not None and source.moved_to_id != target.store_id:
            left = f" What {self._target.shown} holds is of a move that was given up for that one: remove it."
            is_left = target.filled_from_id == source.store_id
            raise StoreMoved(
                f"{self._source.shown} has moved to {source.moved_to}. Move it from there.{left if is_left else ''}"
            )
        await self._require_same_columns()
        if target.filled_from_id == source.store_id:
            await self._target.go_on(source.store_id, self._tools.run)
            return await self._target.whereabouts()
        if source.moved_to is not None:
            if target.came_from_id == source.store_id:
                return None
            raise StoreError(f"{self._target.shown} holds nothing of this move any more. Give it up with --forget.")
        await self._require_room(source, target, replace=replace)
        await self._target.begin(self._source.shown, source.store_id, self._tools.run, clear=replace)
        self._tools.at("begun")
        return await self._target.whereabouts()

    async def _require_same_columns(self) -> None:
        for table in TABLES:
            ours, theirs = await self._source.columns(table), await self._target.columns(table)
            if tuple(ours) != tuple(theirs):
                raise StoreCorrupt(
                    f"The columns of {table.name} differ between the two stores. Run `store check` on both."
                )

    async def _require_room(self, source: Whereabouts, target: Whereabouts, *, replace: bool) -> None:
        """Nothing may be lost of what the target holds, but what is known to be old."""
        shown = self._target.shown
        if target.filled_from is not None and not replace:
            raise StoreMoved(
                f"{shown} is being filled from {target.filled_from}. End that move, or add --replace to drop what it "
                "has brought there."
            )
        is_old = target.moved_to_id == source.store_id or target.filled_from is not None
        if is_old and replace:
            return
        if target.moved_to is not None:
            advice = "Add --replace to drop what it holds from before." if is_old else "Name another."
            raise StoreMoved(f"{shown} is a store that has moved to {target.moved_to}. {advice}")
        if not await self._target.is_empty():
            raise StoreError(f"{shown} is not empty: it is a store in its own right. Name one that is.")

    async def _copy(self, there: Whereabouts) -> None:
        reached = None if there.filled_upto is None else msgspec.json.decode(there.filled_upto, type=Reached)
        if reached is not None and reached.after is not None:
            (keys,) = [table.keys for table in TABLES if table.name == reached.table]
            # An older program walked some tables in the order of another key: those begin anew.
            is_known = len(reached.after) == len(keys)
            reached = Reached(reached.table, tuple(reached.after) if is_known else None)
        await self._pass("copy", reached)

    async def _wait_for_its_end(self, *, follow: bool) -> None:
        """The daemon's operator has the word: it goes on as soon as the source is free."""
        clock = self._tools.clock
        followed_ms = clock.monotonic_ms()
        self._tools.at("waiting")
        while True:
            try:
                await self._source.hold()
                return
            except StoreLocked as error:
                note = f"Stop the daemon now ({error.holder}); the move goes on by itself."
                self._tools.tell(Progress("wait", note=note))
            await clock.sleep_ms(LOOK_EVERY_MS)
            if follow and clock.monotonic_ms() - followed_ms >= FOLLOW_EVERY_MS:
                await self._pass("follow")
                followed_ms = clock.monotonic_ms()

    async def _leave(self, target: Whereabouts) -> None:
        clock = self._tools.clock
        give_up_ms = clock.monotonic_ms() + self._source.patience_ms
        self._tools.at("leaving")
        while True:
            try:
                await self._source.move_away(self._target.shown, target.store_id, clock.now_ms())
                break
            except StoreLocked:  # somebody started it meanwhile
                if clock.monotonic_ms() >= give_up_ms:
                    raise
                await clock.sleep_ms(LOOK_EVERY_MS)
        self._tools.at("left")

    async def _require_left(self) -> None:
        """Somebody may have given the move up meanwhile, without the target."""
        source, target = await self._source.whereabouts(), await self._target.whereabouts()
        if source.moved_to_id != target.store_id:
            raise StoreMoved(f"The move was given up meanwhile: {self._source.shown} may be served again.")

    async def _pass(self, phase: str, reached: Reached | None = None) -> list[Carried]:
        """Bring the target to what the source holds, table by table; what it holds then."""
        names = [table.name for table in TABLES]
        start = 0 if reached is None else names.index(reached.table)
        todo = TABLES[start:]
        self._rows, self._of = 0, sum([await self._source.count(table) for table in todo])
        found = []
        for number, table in enumerate(todo):
            after = reached.after if reached is not None and number == 0 else None
            found.append(await self._bring(phase, table, after))
            self._tools.at(f"{phase} {table.name}")
        return found

    async def _bring(self, phase: str, table: Table, after: Row | None) -> Carried:
        rows = checksum = 0
        following: Chunk | None = await self._source.chunk(table, after)
        while following is not None:
            chunk = following
            held, following = await both(self._compared(table, after, chunk), self._following(table, chunk.upto))
            rows, checksum = rows + len(held), checksum + checksum_of(held)
            self._rows += len(held)
            self._tools.tell(Progress(phase, table.name, self._rows, max(self._of, self._rows)))
            after = chunk.upto
        return Carried(table.name, rows, f"{checksum % (1 << _BITS):032x}")

    async def _following(self, table: Table, after: Row | None) -> Chunk | None:
        """The next chunk, which is read while this one is compared and written."""
        return None if after is None else await self._source.chunk(table, after)

    async def _compared(self, table: Table, after: Row | None, chunk: Chunk) -> list[Row]:
        """Make this range hold in the target what it holds in the source; what is there, as it was read back."""
        limit = len(chunk.rows) + 1
        held = await self._target.between(table, after, chunk.upto, limit)
        if held == chunk.rows:
            return held
        upto = msgspec.json.encode(Reached(table.name, chunk.upto or after)).decode()
        self._tools.at("writing")
        change = Change(after, chunk, replace=bool(held), run=self._tools.run, progress=upto)
        await self._target.put(table, change)
        self._copied += len(chunk.rows)
        self._tools.at("written")
        held = await self._target.between(table, after, chunk.upto, limit)
        if held != chunk.rows:
            raise StoreCorrupt(f"What was written to {table.name} of {self._target.shown} is not what was read back.")
        return held


async def both(first: Awaitable[S], second: Awaitable[T]) -> tuple[S, T]:
    """Both results, side by side; where one fails, the other ends first: nobody is left using a connection."""
    results = await asyncio.gather(first, second, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value] # none of them is an exception


def checksum_of(rows: list[Row]) -> int:
    """The sum of the rows' own: their order does not matter."""
    return sum(
        int.from_bytes(hashlib.blake2b(msgspec.json.encode(row), digest_size=_BITS // 8).digest()) for row in rows
    )
