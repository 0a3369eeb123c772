"""How often each thing happened in a ring that a suite may demand, and its figures. Pure."""

from collections import Counter

from tests.chaos.history import Connections
from tests.chaos.ring_checks import due_times, is_stolen, takeover_times
from tests.chaos.ring_story import RingStory, partition_of
from tests.chaos.story import Story

STALE = ("event_stale_write", "event_attempt_end_stale")


def count(story: Story, counters: Counter[str]) -> None:
    """Add what is counted of a ring."""
    ring = story.ring
    if ring is None:
        return
    for changes in ring.changes.values():
        for taken in changes:
            counters["stolen_after_expiry"] += is_stolen(taken)
            proven = taken.before_dead_at is not None and taken.holder != taken.before
            counters["taken_after_proof"] += taken.holder is not None and proven
            counters["handed_over"] += taken.holder is None
    counters["stale_rejected"] = counters["event_stale_write"]
    counters["ghosts"] = sum(len(sends) for sends in story.ghosts.values())
    counters["rescued"] = counters["attempt_lease_lost"] + counters["attempt_interrupted"]
    counters["unclaimed"] = counters["event_unclaimed"] + counters["event_claim_given_back"]
    for one in ring.logged:
        counters.update({f"log_{event}": number for event, number in one.events.items()})
    _count_moves(story, ring, counters)
    _count_hints(story, ring, counters)
    counters["takeover_max_ms"] = max((took for _, _, took in takeover_times(story)), default=0)
    late = sorted(line.picked_at - due for line, due in due_times(story))
    counters["lateness_p99_ms"] = late[int(len(late) * 0.99)] if late else 0
    counters["lateness_max_ms"] = late[-1] if late else 0
    for record in story.of_ring:
        if isinstance(record, Connections):
            counters["connections_a_second_max"] = max(record.by_second.values(), default=0)


def _count_moves(story: Story, ring: RingStory, counters: Counter[str]) -> None:
    """Attempts whose partition was another's when their answer came, and was accepted."""
    for line in story.attempt_by_claim.values():
        hold = ring.hold_of(line)
        if hold is None or line.status is None or hold.until >= line.completed_at:
            continue
        later = ring.held_between(partition_of(line.task_id), hold.until, line.completed_at)
        counters["ended_after_move"] += any(one.holder != hold.holder for one in later)


def _count_hints(story: Story, ring: RingStory, counters: Counter[str]) -> None:
    """Tasks that one node took in which gossips with nobody, and another one found."""
    for mark, calls in story.creates.items():
        for call in calls:
            if not call.acknowledged or call.invoked.via is None:
                continue
            asked = [life for life in ring.up_at(call.invoked.at) if life.name == call.invoked.via]
            silent = bool(asked) and not asked[0].gossips
            for row in story.rows_by_mark.get(mark, ()):
                lines = story.attempts.get(row.id)
                if silent and lines:
                    number = ring.claimer(lines[0])
                    counters["found_without_hint"] += number is not None and number != asked[0].number
