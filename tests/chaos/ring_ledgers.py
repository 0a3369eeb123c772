"""The ledgers of a ring's schedules, whichever node decided about which of their times. Pure."""

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos import ledger
from tests.chaos.history import Books
from tests.chaos.ledger_story import Arrival, LedgerStory
from tests.chaos.story import Story
from tests.chaos.verdict import Violation


def ledgers(story: Story) -> Iterator[Violation]:
    """Every time of every schedule is decided once, has its task, and has reached its receiver if it ran."""
    found = [one for one in story.of_ring if isinstance(one, Books)]
    if not found:
        return
    last = found[-1]
    arrivals = [
        Arrival(task_id.removeprefix("tsk_"), send.at, None if send.answered is None else send.answered.at, send.status)
        for task_id, sends in story.sends.items()
        for send in sends
    ]
    told = LedgerStory(
        books=last.books,
        arrivals=arrivals,
        absences=[],
        clock=[(0, 0)],
        ended_true=last.at,
        deaths=[node.at for node in story.nodes if node.what == "exited"],
        settled=False,
    )
    by_task: dict[str, list[Arrival]] = defaultdict(list)
    for arrival in arrivals:
        by_task[arrival.task_id].append(arrival)
    for book in last.books:
        yield from ledger.coverage(told, book)
        yield from ledger.fires(told, book)
        for violation in ledger.hits(told, book, by_task):
            if not (violation.kind == "run_without_hit" and _never_got_through(story, violation.task_id or "")):
                yield violation


def _never_got_through(story: Story, task_id: str) -> bool:
    """Whether every attempt failed while packets were lost."""
    lines = story.attempts.get(f"tsk_{task_id}", [])
    return bool(lines) and all(
        line.state == "failed" and story.cut_between(line.picked_at, line.completed_at) for line in lines
    )
