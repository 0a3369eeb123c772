"""Checks of a ring whose network was cut: who must go on, who must fall silent, and what moves. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping

from tests.chaos.history import Fault
from tests.chaos.ring_checks import bound
from tests.chaos.ring_story import RingStory
from tests.chaos.story import SIGHT_SLACK_MS, Send, Story
from tests.chaos.verdict import Violation

# Nothing of these comes between a node and what decides.
GOSSIP = frozenset({"gossip", "gossip_out", "gossip_all", "gossip_flaps", "udp"})
RECEIVERS = frozenset({"receivers", "receivers_out", "receivers_in"})
# In these the node cannot claim, or cannot hear that it has.
FROM_DATABASE = frozenset({"database", "database_refused", "database_out", "database_in", "alone"})
# What such a node had asked for may still come true once, and prolong its term.
UNHEARD = frozenset({"database_in"})
# What is sent may then arrive later than it left.
NEAR_RECEIVERS = frozenset({*RECEIVERS, "alone", "loss"})
LATE_SLACK_MS = 250
NO_UDP = "no_udp"
# A third of 256, and four times the deviation of a fair lot.
SHARE_OF_THIRD = range(55, 116)


def _cuts(story: Story, labels: frozenset[str]) -> list[Fault]:
    return [fault for fault in story.faults if fault.kind == "cut" and fault.label in labels]


def _whole_at(fault: Fault) -> int:
    return fault.at if fault.whole_at is None else fault.whole_at


def _is_alone(story: Story, fault: Fault) -> bool:
    """Whether nothing else was wrong meanwhile that decides anything."""
    others = (one for one in story.faults if one is not fault and one.label not in {NO_UDP, *GOSSIP, *RECEIVERS})
    return not any(one.end >= fault.at and one.at <= fault.end for one in others)


def gossip_moves_nothing(story: Story) -> Iterator[Violation]:
    """While nodes cannot gossip, and when they can again, no partition changes hands."""
    ring = story.ring
    if ring is None:
        return
    for fault in _cuts(story, GOSSIP):
        if not _is_alone(story, fault):
            continue
        for partition, changes in ring.changes.items():
            for taken in changes:
                if fault.at <= taken.at <= fault.end + SIGHT_SLACK_MS:
                    detail = f"partition {partition} came to {taken.holder} under epoch {taken.epoch} at {taken.at}"
                    yield Violation("gossip_moved", f"{detail}, while nodes could only not gossip ({fault.label})")


def silent(story: Story) -> Iterator[Violation]:
    """A node cut from its database begins no call later than what it had claimed permits."""
    if story.run is None:
        return
    for fault in _cuts(story, FROM_DATABASE):
        last_ms = _whole_at(fault) + story.run.start_delay_ms + SIGHT_SLACK_MS
        for send in _sends_of(story, fault):
            if last_ms < send.at <= fault.end:
                detail = (
                    f"attempt {send.attempt} of {send.task_id} was sent {send.at - _whole_at(fault)} ms after its node"
                )
                yield Violation("sent_while_cut", f"{detail} was cut from the database ({fault.label})", send.task_id)


def _sends_of(story: Story, fault: Fault) -> Iterator[Send]:
    addresses = {node.node: node.address for node in story.nodes if node.address is not None}
    address = addresses.get(fault.node)
    for sends in story.sends.values():
        yield from (send for send in sends if send.hit.peer == address)


def late_claims(story: Story) -> Iterator[Violation]:
    """A claim of which the node heard too late, since its answer was lost for a while, is given back and not sent."""
    if story.run is None:
        return
    for fault in _cuts(story, FROM_DATABASE):
        for send in _sends_of(story, fault):
            line = story.line_of(send)
            if line is None or not fault.at <= line.picked_at <= fault.end:
                continue
            late_ms = send.at - line.picked_at - story.run.start_delay_ms
            unsure = any(one.at <= send.at and one.end >= line.picked_at for one in _cuts(story, NEAR_RECEIVERS))
            if late_ms > LATE_SLACK_MS and not unsure:
                detail = f"attempt {send.attempt} of {send.task_id} left {late_ms} ms after its claim permitted"
                yield Violation(
                    "late_byte_after_cut", f"{detail}; its node had been cut off ({fault.label})", send.task_id
                )


def moved_on(story: Story) -> Iterator[Violation]:
    """What belongs to a node that is cut from the database for long enough is another's in time."""
    ring = story.ring
    if ring is None or story.run is None:
        return
    for fault in _cuts(story, FROM_DATABASE):
        within_ms = bound(story) + (story.run.ttl_ms or 0) * (fault.label in UNHEARD)
        if fault.end - fault.at <= within_ms or not _is_alone(story, fault):
            continue
        mine = {incarnation for incarnation, number in ring.number_of.items() if number == fault.node}
        for partition, holds in ring.holds.items():
            for hold in holds:
                if hold.holder in mine and hold.taken.at <= fault.at and hold.until > fault.at + within_ms:
                    detail = f"partition {partition} was still with node {fault.node} {within_ms} ms after it was cut"
                    yield Violation("late_takeover", f"{detail} from the database ({fault.label})")


def joins(story: Story) -> Iterator[Violation]:
    """A node more takes about its share of the partitions, each from who had it, and no other moves."""
    ring = story.ring
    if ring is None:
        return
    for fault in story.faults:
        if fault.kind != "join":
            continue
        before, after = _holders(ring, fault.at), _holders(ring, fault.end)
        moved = [one for one, holder in after.items() if before.get(one) != holder]
        for partition in moved:
            if ring.number_of.get(after[partition] or "") != fault.node:
                detail = f"partition {partition} moved from {before.get(partition)} to {after[partition]}"
                yield Violation("moved_for_nothing", f"{detail} as node {fault.node} joined")
        if len(moved) not in SHARE_OF_THIRD:
            yield Violation("unfair_share", f"{len(moved)} partitions moved as the third node joined")


def _holders(ring: RingStory, at: int) -> Mapping[int, str | None]:
    """In whose hand each was then."""
    found: dict[int, str | None] = {}
    for partition, holds in ring.holds.items():
        for hold in holds:
            if hold.taken.at <= at < hold.until:
                found[partition] = hold.holder
    return found


def count(story: Story, counters: Counter[str]) -> None:
    """How often each thing happened that a suite may demand, and its figures."""
    ring = story.ring
    if ring is None:
        return
    for fault in _cuts(story, GOSSIP):
        counters["gossip_cut_alone"] += _is_alone(story, fault)
    for fault in _cuts(story, FROM_DATABASE):
        for send in _sends_of(story, fault):
            counters["sent_before_cut"] += fault.at - 1_000 <= send.at < fault.at
            if _whole_at(fault) < send.at <= fault.end:
                counters["last_byte_after_cut_ms"] = max(counters["last_byte_after_cut_ms"], send.at - _whole_at(fault))
        mine = {incarnation for incarnation, number in ring.number_of.items() if number == fault.node}
        counters["moved_while_cut"] += sum(
            taken.before in mine and taken.holder not in mine and taken.holder is not None
            for changes in ring.changes.values()
            for taken in changes
            if fault.at <= taken.at <= fault.end
        )
    for fault in story.faults:
        if fault.kind == "join":
            before, after = _holders(ring, fault.at), _holders(ring, fault.end)
            counters["moved_to_third"] += sum(before.get(one) != holder for one, holder in after.items())
    _count_found(story, ring, counters)


def _count_found(story: Story, ring: RingStory, counters: Counter[str]) -> None:
    """Tasks that one node took in and another found, while no hint could pass."""
    numbers = {life.number: life.name for life in ring.lives.values()}
    for fault in _cuts(story, frozenset({NO_UDP})):
        for mark, calls in story.creates.items():
            asked = [call.invoked.via for call in calls if call.acknowledged and call.invoked.at >= fault.at]
            for row in story.rows_by_mark.get(mark, ()) if len(asked) == 1 else ():
                number = ring.claimer(story.attempts[row.id][0]) if story.attempts.get(row.id) else None
                counters["found_by_polling"] += number is not None and numbers.get(number) != asked[0]
