"""What a disk must hold after its power was cut: all that was acknowledged before. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator

from tests.chaos import durability
from tests.chaos.history import Answered, Hit, Record, Returned, SqlDump
from tests.chaos.story import Story
from tests.chaos.verdict import Violation


def before(records: Iterable[Record], instant_ms: int, recovered: SqlDump) -> list[Record]:
    """A history as the world knew it at an instant, ending in what the disk held.

    What was asked later may be on it too; what was read later proves nothing.
    """
    known: list[Record] = []
    for record in records:
        if isinstance(record, Returned | Hit | Answered) and record.at >= instant_ms:
            continue
        known.append(record)
    return [*known, recovered]


def judge(records: Iterable[Record]) -> list[Violation]:
    """What is wrong with the disk that this history ends in."""
    story = Story(records)
    assert story.sql is not None, "the history ends in what the disk held"
    found = [
        *durability.acknowledged_creates(story),
        *durability.creates_once(story),
        *durability.deletes(story),
        *_cancels(story),
        *_claims(story),
    ]
    there = dict(Counter(row.state for row in story.sql.tasks))
    kept = {state: n for state, n in story.sql.counts.items() if n and state != "purged"}
    if kept != there:
        found.append(Violation("counts", f"the counts say {kept}, the tables {there}"))
    found += [Violation("integrity", trouble) for trouble in story.sql.integrity]
    return found


def _cancels(story: Story) -> Iterator[Violation]:
    for task_id, calls in story.actions.items():
        row = story.rows.get(task_id)
        for call in calls:
            cancelled = call.acknowledged and call.invoked.action == "cancel" and call.returned is not None
            if cancelled and call.returned.state == "cancelled" and row is not None and row.state != "cancelled":  # type: ignore[union-attr] # not None
                yield Violation("cancel_undone", f"{task_id} is {row.state}, its cancel was acknowledged", task_id)


def _claims(story: Story) -> Iterator[Violation]:
    """The claim is on disk before the first byte leaves."""
    for task_id, sends in story.sends.items():
        row = story.rows.get(task_id)
        if row is None:
            if not story.calls_on(task_id, "delete"):
                yield Violation("claim_lost", f"{task_id} was sent, and there is no such task", task_id)
            continue
        for send in sends:
            if row.attempt < send.attempt or row.fence < send.fence:
                detail = f"attempt {send.attempt} of {task_id} was sent, the disk knows of {row.attempt}"
                yield Violation("claim_lost", detail, task_id)
