"""Real stores on disk with something of everything in them."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

from tasktick.model.attempt import Answer, Failure, conclude
from tasktick.model.change import cancel
from tasktick.model.ids import IdMaker
from tasktick.model.retry import RetryPolicy
from tasktick.model.state import State
from tasktick.model.task import NewTask, Payload, Target, TaskDetail, TaskState
from tasktick.store import claims, endings, leases, tasks
from tasktick.store.connect import RawConnection, raw_connection
from tasktick.store.migrate import migrate
from tasktick.store.protocol import Transaction
from tasktick.store.sqlite import WRITER_PRAGMAS, step, write_with

NOW = 1_770_000_000_000
INCARNATION = "incarnation-1"


def write(raw: RawConnection, operation: Callable[[Transaction], Awaitable[Any]]) -> Any:
    return write_with(raw, lambda tx: step(operation(tx)))


def new_task(ids: IdMaker, key: str | None = None, max_attempts: int = 5) -> NewTask:
    task_id = ids.new(NOW, 7)
    state = TaskState(
        task_id, "default", State.SCHEDULED, "default", "app.example:443", 5, NOW, NOW, NOW, max_attempts, 30_000, NOW,
        keyed=key is not None,
    )  # fmt: skip
    payload = Payload(Target("https://app.example/hook"), RetryPolicy(max_attempts=max_attempts))
    return NewTask(state, TaskDetail(task_id, "default", NOW, key=key), payload)


def make_store(path: Path, waiting: int = 3) -> dict[str, str]:
    """A store with tasks waiting, running, cancelled, succeeded and dead; their ids by what they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = IdMaker(Random(1))
    raw = raw_connection(path, WRITER_PRAGMAS)
    try:
        migrate(raw)
        fresh = {
            "waiting": new_task(ids, key="invoice-1"),
            "running": new_task(ids),
            "cancelled": new_task(ids, key="invoice-2"),
            "succeeded": new_task(ids),
            "dead": new_task(ids, max_attempts=1),
        }
        more = [new_task(ids) for _ in range(waiting)]
        write(raw, lambda tx: tasks.create_many(tx, [tasks.Create(one) for one in [*fresh.values(), *more]]))
        write(raw, lambda tx: tasks.change(tx, [cancel(fresh["cancelled"].state, NOW)]))
        _run(raw, ids, {name: fresh[name] for name in ("running", "succeeded", "dead")})
        return {name: task.state.id for name, task in fresh.items()}
    finally:
        raw.close()


def _run(raw: RawConnection, ids: IdMaker, fresh: dict[str, NewTask]) -> None:
    write(raw, lambda tx: leases.start_node(tx, leases.Start(INCARNATION, "node-1"), NOW))
    epochs = write(raw, lambda tx: leases.acquire(tx, INCARNATION, 0))
    request = claims.ClaimRequest("node-1", INCARNATION, epochs, 1, NOW, 15, 2_000, 2_000)
    claimed = write(raw, lambda tx: claims.claim(tx, [task.state.id for task in fresh.values()], request))
    assert len(claimed) == len(fresh)
    answers = {
        fresh["succeeded"].state.id: Answer(NOW, NOW + 5, 200),
        fresh["dead"].state.id: Answer(NOW, NOW + 5, failure=Failure("network", "refused", "Nobody listens.")),
    }
    payload = fresh["dead"].payload
    ends = [conclude(one, payload, answers[one.id], "node-1", Random(1)) for one in claimed if one.id in answers]
    write(raw, lambda tx: endings.end(tx, ends, ids))


def damage(path: Path, *statements: str) -> None:
    """Change a store behind TaskTick's back."""
    raw = raw_connection(path)
    try:
        for statement in statements:
            raw.execute(statement)
    finally:
        raw.close()
