"""The tasks of a batch, as they are read: part by part, each of which is written in one commit.

Plain tasks are bound right here as the store takes them, and what they were read into goes at once: see
`store/plain_tasks`. Those of a batch with an Idempotency-Key are not plain, nor are those with a key of their own, nor
what comes behind one: the store gives what room is left in the order of a batch.
"""

from collections.abc import Sequence

import msgspec

from tasktick.api import problems, render
from tasktick.api.call import Call, encode
from tasktick.api.decoding import Decoder
from tasktick.api.schemas import TaskRequest
from tasktick.api.task_requests import new_task, row_of
from tasktick.api.tasks import OK, making_of
from tasktick.errors import Refused, TaskTickError
from tasktick.model.ids import wire
from tasktick.model.task import TaskState
from tasktick.store.names import IdempotencyKey, StoredAnswer
from tasktick.store.plain_tasks import Slice, slice_of
from tasktick.store.task_rows import DUE_AT, NewRow
from tasktick.store.tasks import Create

# So many characters are read before the loop gets its turn again, half a millisecond of them, and what a task costs by
# itself counted as some.
STRETCH_CHARS = 50_000
TASK_CHARS = 200
# While something is about to start, no more are written at once; and never many more characters.
PART_ROWS = 500
PART_CHARS = 400_000
# Smaller batches are better written with those of others, of which there may be many.
SLICE_LEAST = 50
# No key of a client contains it, so no derived key is ever one of a client's.
JOINT = "\x1f"

# What to do where more comes behind the JSON: `curl -d` takes the ends of lines away.
NO_LINES = "One task a line is Content-Type: application/x-ndjson; with curl --data-binary, as -d joins the lines."

_ITEM = Decoder(TaskRequest, NO_LINES)

# What is answered of a task, as JSON.
Result = str


def made(task_id: str) -> Result:
    """That the task is made that is called this inside: nothing in an id is written otherwise in JSON."""
    return f'{{"id":"{wire(render.TASK, task_id)}"}}'


def refused(error: TaskTickError) -> Result:
    """That a task is not made, and why."""
    return encode({"error": problems.item_error(error)}).decode()


class Part(msgspec.Struct):
    """Some tasks of a batch, which are written together: as a slice, or each by itself."""

    places: list[int] = []
    """Where they stand in the batch; they ascend."""
    creates: list[tuple[int, Create]] = []
    """What is written of each, if it is by itself."""
    ids: list[str] = []
    """What they are called, if they are a slice."""
    rows: list[NewRow] = []
    """What is written of each, until that is put together."""
    slice: Slice | None = None
    """What is written of all."""
    near: list[TaskState] = []
    """Those of a slice of which the scheduler is to be told."""


class Reading:
    """Reads the tasks of a batch; the result of one that has something wrong with it is what that is."""

    def __init__(self, call: Call, items: Sequence[msgspec.Raw | bytes], key: IdempotencyKey | None) -> None:
        self.results: list[Result] = [""] * len(items)
        self.in_slices = key is None and len(items) >= SLICE_LEAST
        """Whether plain ones are, from here on. Not once a slice could not be written, or one with a key has come."""
        self._call = call
        self._limits = call.ports.config.server
        # Of a part, which somebody who waits for a claim has to wait for.
        self._part_rows = PART_ROWS
        self._items = items
        self._key = key
        self._making = making_of(call)
        self._seen: set[str] = set()
        self._at = 0
        self._near_until: int | None = None

    async def next(self) -> Part | None:
        """As many as are written at once; none at the end."""
        ports = self._call.ports
        self._near_until = ports.near_until()
        self._part_rows = PART_ROWS if ports.pressed() else ports.database.slice_rows
        part = Part()
        if self.in_slices and not self._making.ahead:
            count = min(self._part_rows, len(self._items) - self._at)
            self._making.ahead.extend(reversed(self._making.ids.several(self._making.now, count)))
        self._at = await self._read(range(self._at, len(self._items)), part)
        if part.rows:
            part.ids = [row.id for row in part.rows]
            part.slice = slice_of(part.rows, ports.database.bind)
            part.rows.clear()
        return part if part.places else None

    async def again(self, places: Sequence[int]) -> list[tuple[int, Create]]:
        """Those of a slice that was not written, to be judged each by itself."""
        self.in_slices = False
        part = Part()
        await self._read(places, part)
        return part.creates

    async def _read(self, places: Sequence[int], part: Part) -> int:
        """Add those in these places, but for what has something wrong with it, until the part is full; where to go on.

        Now and then others have their turn.
        """
        items, filled, stretch, chars = self._items, part.places, 0, 0
        for at in places:
            try:
                if len(filled) >= self._part_rows or chars > PART_CHARS or not self._add(at, part):
                    return at
            except TaskTickError as error:
                self.results[at] = refused(error)
            chars += len(items[at])
            stretch += TASK_CHARS + len(items[at])
            if stretch > STRETCH_CHARS:
                stretch = 0
                await self._call.ports.clock.sleep_ms(0)
        return len(items)

    def _add(self, at: int, part: Part) -> bool:
        """Whether it was; else it is of the next part, since this one is a slice, and it cannot be in it."""
        item = self._items[at]
        request: TaskRequest = _ITEM.decode(item, self._limits.json_depth_max)
        if len(item) > self._limits.body_max_bytes:
            detail = f"A task has at most {self._limits.body_max_bytes} bytes (server.body_max_bytes)."
            raise Refused("payload_too_large", detail)
        if not self.in_slices or request.key is not None:
            return self._add_apart(at, request, part)
        row = row_of(request, self._making)
        part.rows.append(row)
        if self._near_until is None or row.row[DUE_AT] <= self._near_until:
            part.near.append(row.task().state)
        part.places.append(at)
        return True

    def _add_apart(self, at: int, request: TaskRequest, part: Part) -> bool:
        self.in_slices = False
        self._making.ahead.clear()  # its own id is made now, and those behind it come after that
        if part.rows:
            return False
        new = new_task(request, self._making)
        self._know(request)
        key = _derived(self._key, at)
        answer = None if key is None else StoredAnswer(OK, wire(render.TASK, new.state.id))
        part.creates.append((at, Create(new, key, answer)))
        part.places.append(at)
        return True

    def _know(self, request: TaskRequest) -> None:
        """No two tasks of a batch have the same key."""
        if request.key is None:
            return
        if request.key in self._seen:
            detail = "An earlier task of this batch has the same key."
            raise Refused("key_taken", detail, errors=[("/key", detail)])
        self._seen.add(request.key)


def _derived(key: IdempotencyKey | None, at: int) -> IdempotencyKey | None:
    return None if key is None else msgspec.structs.replace(key, name=f"{key.name}{JOINT}{at}")
