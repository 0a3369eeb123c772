"""A history put in order: what was asked for, sent, recorded and left, task by task. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from tests.chaos.history import (
    Answered,
    ApiDump,
    AttemptLine,
    Books,
    Fault,
    Hit,
    Invoked,
    Node,
    OfRing,
    Record,
    Returned,
    Run,
    Secret,
    Seen,
    SqlDump,
    Taken,
    TaskLine,
    Wanted,
)
from tests.chaos.ring_story import FOR_EVER, RingStory

FINISHED = frozenset({"succeeded", "dead", "cancelled", "expired", "skipped", "missed"})
# What is everybody's: the store; and a process that is held in the middle of a transaction holds up others.
SHARED = frozenset({"store", "stop"})
# Who was held here has yet to look at the clock.
LOOKS_AGAIN = "after_claim_before_send"
# A byte that was to leave when its sender was held arrives so soon after that.
GHOST_SLACK_MS = 500
# A receiver and a death are seen by one loop, each as soon as it gets to it.
SIGHT_SLACK_MS = 100


class Call(msgspec.Struct):
    """A call of a client and what came of it; None: it never heard."""

    invoked: Invoked
    returned: Returned | None = None

    @property
    def acknowledged(self) -> bool:
        return self.returned is not None and self.returned.outcome == "ok"

    @property
    def maybe(self) -> bool:
        """It may have happened."""
        return self.returned is None or self.returned.outcome == "info"


class Send(msgspec.Struct):
    """A request that a receiver read whole, and how it answered."""

    hit: Hit
    task_id: str
    attempt: int
    fence: int
    answered: Answered | None = None

    @property
    def at(self) -> int:
        return self.hit.at

    @property
    def ended_at(self) -> int:
        """When the receiver was done with it; never, if the run ended first."""
        return FOR_EVER if self.answered is None else self.answered.at

    @property
    def status(self) -> int | None:
        return None if self.answered is None else self.answered.status

    @property
    def claim(self) -> tuple[str, int, int]:
        return self.task_id, self.attempt, self.fence


class Story:
    """Everything by task, for the checks."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.run: Run | None = None
        self.secrets: list[str] = []
        self.calls: dict[int, Call] = {}
        self.faults: list[Fault] = []
        self.nodes: list[Node] = []
        self.seen: dict[int, Seen] = {}
        self.sql: SqlDump | None = None
        self.api: ApiDump | None = None
        self.malformed: list[Hit] = []
        self.of_ring: list[OfRing] = []
        self._sends_by_hit: dict[int, Send] = {}
        for record in records:
            self._take(record)
        self._read_calls()
        self._read_end()
        self.ring = RingStory(self.nodes, self.of_ring) if any(isinstance(one, Taken) for one in self.of_ring) else None
        self._read_sends()

    def _take(self, record: Record) -> None:
        match record:
            case Invoked():
                self.calls[record.op] = Call(record)
            case Returned():
                self.calls[record.op].returned = record
            case Hit():
                self._take_hit(record)
            case Answered():
                if record.hit in self._sends_by_hit:
                    self._sends_by_hit[record.hit].answered = record
            case Fault():
                self.faults.append(record)
            case Node():
                self.nodes.append(record)
            case Run() | Secret() | Seen() | SqlDump() | ApiDump():
                self._take_frame(record)
            case _:
                self.of_ring.append(record)

    def _take_frame(self, record: Run | Secret | Seen | SqlDump | ApiDump) -> None:
        match record:
            case Seen():
                self.seen[record.node] = record  # counters only grow: the last one of a node stands for all
            case Run():
                self.run = record
            case Secret():
                self.secrets.append(record.secret)
            case SqlDump():
                self.sql = record
            case ApiDump():
                self.api = record

    def _take_hit(self, hit: Hit) -> None:
        task_id, attempt = hit.headers.get("webhook-id", ""), hit.headers.get("tasktick-attempt", "")
        fence = hit.headers.get("tasktick-fence", "")
        if task_id and attempt.isdecimal() and fence.isdecimal():
            self._sends_by_hit[hit.hit] = Send(hit, task_id, int(attempt), int(fence))
        else:
            self.malformed.append(hit)

    def _read_calls(self) -> None:
        self.wanted: dict[str, Wanted] = {}
        self.wanted_by_id: dict[str, Wanted] = {}  # as answers said; the row may be gone
        self.creates: dict[str, list[Call]] = defaultdict(list)  # by mark
        self.acknowledged: dict[str, set[str]] = defaultdict(set)  # ids by mark
        self.actions: dict[str, list[Call]] = defaultdict(list)  # by task
        for call in self.calls.values():
            for at, wanted in enumerate(call.invoked.wanted):
                self.wanted[wanted.mark] = wanted
                self.creates[wanted.mark].append(call)
                if call.returned is not None and call.acknowledged and at < len(call.returned.ids):
                    task_id = call.returned.ids[at]
                    if task_id is not None:
                        self.acknowledged[wanted.mark].add(task_id)
                        self.wanted_by_id[task_id] = wanted
            if call.invoked.task_id is not None:
                self.actions[call.invoked.task_id].append(call)

    def _read_end(self) -> None:
        self.rows: dict[str, TaskLine] = {}
        self.rows_by_mark: dict[str, list[TaskLine]] = defaultdict(list)
        self.attempts: dict[str, list[AttemptLine]] = defaultdict(list)
        self.attempt_by_claim: dict[tuple[str, int, int], AttemptLine] = {}
        if self.sql is None:
            return
        for row in self.sql.tasks:
            self.rows[row.id] = row
            self.rows_by_mark[row.mark or ""].append(row)
        for line in sorted(self.sql.attempts, key=lambda one: (one.task_id, one.attempt, one.fence)):
            self.attempts[line.task_id].append(line)
            self.attempt_by_claim[line.task_id, line.attempt, line.fence] = line

    @property
    def pauses(self) -> int:
        """How often a schedule was paused."""
        last = [one for one in self.of_ring if isinstance(one, Books)][-1:]
        return sum(edition.paused for books in last for book in books.books for edition in book.editions)

    def _read_sends(self) -> None:
        """Requests by task. Those of ghosts are apart: their sender was held between its last look at the clock and
        the first byte, and others had long gone on when it left; a receiver tells them by their fence."""
        self.sends: dict[str, list[Send]] = defaultdict(list)
        self.ghosts: dict[str, list[Send]] = defaultdict(list)
        for send in sorted(self._sends_by_hit.values(), key=lambda one: one.at):
            (self.ghosts if self._is_ghost(send) else self.sends)[send.task_id].append(send)

    def _is_ghost(self, send: Send) -> bool:
        line = self.line_of(send)
        if self.ring is None or self.run is None or line is None:
            return False
        if send.at <= line.picked_at + self.run.start_delay_ms:
            return False
        number = self.ring.claimer(line)
        held = [one for one in self.faults if one.kind == "stop" and one.node == number]
        return any(
            one.label != LOOKS_AGAIN
            and line.picked_at - SIGHT_SLACK_MS <= one.at <= line.picked_at + self.run.start_delay_ms
            and one.end - SIGHT_SLACK_MS <= send.at <= one.end + GHOST_SLACK_MS
            for one in held
        )

    def wanted_of(self, task_id: str) -> Wanted | None:
        """What was asked for under this id, as far as the row or a client's answer says."""
        row = self.rows.get(task_id)
        return self.wanted.get(row.mark or "") if row is not None else None

    def calls_on(self, task_id: str, action: str) -> list[Call]:
        """Calls of this kind on a task that happened, or may have."""
        found = (call for call in self.actions.get(task_id, ()) if call.invoked.action == action)
        return [call for call in found if call.acknowledged or call.maybe]

    def every_send(self) -> Iterator[Send]:
        """Every request, those of ghosts too."""
        for sends in (self.sends, self.ghosts):
            for found in sends.values():
                yield from found

    def line_of(self, send: Send) -> AttemptLine | None:
        """The recorded attempt that this request was."""
        return self.attempt_by_claim.get(send.claim)

    def fault_between(self, first_ms: int, last_ms: int) -> Fault | None:
        """A fault that ended a process between two instants.

        One that only held it explains nothing: what the process had in its hands, it still has.
        """
        for fault in self.faults:
            if fault.kind != "stop" and fault.end >= first_ms - SIGHT_SLACK_MS and fault.at <= last_ms:
                return fault
        return None

    def cause(self, line: AttemptLine | None, first_ms: int, last_ms: int) -> Fault | None:
        """A fault between two instants that may have cut off this attempt, or any if it is not recorded.

        In a ring that is one of the process that claimed it, whose attempts are others' once it was held for long;
        or one of the store, or of the network between the two.
        """
        if self.ring is None:
            return self.fault_between(first_ms, last_ms)
        return self._fault_of(line, first_ms, last_ms, {"kill", "armed", "term", "stop", "store", "cut"})

    def cut_between(self, first_ms: int, last_ms: int) -> bool:
        """Whether packets were lost between two instants: then two ends know different things of one connection."""
        return any(one.kind == "cut" and one.end >= first_ms and one.at <= last_ms for one in self.faults)

    def death(self, line: AttemptLine | None, first_ms: int, last_ms: int) -> Fault | None:
        """The end, between two instants, of the process that claimed this."""
        if self.ring is None:
            return self.fault_between(first_ms, last_ms)
        return self._fault_of(line, first_ms, last_ms, {"kill", "armed", "term"})

    def _fault_of(self, line: AttemptLine | None, first_ms: int, last_ms: int, kinds: set[str]) -> Fault | None:
        assert self.ring is not None
        number = None if line is None else self.ring.claimer(line)
        for fault in self.faults:
            ours = number is None or fault.kind in SHARED or fault.node == number
            if ours and fault.kind in kinds and fault.end >= first_ms - SIGHT_SLACK_MS and fault.at <= last_ms:
                return fault
        return None
