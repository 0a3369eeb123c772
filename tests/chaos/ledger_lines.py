"""Lines in the checker of ledgers: fires that may not be under way together, also of schedules that share an overlap
key; who takes whose place; and schedules that pause themselves after failures. Pure.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from tests.chaos.ledger_story import ORDER_SLACK_MS, RUN, Arrival, Book, Edition, Entry, Fire, LedgerStory
from tests.chaos.verdict import Violation

SUPERSEDED = "cancel_other:"
# Decided by what had happened to the task before its schedule looked at it, or before it began.
BY_TASK = frozenset({"cancelled", "expired"})
# Taken back after it was let run: it waited for the one before it.
TAKEN_BACK = frozenset({"paused", "deleted"})
BUFFERING = frozenset({"buffer_one", "buffer_all", "cancel_other"})

Arrivals = Mapping[str, list[Arrival]]


def was_let_run(entry: Entry) -> bool:
    """Whether it was on its way once, whatever came of that."""
    reason = entry.reason or ""
    return entry.outcome == RUN or reason in BY_TASK or reason.startswith(SUPERSEDED)


def on_its_way(story: LedgerStory, fire: Fire | None, entry: Entry) -> bool:
    """Whether a fire may not have ended when a time was decided."""
    if fire is None or fire.completed_at is None:
        return fire is not None
    return story.may_precede(entry.decided_at, fire.completed_at, ORDER_SLACK_MS + story.commit_ms)


def sharing(story: LedgerStory, book: Book) -> list[Book]:
    """The books of its line, its own among them."""
    key = book.editions[0].overlap_key
    return [book] if key is None else [one for one in story.books if one.editions[0].overlap_key == key]


def before_it(story: LedgerStory, book: Book, entry: Entry) -> int:
    """How many others of its line may have been on their way when a time was decided."""
    found = 0
    for one in sharing(story, book):
        held = {fire.task_id: fire for fire in one.fires}
        for other in one.entries:
            if other is entry or not (was_let_run(other) or other.reason in TAKEN_BACK):
                continue
            decided = story.may_precede(other.decided_at, entry.decided_at)
            found += decided and on_its_way(story, held.get(other.task_id or ""), entry)
    return found


def lines(story: LedgerStory, arrivals: Arrivals) -> Iterator[Violation]:
    """All that is wrong with lines, and with failures in a row."""
    by_key: defaultdict[str, list[Book]] = defaultdict(list)
    for book in story.books:
        yield from _places(story, book)
        yield from _failures(book)
        modes = {edition.overlap for edition in book.editions}
        if modes == {"buffer_all"}:
            yield from _order(book, arrivals)
        key = book.editions[0].overlap_key
        if key is not None and "allow" not in modes:
            by_key[key].append(book)
    for key, books in by_key.items():
        if len(books) > 1:
            yield from overlaps(story, f"key {key}", [fire for book in books for fire in book.fires], arrivals)


def overlaps(story: LedgerStory, name: str, fires: list[Fire], arrivals: Arrivals) -> Iterator[Violation]:
    """None of these was sent while another was at work."""
    for (one, earlier), (other, later) in pairwise(_sent(fires, arrivals)):
        last, first = earlier[-1], later[0]
        cut = last.until is None or any(last.true <= death <= last.until for death in story.deaths)
        if first.true < last.true or (not cut and last.until is not None and first.true < last.until):
            yield Violation("overlapping", f"{name}: {other} began in {one}: {first}, {last}", other.task_id)


def _sent(fires: list[Fire], arrivals: Arrivals) -> list[tuple[Fire, list[Arrival]]]:
    """Fires and their requests, in the order of their first."""
    found = [
        (fire, sorted(arrivals[fire.task_id], key=lambda one: one.true))
        for fire in fires
        if not fire.triggered and arrivals.get(fire.task_id)
    ]
    return sorted(found, key=lambda one: one[1][0].true)


def _order(book: Book, arrivals: Arrivals) -> Iterator[Violation]:
    for (one, _), (other, _) in pairwise(_sent(book.fires, arrivals)):
        if other.nominal_at < one.nominal_at:
            yield Violation("out_of_order", f"{book.schedule_id}: {other} began behind {one}", other.task_id)


def _places(story: LedgerStory, book: Book) -> Iterator[Violation]:
    """Who was replaced was so by a fire of its line, and a line that was full was so."""
    modes = {edition.version: edition for edition in book.editions}
    there = {fire.task_id for one in sharing(story, book) for fire in one.fires}
    for entry in book.entries:
        reason, edition = entry.reason or "", modes.get(entry.version)
        if reason.startswith(SUPERSEDED):
            successor = reason.removeprefix(SUPERSEDED).removeprefix("tsk_")
            if successor not in there or successor == entry.task_id:
                yield Violation("replaced_by_nobody", f"{book.schedule_id}: {entry}", entry.task_id)
        if reason == "buffer_full" and edition is not None and not _is_full(story, book, entry, edition):
            yield Violation("full_unjustified", f"{book.schedule_id}: {entry} of {edition}", entry.task_id)


def _is_full(story: LedgerStory, book: Book, entry: Entry, edition: Edition) -> bool:
    return edition.overlap == "buffer_all" and before_it(story, book, entry) > edition.max_runs


def _failures(book: Book) -> Iterator[Violation]:
    """What a schedule says of its failures can be, and enough of them have paused it."""
    most, now = book.editions[-1].pause_on_failures, book.consecutive_failures
    dead = sum(fire.state == "dead" and not fire.triggered for fire in book.fires)
    if now is None:
        return
    if now > dead:
        yield Violation("failures_wrong", f"{book.schedule_id}: {now} failures in a row, and {dead} in all")
    if most is not None and now >= most and not (book.paused or book.editions[-1].deleted):
        yield Violation("pause_left_out", f"{book.schedule_id}: {now} failures in a row, and it is not paused")
