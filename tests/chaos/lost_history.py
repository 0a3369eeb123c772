"""What it means that a database has lost its last moments: what that explains, and what has to be noticed. Pure."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tests.chaos.history import Record
from tests.chaos.story import SIGHT_SLACK_MS, Story
from tests.chaos.verdict import Verdict, Violation

# What may be seen of a task whose creation, end, claim or cancel was lost: rules that go over a failover only where
# nothing is lost by it. A fence that comes a second time is not among them.
EXPLAINED = frozenset(
    {
        "at_most_once_twice",
        "attempt_back",
        "attempt_unrecorded",
        "cancel_undone",
        "deleted_lives",
        "lost",
        "not_replayed",
        "other_answer",
        "started_after_cancel",
        "started_after_delete",
        "unexplained_duplicate",
        "wrong_end",
    }
)
NOTICED_WITHIN_MS = 10_000


class Gap(msgspec.Struct, frozen=True):
    """A failover: since when nothing reached the standby, when the primary was lost, when the heir had its place,
    and when that had a standby again."""

    held_at: int
    lost_at: int
    promoted_at: int
    again_at: int


class Noticed(msgspec.Struct, frozen=True):
    """What a node said of it."""

    at: int
    name: str
    event: str


def judge(
    verdict: Verdict, records: Iterable[Record], gaps: Sequence[Gap], noticed: Sequence[Noticed], *, loses: bool
) -> tuple[Verdict, list[str]]:
    """The verdict without what was lost with the gaps, and with what should have been noticed; what was lost."""
    story = Story(records)
    counters = verdict.counters.copy()
    kept: list[Violation] = []
    lost: list[str] = []
    for violation in verdict.violations:
        if loses and (_is_explained(story, violation, gaps) or _is_count_of_deletes(story, violation, gaps)):
            counters[f"regressed_{violation.kind}"] += 1
            if violation.kind == "lost":
                lost.append(violation.task_id or "")
        else:
            kept.append(violation)
    counters["lost_acknowledged"] = len(lost)
    void = [one for one in verdict.void if not one.startswith("lost_acknowledged") or not lost]
    kept += _unnoticed(story, gaps, noticed) if loses else _false_alarms(noticed)
    kept += _sent_after(story, gaps, noticed)
    return Verdict(kept, counters, void), sorted(lost)


def _is_explained(story: Story, violation: Violation, gaps: Sequence[Gap]) -> bool:
    """Whether something was told or sent of this task while nothing of it was kept."""
    task_id = violation.task_id
    if violation.kind not in EXPLAINED or task_id is None:
        return False
    calls = [*story.actions.get(task_id, ())]
    marks = [mark for mark, ids in story.acknowledged.items() if task_id in ids]
    calls += [call for mark in marks for call in story.creates[mark]]
    instants = [call.returned.at for call in calls if call.returned is not None]
    instants += [send.at for send in story.sends.get(task_id, ())]
    instants += [send.ended_at for send in story.sends.get(task_id, ())]
    return any(
        gap.held_at - SIGHT_SLACK_MS <= at <= gap.promoted_at + SIGHT_SLACK_MS for gap in gaps for at in instants
    )


def _is_count_of_deletes(story: Story, violation: Violation, gaps: Sequence[Gap]) -> bool:
    """Whether fewer are counted as purged than were deleted, by no more than were deleted in vain."""
    if violation.kind != "counts" or "purged" not in violation.detail or story.sql is None:
        return False
    deletes = [
        call.returned
        for calls in story.actions.values()
        for call in calls
        if call.invoked.action == "delete" and call.acknowledged and call.returned is not None
    ]
    in_vain = sum(_is_in(one.at, gaps) for one in deletes)
    return len(deletes) - in_vain <= story.sql.counts.get("purged", 0) <= len(deletes)


def _is_in(at: int, gaps: Sequence[Gap]) -> bool:
    return any(gap.held_at - SIGHT_SLACK_MS <= at <= gap.promoted_at + SIGHT_SLACK_MS for gap in gaps)


def _false_alarms(noticed: Sequence[Noticed]) -> Iterator[Violation]:
    """Nobody believes that something was lost where nothing was."""
    for one in noticed:
        if one.event == "history_regressed":
            yield Violation("false_alarm", f"{one.name} said at {one.at} that the history went back; it did not")


def _unnoticed(story: Story, gaps: Sequence[Gap], noticed: Sequence[Noticed]) -> Iterator[Violation]:
    """Every node that was there says that the database is another; that it lacks something, if it had renewed since."""
    ttl_ms = (story.run.ttl_ms or 0) if story.run is not None else 0
    names = sorted({node.name for node in story.nodes if node.name is not None})
    for gap in gaps:
        for name in names:
            said = {one.event for one in noticed if one.name == name and gap.lost_at <= one.at <= _until(gap)}
            if gap.lost_at - gap.held_at > ttl_ms and "history_regressed" not in said:
                detail = f"{name} had renewed its term for {gap.lost_at - gap.held_at} ms, which was lost"
                yield Violation("unnoticed", f"{detail}, and said {sorted(said)}")
            elif not said:
                yield Violation("unnoticed", f"{name} did not see the failover at {gap.lost_at}")


def _until(gap: Gap) -> int:
    return gap.again_at + NOTICED_WITHIN_MS


def _sent_after(story: Story, gaps: Sequence[Gap], noticed: Sequence[Noticed]) -> Iterator[Violation]:
    """Once all have seen what was lost, nothing is sent any more of what was claimed in it."""
    for gap in gaps:
        seen = [one.at for one in noticed if gap.lost_at <= one.at <= _until(gap)]
        if not seen:
            continue
        for sends in story.sends.values():
            for send in sends:
                # A fence begins at the time of its claim, by the database that is no more.
                claimed_in_it = gap.held_at <= send.fence <= gap.lost_at and story.line_of(send) is None
                if claimed_in_it and send.at > max(seen) + SIGHT_SLACK_MS:
                    detail = f"attempt {send.attempt} of {send.task_id} was sent {send.at - max(seen)} ms after all"
                    yield Violation("sent_after_loss", f"{detail} had seen that its claim is lost", send.task_id)
