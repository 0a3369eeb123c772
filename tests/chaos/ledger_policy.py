"""Which outcome a time may have: catch-up after an absence, overlap with the fire before it, pauses. Pure."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from itertools import groupby

from tests.chaos.ledger_lines import (
    BUFFERING,
    BY_TASK,
    TAKEN_BACK,
    before_it,
    on_its_way,
    was_let_run,
)
from tests.chaos.ledger_story import (
    MISSED,
    RUN,
    SKIPPED,
    Absence,
    Book,
    Edition,
    Entry,
    Fire,
    LedgerStory,
)
from tests.chaos.nominal import DAY_MS, times
from tests.chaos.verdict import Violation

LATELY = 8
# Said of a time that was not run for others that were on their way.
HELD_UP = frozenset({"skipped(overlap)", "skipped(buffer_full)", "run(buffered)"})


def outcomes(story: LedgerStory, book: Book) -> Iterator[Violation]:
    """Each decision as policy has it. What was decided at once, of one version, is one decision."""
    editions = {edition.version: edition for edition in book.editions}
    held = {fire.task_id: fire for fire in book.fires}
    for (version, _), group in groupby(book.entries, lambda one: (one.version, one.decided_at)):
        batch, edition = list(group), editions.get(version)
        if edition is None:
            yield Violation("unknown_version", f"{book.schedule_id}: nobody made version {version} of {batch[0]}")
            continue
        yield from _decision(story, book.schedule_id, edition, batch, held)
    yield from _overlap(story, book, editions, held)
    yield from _claims(story, book, editions, held)


def _decision(
    story: LedgerStory, name: str, edition: Edition, batch: list[Entry], held: dict[str, Fire]
) -> Iterator[Violation]:
    if edition.paused:
        odd = [entry for entry in batch if entry.word != "skipped(paused)"]
        if odd:
            yield Violation("wrong_outcome", f"{name}: {odd[0]} in a pause")
        return
    early = [
        entry
        for entry in batch
        if entry.nominal_at > _latest_wall(story, entry) + story.slack_ms and entry.reason not in BY_TASK
    ]
    if early:
        yield Violation("decided_early", f"{name}: {early[0]}")
    readings = _readings(story, batch, held)
    if edition.jitter_ms and batch[-1].nominal_at > batch[-1].decided_at - edition.jitter_ms:
        # Its start was still to come, and an edit wrote it down a moment after the others.
        readings += [reading[:-1] for reading in readings]
    kinds = [_fault_of(story, edition, backlog) for backlog in readings]
    if None not in kinds:
        yield Violation(str(kinds[0]), f"{name}: {edition}: {[_short(one) for one in batch[:4]]} … {batch[-1]}")


def _latest_wall(story: LedgerStory, entry: Entry) -> int:
    """The latest that the clock had read when it was decided: what has begun is written down, wherever it is set to."""
    return max((story.latest_wall(true) for true in story.trues(entry.decided_at)), default=entry.decided_at)


def _readings(story: LedgerStory, batch: list[Entry], held: dict[str, Fire]) -> list[list[Entry]]:
    """What was left to policy: all of it, but for a first fire that had begun, or had ended, by itself."""
    first, rest = batch[0], batch[1:]
    if first.outcome == SKIPPED and first.reason in BY_TASK:
        # It had ended by itself, or policy let it run and it ended before it began.
        return [rest, batch]
    fire = held.get(first.task_id or "")
    if first.outcome != RUN or fire is None:
        return [batch]
    begun = fire.picked_at is not None and not story.may_precede(first.decided_at, fire.picked_at)
    # A claim that was given back leaves no trace: it may have begun then.
    return [rest] if begun else [batch, rest]


def _fault_of(story: LedgerStory, edition: Edition, backlog: list[Entry]) -> str | None:
    if not backlog:
        return None
    as_policy = any(_as_policy(edition, backlog, until, story.missed_after_ms) for until in _ends(edition, backlog))
    if _must_catch_up(story, edition, backlog[0]) and not as_policy:
        return "catch_up_ignored"
    all_ran = all(_let_run(entry, edition) for entry in backlog)
    if all_ran and not any(entry.missed for entry in backlog):
        return None
    if not _may_catch_up(story, backlog[0]):
        return "missed_unjustified"
    return None if as_policy else "wrong_outcome"


def _let_run(entry: Entry, edition: Edition) -> bool:
    """Whether catch-up let it run, whatever overlap made of it."""
    if entry.times > 1 or entry.outcome == MISSED:
        return False
    if entry.outcome == SKIPPED:
        return (
            entry.reason in {"overlap", "buffer_full"}
            or was_let_run(entry)
            or (edition.overlap in BUFFERING and entry.reason in TAKEN_BACK)
        )
    return entry.reason is None or (entry.reason == "buffered" and edition.overlap in BUFFERING)


def _ends(edition: Edition, backlog: list[Entry]) -> list[int]:
    """Up to when there was something to decide: the last time may not have been due, if its start is spread."""
    until = backlog[0].decided_at if edition.end_at is None else min(backlog[0].decided_at, edition.end_at)
    last = times(edition.timing, max(backlog[0].nominal_at, until - DAY_MS) - 1, until)[-1:]
    return [until, *(last[0] - 1 for _ in last if edition.jitter_ms)]


def _as_policy(edition: Edition, backlog: list[Entry], until: int, missed_after_ms: int) -> bool:
    now, oldest = backlog[0].decided_at, backlog[0].nominal_at
    late = times(edition.timing, oldest - 1, until)
    within = 0 if edition.window_ms is None else bisect_left(late, now - edition.window_ms)
    end = len(late)
    match edition.mode:
        case "latest":
            begin = max(within, end - 1)
        case "earliest":
            begin, end = within, min(end, within + 1)
        case "all":
            begin = max(within, end - edition.max_runs)
        case _:
            begin = max(within, bisect_left(late, now - missed_after_ms), end - edition.max_runs)
    first, last = (late[begin], late[end - 1]) if begin < end else (1, 0)
    missed = len(late) - 1 if edition.mode in {"latest", "earliest"} else 0
    for entry in backlog:
        if entry.times == 1 and first <= entry.nominal_at <= last:
            taken = entry.reason in TAKEN_BACK or was_let_run(entry)
            counted = {missed} if entry.outcome == RUN else {0, missed if taken else 0}
            if not _let_run(entry, edition) or entry.missed not in counted:
                return False
        elif entry.word != f"missed(catch_up:{edition.mode})" or entry.nominal_at <= first <= entry.last_at:
            return False
    return True


def _may_catch_up(story: LedgerStory, oldest: Entry) -> bool:
    """Whether it may be late enough, and nobody may have been there."""
    if oldest.decided_at - oldest.nominal_at <= story.missed_after_ms - story.slack_ms:
        return False
    decided = max(story.trues(oldest.decided_at), default=story.ended_true)
    return any(
        one.to_wall + story.slack_ms >= oldest.nominal_at and one.true <= decided + story.slack_ms
        for one in story.absences
    )


def _must_catch_up(story: LedgerStory, edition: Edition, oldest: Entry) -> bool:
    """Whether it surely is late enough, and nobody surely was there, as whoever decided must know."""
    if oldest.decided_at - oldest.nominal_at - edition.jitter_ms <= story.missed_after_ms + story.slack_ms:
        return False
    when = list(story.trues(oldest.decided_at))
    return bool(when) and all(_knows_of_absence(story, oldest, true) for true in when)


def _knows_of_absence(story: LedgerStory, oldest: Entry, true: int) -> bool:
    before = [one for one in story.absences if one.true <= true]
    began = max((one.true for one in before if one.start), default=0)
    return any(_covers(story, one, oldest.nominal_at, true) for one in before if one.true >= began)


def _covers(story: LedgerStory, absence: Absence, nominal_at: int, true: int) -> bool:
    covered = absence.sure and absence.to_wall - story.slack_ms >= nominal_at
    return covered and not story.came_again(nominal_at, absence.true, true)


def _overlap(
    story: LedgerStory, book: Book, editions: dict[int, Edition], held: dict[str, Fire]
) -> Iterator[Violation]:
    """What was skipped or waited did so for a fire that was on its way, or for one that waited for it then."""
    # Several: one that waited may have been cancelled while what it waited for went on.
    lately: deque[Entry] = deque(maxlen=LATELY)
    for entry in book.entries:
        if entry.word in HELD_UP and entry.version in editions:
            edition = editions[entry.version]
            justified = edition.overlap != "allow" and (
                any(_on_its_way(story, one, entry, held) for one in lately)
                or (edition.overlap == "cancel_other" and _last_takes_all(book, entry))
                # In a line, more may have come and gone since whoever is in the way.
                or (_is_line(edition) and before_it(story, book, entry) > 0)
            )
            if not justified:
                yield Violation("overlap_unjustified", f"{book.schedule_id}: {entry} after {list(lately)}")
        edition_then = editions.get(entry.version)
        if was_let_run(entry) or (entry.reason in TAKEN_BACK and not (edition_then and edition_then.paused)):
            lately.append(entry)


def _is_line(edition: Edition) -> bool:
    return edition.overlap_key is not None or edition.overlap in {"buffer_all", "cancel_other"}


def _last_takes_all(book: Book, entry: Entry) -> bool:
    """Whether a later time was let run by the same decision."""
    decision = (entry.version, entry.decided_at)
    return any(
        (one.version, one.decided_at) == decision and one.nominal_at > entry.nominal_at and was_let_run(one)
        for one in book.entries
    )


def _on_its_way(story: LedgerStory, before: Entry, entry: Entry, held: dict[str, Fire]) -> bool:
    if (before.version, before.decided_at) == (entry.version, entry.decided_at):
        return True
    return on_its_way(story, held.get(before.task_id or ""), entry)


def _claims(story: LedgerStory, book: Book, editions: dict[int, Edition], held: dict[str, Fire]) -> Iterator[Violation]:
    """What was claimed before its schedule had decided was not too late to be dropped."""
    for entry in book.entries:
        fire, edition = held.get(entry.task_id or ""), editions.get(entry.version)
        if entry.outcome != RUN or fire is None or fire.picked_at is None or edition is None:
            continue
        late_ms = fire.picked_at - entry.nominal_at - edition.jitter_ms
        undecided = not story.may_precede(entry.decided_at, fire.picked_at)
        if undecided and late_ms > story.missed_after_ms + story.slack_ms:
            yield Violation(
                "claimed_late", f"{book.schedule_id}: {entry} was claimed at {fire.picked_at}", fire.task_id
            )


def _short(entry: Entry) -> str:
    times_of = f" ×{entry.times}" if entry.times > 1 else ""
    return f"{entry.nominal_at} {entry.word}{times_of}"
