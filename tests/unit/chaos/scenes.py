"""Histories made by hand: a small life that nothing is wrong with, from which each bad one differs in one thing."""

import base64
import hashlib
import hmac
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec

from tests.chaos.history import (
    Answered,
    ApiDump,
    AttemptLine,
    DeadLetterLine,
    Fault,
    Hit,
    Invoked,
    Node,
    Record,
    Returned,
    Run,
    Secret,
    SqlDump,
    TaskLine,
    Wanted,
)

START = 1_700_000_000_000
END = START + 60_000
KEY = b"k" * 32
SECRET = "whsec_" + base64.b64encode(KEY).decode()
BODY = '{"mark":1}'


class Scene:
    """A run under way: say what happened, then `records`. Times are ms from its start."""

    def __init__(self, *demanded: str) -> None:
        self.records_before_end: list[Record] = [
            Run("kill", 1, 1, 500, 200, 200, list(demanded)),
            Secret(SECRET),
            Node(START - 200, 1, "started"),
            Node(START - 100, 1, "ready"),
        ]
        self.tasks: dict[str, TaskLine] = {}
        self.attempts: list[AttemptLine] = []
        self.dead_letters: list[DeadLetterLine] = []
        self.counts: Counter[str] = Counter()
        self.integrity: list[str] = []
        self.api_changes: dict[str, dict[str, Any]] = {}
        self.node = 1
        self._ops = 0
        self._hits = 0

    def add(self, record: Record) -> None:
        self.records_before_end.append(record)

    def call(self, at: int, action: Any, *, took: int = 5, **fields: Any) -> Returned:
        """A call of a client; `returned_…` fields are of the answer, the others of the call."""
        self._ops += 1
        answer = {name.removeprefix("returned_"): fields.pop(name) for name in list(fields) if "returned_" in name}
        self.add(Invoked(self._ops, START + at, action, **fields))
        returned = Returned(self._ops, START + at + took, answer.pop("outcome", "ok"), **answer)
        self.add(returned)
        return returned

    def create(self, mark: str = "m1", at: int = 0, *, outcome: str = "ok", **wanted: Any) -> str:
        """A create, acknowledged unless said otherwise; its id."""
        task_id = f"tsk_{mark}"
        ids = [task_id] if outcome == "ok" else []
        asked = Wanted(mark, "ok", BODY, **wanted)
        self.call(at, "create", wanted=[asked], returned_ids=ids, returned_outcome=outcome)
        return task_id

    def hit(
        self, task_id: str, at: int, *, attempt: int = 1, fence: int = 1, status: int | None = 200, **odd: Any
    ) -> None:
        """A request at a receiver, answered 10 ms later; a status of None is a sender that went away."""
        self._hits += 1
        seconds = str((START + at) // 1_000)
        body = odd.pop("body", BODY.encode())
        digest = hmac.digest(KEY, f"{task_id}.{seconds}.".encode() + body, hashlib.sha256)
        scheduled = datetime.fromtimestamp((START + odd.pop("scheduled", 0)) / 1_000, UTC)
        headers = {
            "webhook-id": task_id,
            "webhook-timestamp": seconds,
            "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
            "idempotency-key": task_id,
            "tasktick-attempt": str(attempt),
            "tasktick-max-attempts": "4",
            "tasktick-scheduled-at": scheduled.isoformat(timespec="milliseconds"),
            "tasktick-fence": str(fence),
        }
        took = odd.pop("took", 10)
        headers.update({name.replace("_", "-"): value for name, value in odd.items()})
        self.add(Hit(self._hits, START + at, self._hits, "POST", "/hook", headers, body))
        self.add(Answered(self._hits, START + at + took, "answer" if status else "gone", status))

    def line(self, task_id: str, attempt: int = 1, state: str = "succeeded", at: int = 20, **fields: Any) -> None:
        """A recorded attempt that ended at `at`."""
        given: dict[str, Any] = {"series": 1, "fence": attempt, "picked_at": START + at - 20} | fields
        given.setdefault("status", 200 if state == "succeeded" else None)
        self.attempts.append(AttemptLine(task_id, attempt, state=state, completed_at=START + at, **given))

    def row(self, task_id: str, state: str = "succeeded", attempt: int = 1, **fields: Any) -> None:
        """How a task stands at the end."""
        given: dict[str, Any] = {"mark": task_id.removeprefix("tsk_"), "body": BODY.encode(), "run_at": START} | fields
        self.tasks[task_id] = TaskLine(task_id, state=state, attempt=attempt, max_attempts=4, **given)
        self.counts[state] += 1
        if state == "dead":
            self.dead_letters.append(DeadLetterLine(task_id, fields.get("reason", "")))

    def kill(self, at: int, kind: Any = "kill", code: int = -9, restarted: int = 300) -> None:
        """The process dies and another one starts."""
        self.add(Fault(START + at, START + at + 1, kind, self.node))
        self.add(Node(START + at + 1, self.node, "exited", code))
        self.node += 1
        self.add(Node(START + at + 2, self.node, "started"))
        self.add(Node(START + at + restarted, self.node, "ready"))

    def succeed(self, mark: str = "m1", at: int = 0) -> str:
        """A whole life without a fault."""
        task_id = self.create(mark, at)
        self.hit(task_id, at + 10)
        self.line(task_id, at=at + 21)
        self.row(task_id)
        return task_id

    def records(self) -> list[Record]:
        """The history, with its end."""
        rows = list(self.tasks.values())
        told = [msgspec.structs.replace(row, **self.api_changes.get(row.id, {})) for row in rows]
        listed = Counter(row.state for row in rows)
        sql = SqlDump(END, rows, self.attempts, self.dead_letters, dict(self.counts), self.integrity)
        return [*self.records_before_end, sql, ApiDump(END, told, dict(listed))]


def of_a_deleted_task(scene: Scene, again_after: int) -> None:
    """A request whose sender was held, and the next one, so long after the claim; then the task was deleted."""
    task = scene.create(timeout_ms=400)
    scene.hit(task, 10, fence=START + 5, took=5_000, status=None)
    scene.hit(task, 5 + again_after, attempt=2, fence=START + 5 + again_after)
    scene.call(2_000, "delete", task_id=task)
    scene.counts["purged"] = 1
