"""The checker of ledgers: each nominal time that the oracle yields is decided once, as policy has it. Pure.

Whatever the daemon went through, the ledger of a schedule must cover the oracle's times from its creation on
without a hole and without a double; what ran must have been let run, must have reached its receiver, and nothing
else may have. `ledger_policy` says which outcome a time may have.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from tests.chaos.ledger_lines import SUPERSEDED, lines, overlaps
from tests.chaos.ledger_policy import outcomes
from tests.chaos.ledger_story import (
    BACKFILL,
    BY_BACKFILL,
    MISSED,
    RUN,
    RUN_LATER,
    SKIPPED,
    Arrival,
    Book,
    Edition,
    Entry,
    Fire,
    LedgerStory,
)
from tests.chaos.nominal import Timing, collapsed, local_ms, times
from tests.chaos.verdict import Violation

EARLY_MS = 5
FINISHED = frozenset({"succeeded", "dead", "cancelled", "expired", "skipped", "missed"})
ENDED_BY_TASK = frozenset({"cancelled", "expired"})
# What may have become of the task of a time, by the outcome in the ledger.
STATES = {SKIPPED: frozenset({"skipped", "cancelled", "expired"}), MISSED: frozenset({"missed"})}

# What a run of some length must have seen.
DEMANDED = ["ledger run(buffered)", "ledger skipped(overlap)", "ledger skipped(paused)", "paused by failures"]
DEMANDED += ["ledger missed(catch_up:latest)", "ledger stretch", "clock_forward", "clock_back"]
DEMANDED += ["ledger run(backfill)", "ledger run(run_later)", "ledger was missed", "ledger was skipped"]


def judge(story: LedgerStory) -> list[Violation]:
    """All that is wrong."""
    found: list[Violation] = []
    arrivals = defaultdict(list)
    for arrival in story.arrivals:
        arrivals[arrival.task_id].append(arrival)
    for book in story.books:
        course = book.course
        found += [*coverage(story, course), *outcomes(story, course), *filled(book)]
        found += [*fires(story, book), *counts(book), *hits(story, book, arrivals), *early(story, book, arrivals)]
    # What somebody wished to run beside its times stands in no line of theirs.
    plain = msgspec.structs.replace(story, books=[book.course for book in story.books])
    return [*found, *lines(plain, arrivals)]


def count(story: LedgerStory) -> Counter[str]:
    """How often each outcome was seen: a run that has not seen what it is about shows nothing."""
    counted: Counter[str] = Counter()
    for book in story.books:
        for entry in book.entries:
            counted[f"ledger {_kind(entry)}"] += entry.times
            counted["ledger stretch"] += entry.times > 1
            counted["ledger collapsed"] += entry.collapsed > 1
            counted["ledger was " + entry.was.outcome if entry.was is not None else "ledger as decided"] += entry.times
        counted["editions"] += len(book.editions)
        counted["paused by failures"] += book.consecutive_failures is not None and any(
            edition.pause_on_failures is not None and edition.by_failures for edition in book.editions
        )
    counted["schedules"] = len(story.books)
    counted["arrivals"] = len(story.arrivals)
    return +counted


def _kind(entry: Entry) -> str:
    """Outcome and reason, whoever it was."""
    return f"{entry.outcome}(cancel_other)" if (entry.reason or "").startswith(SUPERSEDED) else entry.word


class Era(msgspec.Struct, frozen=True):
    """A schedule as long as its times stay those of one rule: after `after`, up to and including `until`."""

    edition: Edition
    entries: list[Entry]
    after: int
    until: int | None


def eras(book: Book) -> list[Era]:
    """Times up to an edit are the old rule's, and nothing decided is decided again by the new one."""
    groups: list[list[Edition]] = []
    cuts: list[int] = []
    for edition in book.editions:
        decided = max([_decided(book, edition.version), *cuts])
        if groups and not (_begins(groups[-1][-1], edition, decided) or _goes_on(book, groups[-1][-1], edition)):
            groups[-1].append(edition)
            continue
        groups.append([edition])
        cuts.append(max(edition.at, decided))
    found = []
    for place, group in enumerate(groups):
        last = place + 1 == len(groups)
        versions = range(group[0].version, (1 << 62) if last else groups[place + 1][0].version)
        mine = [entry for entry in book.entries if entry.version in versions]
        found.append(Era(group[-1], mine, cuts[place], None if last else cuts[place + 1]))
    return found


def _begins(before: Edition, edition: Edition, decided: int) -> bool:
    """Whether an edit gives a schedule other times, or times again after it had none left."""
    if (before.timing, before.start_at) != (edition.timing, edition.start_at):
        return True
    edited = (before.paused, before.deleted) == (edition.paused, edition.deleted)
    return edited and before.end_at is not None and not _times(before, decided, before.end_at)


def _goes_on(book: Book, before: Edition, edition: Edition) -> bool:
    """Whether an edit may have let one go on from then that had run as often as it may."""
    edited = (before.paused, before.deleted) == (edition.paused, edition.deleted)
    since = [entry.nominal_at for entry in book.entries if entry.version >= edition.version]
    return edited and _may_have_ended(book, before) and bool(since) and min(since) > edition.at


def _may_have_ended(book: Book, edition: Edition) -> bool:
    """Whether it may have run as often as it may: one let run counts, until it ends before it begins. It stays at its
    end then.
    """
    unbegun = sum(fire.picked_at is None and fire.state in ENDED_BY_TASK and not fire.triggered for fire in book.fires)
    return unbegun > 0 and edition.max_fires is not None and book.fired + unbegun >= edition.max_fires


def _decided(book: Book, version: int) -> int:
    """The last time that was decided before this version."""
    return max((entry.last_at for entry in book.entries if entry.version < version), default=0)


def coverage(story: LedgerStory, book: Book) -> Iterator[Violation]:
    """Nothing missing, nothing double, no time that the rule does not have."""
    name = book.schedule_id
    ran = 0
    for before, after in pairwise(book.entries):
        if after.nominal_at <= before.last_at:
            yield Violation("double", f"{name}: {after} is decided already by {before}")
        if after.version < before.version:
            yield Violation("went_back", f"{name}: {after} was decided before {before}")
    for era in eras(book):
        ran += sum(entry.outcome == RUN for entry in era.entries)
        edition = era.edition
        exhausted = edition.max_fires is not None and max(ran, book.fired) >= edition.max_fires
        if era.until is not None or book.next_id is None:
            exhausted = exhausted or _may_have_ended(book, edition)
        decided = max([era.after, *(entry.last_at for entry in era.entries)])
        until = decided if era.until is None or exhausted else era.until
        expected = _times(edition, era.after, until)
        yield from _covered(name, edition.timing, era.entries, expected)
        going_on = era.until is None and not (exhausted or edition.paused or edition.deleted)
        if going_on and story.settled:
            now = story.wall(story.ended_true) - story.slack_ms - edition.jitter_ms
            left = _times(edition, decided, now)
            if left:
                yield Violation("undecided", f"{name}: {len(left)} times from {left[0]} on, and it is {now}")


def filled(book: Book) -> Iterator[Violation]:
    """What ran later did not run before, and what was put in is a time of the rule that there was then."""
    name, editions = book.schedule_id, {edition.version: edition for edition in book.editions}
    for before, after in pairwise(book.entries):
        if after.nominal_at <= before.last_at and not BY_BACKFILL.isdisjoint((before.reason, after.reason)):
            yield Violation("filled_twice", f"{name}: {after} is decided already by {before}")
    put_in = {entry.nominal_at: entry for entry in book.entries if entry.in_course is None}
    for entry in book.entries:
        if entry.was is not None and entry.was.outcome == RUN:
            yield Violation("ran_again", f"{name}: {entry} had run before")
        edition = editions.get(entry.version)
        if edition is not None and (entry.was is not None or entry.nominal_at in put_in):
            yield from _read(name, edition.timing, entry)
    for entry in put_in.values():
        edition = editions.get(entry.at_first.version)
        if edition is None or not _times(edition, entry.nominal_at - 1, entry.nominal_at) or entry.times != 1:
            yield Violation("filled_wrong", f"{name}: {edition} does not have {entry}")
        if book.filled is not None and entry.nominal_at not in book.filled:
            yield Violation("filled_unasked", f"{name}: no backfill has put in {entry}")
    untold = sorted((book.filled or frozenset()) - put_in.keys())
    if untold:
        yield Violation("filled_untold", f"{name}: {untold[:5]}, {len(untold)} times, of which no row says so")


def _times(edition: Edition, after: int, until: int) -> Sequence[int]:
    if edition.start_at is not None:
        after = max(after, edition.start_at - 1)
    return times(edition.timing, after, until if edition.end_at is None else min(until, edition.end_at))


def _covered(name: str, timing: Timing, entries: list[Entry], expected: Sequence[int]) -> Iterator[Violation]:
    place = 0
    for entry in entries:
        at, end = bisect_left(expected, entry.nominal_at), bisect_right(expected, entry.last_at)
        if at > place:
            yield Violation("missing", f"{name}: {list(expected[place:at])[:5]}, {at - place} times, before {entry}")
        if at >= len(expected) or expected[at] != entry.nominal_at:
            yield Violation("unexpected", f"{name}: the rule does not have {entry}")
        elif end - at != entry.times or expected[end - 1] != entry.last_at:
            yield Violation("stretch_miscounted", f"{name}: {entry} stands for {end - at} times")
        elif not entry.read_later:
            yield from _read(name, timing, entry)
        place = max(place, end)
    if place < len(expected):
        yield Violation("missing", f"{name}: {list(expected[place:])[:5]}, {len(expected) - place} times, at the end")


def _read(name: str, timing: Timing, entry: Entry) -> Iterator[Violation]:
    """What the clocks of its zone showed then."""
    if entry.local_ms != local_ms(timing, entry.nominal_at):
        yield Violation("wrong_reading", f"{name}: {entry}, not {local_ms(timing, entry.nominal_at)}")
    elif entry.times == 1 and entry.collapsed != collapsed(timing, entry.nominal_at):
        yield Violation("wrong_reading", f"{name}: {entry} collapses {collapsed(timing, entry.nominal_at)}")


def fires(story: LedgerStory, book: Book) -> Iterator[Violation]:
    """Each row has its task, each task its row, and the schedule counts both."""
    name, held = book.schedule_id, {fire.task_id: fire for fire in book.fires}
    named: set[str] = set()
    for entry in book.entries:
        if entry.times > 1 and entry.task_id is None:
            continue
        fire = held.get(entry.task_id or "")
        if fire is None or fire.task_id in named:
            yield Violation("task_gone", f"{name}: {entry} has no task of its own")
            continue
        named.add(fire.task_id)
        if entry.outcome == RUN and fire.state == "dead" and not entry.failed:
            yield Violation("failure_uncounted", f"{name}: {entry} and its task {fire}", fire.task_id)
        if not _fits(entry, fire):
            yield Violation("task_wrong", f"{name}: {entry} and its task {fire}", fire.task_id)
        elif story.settled and fire.state not in FINISHED:
            yield Violation("task_unfinished", f"{name}: {entry} and its task {fire}", fire.task_id)
    for fire in book.fires:
        if fire.task_id not in named and fire.task_id != book.next_id and not fire.triggered:
            yield Violation("fire_without_row", f"{name}: {fire}", fire.task_id)


def counts(book: Book) -> Iterator[Violation]:
    """The schedule counts what its ledger says."""
    totals = Counter({RUN: 0, SKIPPED: 0, MISSED: 0})
    for entry in book.entries:
        totals[entry.outcome] += entry.times
    failed = sum(entry.failed for entry in book.entries)
    counted = (book.fired, book.skipped, book.missed, book.failed)
    if counted != (totals[RUN], totals[SKIPPED], totals[MISSED], failed):
        yield Violation(
            "counts_wrong", f"{book.schedule_id}: {counted} and the ledger {totals}, {failed} of them failed"
        )


def _fits(entry: Entry, fire: Fire) -> bool:
    allowed = STATES.get(entry.outcome)
    fits = fire.state in allowed if allowed is not None else fire.state not in {"skipped", "missed"}
    return fits and fire.nominal_at == entry.nominal_at


def hits(story: LedgerStory, book: Book, arrivals: dict[str, list[Arrival]]) -> Iterator[Violation]:
    """What ran has reached its receiver, and nothing else has; no time twice, none early, none over another."""
    name = book.schedule_id
    let_run = {entry.task_id for entry in book.entries if entry.outcome == RUN}
    by_nominal: dict[int, set[str]] = defaultdict(set)
    for fire in book.fires:
        mine = arrivals.get(fire.task_id, [])
        if fire.triggered:
            continue
        if mine:
            by_nominal[fire.nominal_at].add(fire.task_id)
        if mine and fire.task_id not in let_run and fire.task_id != book.next_id:
            yield Violation("hit_without_row", f"{name}: {fire} was sent and is not let run", fire.task_id)
        good = any(one.status is not None and 200 <= one.status < 300 for one in mine)
        if (fire.state == "succeeded" and not good) or (fire.state == "dead" and not mine):
            yield Violation("run_without_hit", f"{name}: {fire}, and its hits {mine}", fire.task_id)
    for nominal, tasks in by_nominal.items():
        if len(tasks) > 1:
            yield Violation("fired_twice", f"{name}: {nominal} by {sorted(tasks)}")
    # What somebody wished to run beside its times runs beside them.
    later = {entry.task_id for entry in book.entries if entry.reason in {BACKFILL, RUN_LATER}}
    if all(edition.overlap != "allow" for edition in book.editions):
        yield from overlaps(story, name, [fire for fire in book.fires if fire.task_id not in later], arrivals)
    if book.lined:
        in_line = {entry.task_id for entry in book.entries if entry.reason == BACKFILL}
        yield from overlaps(story, name, [fire for fire in book.fires if fire.task_id in in_line], arrivals)


def early(story: LedgerStory, book: Book, arrivals: dict[str, list[Arrival]]) -> Iterator[Violation]:
    """Nothing comes before its time, but what somebody has run by hand: that may be ahead of a clock set back."""
    wished = {entry.task_id for entry in book.entries if entry.reason == RUN_LATER}
    for fire in book.fires:
        if fire.triggered or fire.task_id in wished:
            continue
        found = [
            one for one in arrivals.get(fire.task_id, []) if story.latest_wall(one.true) + EARLY_MS < fire.nominal_at
        ]
        if found:
            yield Violation("fired_early", f"{book.schedule_id}: {fire}: {found[0]}", fire.task_id)
