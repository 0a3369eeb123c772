"""What was seen of a run: one record a line, in the order in which the harness saw it.

The harness outlives every process that it kills, so the order and the clock are one. Each line is flushed
as it is written; a torn last line (the harness itself was stopped) is left out by `read`.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from tests.chaos.ledger_story import Book

Action = Literal["create", "batch", "cancel", "delete", "retry"]
Outcome = Literal["ok", "fail", "info"]
# Of a node; and, under the number 0, of the store that all nodes share.
FaultKind = Literal["kill", "armed", "term", "stop", "store", "cut", "join"]
Delivery = Literal["at_least_once", "at_most_once"]


class Wanted(msgspec.Struct, frozen=True):
    """A task as a client asked for it. The mark is its name: by it a task is known whose id nobody read."""

    mark: str
    behaviour: str
    body: str
    delivery: Delivery = "at_least_once"
    delay_ms: int = 0
    timeout_ms: int = 1_000
    max_attempts: int = 4
    retry_ms: int = 100


class Run(msgspec.Struct, frozen=True, tag="run"):
    """What was run, and what the checker must know of its settings."""

    suite: str
    seed: int
    count: int
    start_delay_ms: int
    lease_margin_ms: int
    sweep_every_ms: int
    demanded: list[str] = []
    # Of a ring: how long a term lasts; and by how much nothing may be late, if that is what is asked.
    ttl_ms: int | None = None
    delay_max_ms: int | None = None


class Secret(msgspec.Struct, frozen=True, tag="secret"):
    """The signing secret, as receivers hold it."""

    secret: str


class Invoked(msgspec.Struct, frozen=True, tag="invoked"):
    """A client began a call."""

    op: int
    at: int
    action: Action
    wanted: list[Wanted] = []
    task_id: str | None = None
    idempotency_key: str | None = None
    # The node that was asked, where there are several.
    via: str | None = None


class Returned(msgspec.Struct, frozen=True, tag="returned"):
    """What it read: `ok` a complete 2xx, `fail` surely nothing happened, `info` may have happened."""

    op: int
    at: int
    outcome: Outcome
    status: int | None = None
    ids: list[str | None] = []
    replayed: bool = False
    state: str | None = None
    attempt: int | None = None
    detail: str = ""


class Hit(msgspec.Struct, frozen=True, tag="hit"):
    """A receiver read a complete request. Header names are lower-case."""

    hit: int
    at: int
    connection: int
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    # The address that it came from.
    peer: str | None = None


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """How it went on: a whole answer written, a reset, or the sender gone before either."""

    hit: int
    at: int
    how: Literal["answer", "reset", "gone"]
    status: int | None = None


class Fault(msgspec.Struct, frozen=True, tag="fault"):
    """A fault that was made: from the moment it was begun to the moment its effect was seen."""

    at: int
    end: int
    kind: FaultKind
    node: int
    label: str | None = None
    # Of a cut: since when nothing passed.
    whole_at: int | None = None


class Node(msgspec.Struct, frozen=True, tag="node"):
    """A process of the daemon started, was ready, or ended."""

    at: int
    node: int
    what: Literal["started", "ready", "exited"]
    code: int | None = None
    # What it is called in a ring; a start has a number, and the starts of one name follow on each other.
    name: str | None = None
    # Of a start in a ring: whether it gossips.
    gossips: bool = True
    # Of a start: where it calls from.
    address: str | None = None


class Seen(msgspec.Struct, frozen=True, tag="seen"):
    """What a daemon's own metrics counted, read from outside while it lived."""

    at: int
    node: int
    events: dict[str, int]


class TaskLine(msgspec.Struct, frozen=True):
    """A task as it stands at the end. Ids are as clients see them."""

    id: str
    mark: str | None
    state: str
    attempt: int
    max_attempts: int = 0
    series: int = 1
    fence: int = 0
    run_at: int = 0
    wake_at: int = 0
    lease_until: int | None = None
    reason: str | None = None
    body: bytes | None = None
    schedule_id: str | None = None


class AttemptLine(msgspec.Struct, frozen=True):
    """An attempt as it was recorded."""

    task_id: str
    attempt: int
    series: int
    fence: int
    state: str
    status: int | None = None
    picked_at: int = 0
    completed_at: int = 0
    # Under which epoch it was claimed.
    epoch: int = 0


class DeadLetterLine(msgspec.Struct, frozen=True):
    """A dead letter at the end."""

    task_id: str
    reason: str
    resolution: str | None = None


class SqlDump(msgspec.Struct, frozen=True, tag="sql"):
    """The tables at the end, the counts that the product keeps, and what SQLite says of its file."""

    at: int
    tasks: list[TaskLine]
    attempts: list[AttemptLine]
    dead_letters: list[DeadLetterLine]
    counts: dict[str, int]
    integrity: list[str]


class ApiDump(msgspec.Struct, frozen=True, tag="api"):
    """The same end as the API tells it; attempts of some tasks only."""

    at: int
    tasks: list[TaskLine]
    counts: dict[str, int]
    attempts: list[AttemptLine] = []
    attempts_of: list[str] = []


class Taken(msgspec.Struct, frozen=True, tag="taken"):
    """A lease changed hands, written down by the database with the change, by its clock."""

    at: int
    asked: int
    """When the statement began."""
    partition: int
    epoch: int
    holder: str | None
    """An incarnation; None: it was given back."""
    before: str | None = None
    before_epoch: int = 0
    before_expires_at: int | None = None
    before_dead_at: int | None = None


class Term(msgspec.Struct, frozen=True, tag="term"):
    """The row of a node as it was written, by the database's clock."""

    at: int
    incarnation: str
    name: str
    expires_at: int | None
    dead_at: int | None = None
    leaving: bool = False


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """A lease as somebody saw it."""

    partition: int
    epoch: int
    holder: str | None


class Leases(msgspec.Struct, frozen=True, tag="leases"):
    """All leases and the terms of those who live, at one instant of the database."""

    at: int
    leases: list[Lease]
    expires_at: dict[str, int | None]


class Logged(msgspec.Struct, frozen=True, tag="logged"):
    """How often a node of this name has said something in its log."""

    name: str
    events: dict[str, int]


class Connections(msgspec.Struct, frozen=True, tag="connections"):
    """How many connections nodes have asked the server for, by the second."""

    by_second: dict[int, int]


class Books(msgspec.Struct, frozen=True, tag="books"):
    """The schedules at the end."""

    at: int
    books: list[Book]


OfRing = Taken | Term | Leases | Logged | Connections | Books
Record = OfRing | Run | Secret | Invoked | Returned | Hit | Answered | Fault | Node | Seen | SqlDump | ApiDump

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def now_ms() -> int:
    """The clock of every record: the machine's, which the daemon reads too."""
    return time.time_ns() // 1_000_000


class HistoryWriter:
    """Appends records to a file, and keeps them for the checker."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: list[Record] = []
        self._file = path.open("ab", buffering=0)
        self._numbers: dict[str, int] = {}

    def add(self, record: Record) -> None:
        """Append a record; it is in the file when this returns."""
        self.records.append(record)
        self._file.write(_ENCODER.encode(record) + b"\n")

    def number(self, of: str) -> int:
        """The next number of its kind: calls, hits, connections, nodes."""
        self._numbers[of] = self._numbers.get(of, 0) + 1
        return self._numbers[of]

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> Iterator[Record]:
    """The records of a file."""
    for line in path.read_bytes().split(b"\n")[:-1]:
        yield _DECODER.decode(line)
