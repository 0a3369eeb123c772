"""Checks of a ring: who may hold what, who may claim and end what, who takes over and how soon. Pure."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.durability import CUT_OFF
from tests.chaos.history import AttemptLine, Connections, Fault, Taken
from tests.chaos.ring_story import FOR_EVER, RingStory, partition_of
from tests.chaos.story import FINISHED, Story
from tests.chaos.verdict import Violation

# Two statements that are under way at once: which of them came first is not known.
ORDER_SLACK_MS = 100
# What reads its clock and then asks the database.
CLOCK_SLACK_MS = 20
# Beyond a term and a sweep, how long a partition, or work in it, may be left to nobody.
TAKEOVER_MS = 2_000
# The same after the store itself was not there.
HEALED_MS = 10_000
# A node has about a dozen connections; two seconds may share one of the clock's.
CONNECTIONS_A_SECOND_MAX = 16


def leases(story: Story) -> Iterator[Violation]:
    """A lease is taken from nobody whose term runs; its epoch is given out once, and only grows."""
    ring = story.ring
    if ring is None:
        return
    for partition, changes in ring.changes.items():
        last, holder = -1, None
        for taken in changes:
            if taken.epoch < last:
                detail = f"partition {partition} went from epoch {last} to {taken.epoch}"
                yield Violation("epoch_back", detail)
            elif taken.epoch == last and taken.holder is not None and taken.holder != holder:
                detail = f"partition {partition} under epoch {last}: {holder}, then {taken.holder}"
                yield Violation("epoch_shared", detail)
            last, holder = taken.epoch, taken.holder or holder
            if is_stolen(taken) and not _was_over(ring, taken):
                detail = f"partition {partition} was taken from {taken.before} at {taken.at}, its term ran to "
                yield Violation("stolen_early", f"{detail}{taken.before_expires_at}")
    for sample in ring.samples:
        many = Counter(lease.partition for lease in sample.leases if lease.holder is not None)
        for partition in (one for one, number in many.items() if number > 1):
            yield Violation("two_holders", f"partition {partition} had {many[partition]} holders at {sample.at}")


def is_stolen(taken: Taken) -> bool:
    """Whether it was taken from one who had not given it back, and of whose end there was no proof."""
    return taken.holder is not None and taken.before not in {None, taken.holder} and taken.before_dead_at is None


def _was_over(ring: RingStory, taken: Taken) -> bool:
    """Whether the term of who had it had ended; one that was renewed meanwhile, unseen, is no matter: the epoch is."""
    assert taken.before is not None
    if taken.before_expires_at is not None and taken.before_expires_at <= taken.at:
        return True  # a renewal that was written and is not committed prolongs nothing
    term = ring.in_force(taken.before, taken.asked - ORDER_SLACK_MS)
    return term is None or term.expires_at is None or term.expires_at <= taken.at


def claims(story: Story) -> Iterator[Violation]:
    """What is claimed is claimed under a lease that is the claimer's, while he trusts it."""
    ring = story.ring
    if ring is None:
        return
    for line in story.attempt_by_claim.values():
        hold = ring.hold_of(line)
        name = f"attempt {line.attempt} of {line.task_id}, claimed at {line.picked_at} under epoch {line.epoch}"
        if hold is None or hold.holder is None:
            yield Violation("claim_without_lease", f"{name}: nobody had that lease", line.task_id)
        elif line.picked_at > hold.until + CLOCK_SLACK_MS or line.picked_at < hold.taken.at - ORDER_SLACK_MS:
            detail = f"{name}: it was {hold.holder}'s from {hold.taken.at} to {hold.until}"
            yield Violation("stale_claim", detail, line.task_id)
        elif not _trusted(story, ring, hold.holder, line):
            yield Violation("untrusted_claim", f"{name}: the term of {hold.holder} was over", line.task_id)


def _trusted(story: Story, ring: RingStory, holder: str, line: AttemptLine) -> bool:
    term = ring.in_force(holder, line.picked_at + CLOCK_SLACK_MS)
    if term is None or term.expires_at is None or line.picked_at <= term.expires_at + CLOCK_SLACK_MS:
        return True
    # Held between its look at the clock and its question to the database; the guard is the database's then.
    number = ring.number_of.get(holder)
    held = (one for one in story.faults if one.kind == "stop" and one.node == number)
    return any(one.at <= line.picked_at + CLOCK_SLACK_MS and one.end >= term.expires_at for one in held)


def fences(story: Story) -> Iterator[Violation]:
    """A fence is issued once; what was ended under an old one changed nothing."""
    if story.ring is None:
        return
    for task_id, lines in story.attempts.items():
        many = Counter(line.fence for line in lines)
        for fence in (one for one, number in many.items() if number > 1):
            yield Violation("fence_shared", f"{task_id}: {many[fence]} attempts under fence {fence}", task_id)
        for line, later in pairwise(lines):
            answered = line.state in {"succeeded", "failed"}
            if answered and later.picked_at + ORDER_SLACK_MS < line.completed_at:
                detail = f"attempt {line.attempt} of {task_id} ended at {line.completed_at} as {line.state}, "
                detail += f"attempt {later.attempt} was claimed at {later.picked_at}"
                yield Violation("stale_end_accepted", detail, task_id)
            if line.state == "succeeded" and later.series == line.series:
                yield Violation("stale_end_accepted", f"{task_id} was tried again after its success", task_id)


def rescues(story: Story) -> Iterator[Violation]:
    """Nobody ends another's attempt before its lease has passed, without proof that he is dead; and proofs are true."""
    ring, run = story.ring, story.run
    if ring is None or run is None:
        return
    for line in story.attempt_by_claim.values():
        wanted, hold = story.wanted_of(line.task_id), ring.hold_of(line)
        if line.state not in CUT_OFF or wanted is None or hold is None or hold.holder is None:
            continue
        lease_until = line.picked_at + run.start_delay_ms + wanted.timeout_ms + run.lease_margin_ms
        dead_at = ring.dead_at(hold.holder)
        proven = dead_at is not None and dead_at <= line.completed_at + CLOCK_SLACK_MS
        if line.completed_at < lease_until - CLOCK_SLACK_MS and not proven:
            detail = f"attempt {line.attempt} of {line.task_id} was rescued {lease_until - line.completed_at} ms early"
            yield Violation("rescued_early", detail, line.task_id)
    for incarnation, number in ring.number_of.items():
        dead_at = ring.dead_at(incarnation)
        if dead_at is None or number is None:
            continue
        asked = any(one.node == number and one.kind == "term" and one.at <= dead_at for one in story.faults)
        if dead_at < ring.lives[number].exited - ORDER_SLACK_MS and not asked:
            detail = f"{incarnation} was said to be dead at {dead_at}, it ended at {ring.lives[number].exited}"
            yield Violation("false_proof", detail)


def takeovers(story: Story) -> Iterator[Violation]:
    """What a dead node had is another's within a term, a sweep and two seconds."""
    bound_ms = bound(story)
    for fault, partition, took_ms in takeover_times(story):
        if took_ms > bound_ms:
            took = f"after {took_ms} ms" if took_ms < FOR_EVER // 2 else "never"
            detail = f"partition {partition} of node {fault.node}, which died at {fault.end}, was taken {took}"
            yield Violation("late_takeover", detail)


def bound(story: Story) -> int:
    """How long what is claimed by nobody may lie."""
    assert story.run is not None
    return (story.run.ttl_ms or 0) + story.run.sweep_every_ms + TAKEOVER_MS


def takeover_times(story: Story) -> Iterator[tuple[Fault, int, int]]:
    """For each death and each partition that it left, for how long that was nobody's, if somebody was there."""
    ring = story.ring
    if ring is None or story.run is None:
        return
    bound_ms = bound(story)
    ended = max((sample.at for sample in ring.samples), default=0)
    for fault in story.faults:
        if fault.kind not in {"kill", "armed"} or not _is_calm(story, ring, fault, bound_ms):
            continue
        mine = {incarnation for incarnation, number in ring.number_of.items() if number == fault.node}
        for partition, holds in ring.holds.items():
            for place, hold in enumerate(holds):
                if hold.holder in mine and hold.taken.at <= fault.end < hold.until:
                    heirs = (later.taken.at for later in holds[place + 1 :] if later.holder is not None)
                    at = next(heirs, None)
                    if at is not None or ended > fault.end + bound_ms:
                        yield fault, partition, (FOR_EVER if at is None else at) - fault.end


def _is_calm(story: Story, ring: RingStory, fault: Fault, bound_ms: int) -> bool:
    """Whether another node was there when this one died, and nothing else went wrong for as long as that takes."""
    until = fault.end + bound_ms
    others = [one for one in story.faults if one is not fault and one.end >= fault.at and one.at <= until]
    lasting = [life for life in ring.up_at(fault.at) if life.number != fault.node and life.exited > until]
    return not others and bool(lasting)


def unclaimed(story: Story) -> Iterator[Violation]:
    """What is due is claimed within a term, a sweep and two seconds of what last befell its owner."""
    ring, run = story.ring, story.run
    if ring is None or run is None:
        return
    bound_ms = bound(story)
    for line, due in due_times(story):
        if line.picked_at - due <= bound_ms:
            continue
        since = max(due, _last_trouble(story, ring, line, due))
        of_store = any(one.kind == "store" and one.end >= since for one in story.faults)
        if line.picked_at - since > bound_ms + (HEALED_MS - TAKEOVER_MS if of_store else 0):
            detail = (
                f"attempt {line.attempt} of {line.task_id} (partition {partition_of(line.task_id)}) stood due from "
            )
            yield Violation("late_claim", f"{detail}{due}, was claimed {line.picked_at - since} ms after", line.task_id)


def due_times(story: Story) -> Iterator[tuple[AttemptLine, int]]:
    """Every attempt, and since when it could have been claimed, as far as one can know."""
    for task_id, lines in story.attempts.items():
        row, wanted = story.rows.get(task_id), story.wanted_of(task_id)
        if row is None or story.calls_on(task_id, "retry"):
            continue
        heard = [call.returned.at for call in story.creates.get(row.mark or "", ()) if call.returned is not None]
        if any(call.maybe for call in story.creates.get(row.mark or "", ())) and story.cut_between(0, FOR_EVER):
            heard = []  # what was not answered may have been on its way for long
        if lines and (heard or wanted is None):
            yield lines[0], max([row.run_at, *heard[:1]])
        for before, line in pairwise(lines):
            wait_ms = wanted.retry_ms if wanted is not None else 0
            yield line, before.completed_at + (wait_ms if before.state != "released" else 0)


def _last_trouble(story: Story, ring: RingStory, line: AttemptLine, due: int) -> int:
    """When the last thing befell an owner of its partition, or all of them, while it stood due."""
    last = due
    for fault in story.faults:
        if fault.kind == "store" and fault.end >= due and fault.at <= line.picked_at:
            last = max(last, min(fault.end, line.picked_at))
    numbers = {
        ring.number_of.get(hold.holder or "")
        for hold in ring.held_between(partition_of(line.task_id), due - bound(story), line.picked_at)
    }
    for fault in story.faults:
        if fault.node in numbers and fault.end >= due - bound(story) and fault.at <= line.picked_at:
            last = max(last, fault.at if fault.kind == "stop" and fault.end > line.picked_at else fault.end)
    return max([last, *(end for _, end in ring.nobody_between(due, line.picked_at))])


def converged(story: Story) -> Iterator[Violation]:
    """In the end partitions have owners who live, all who are there have a share, nothing runs under the dead."""
    ring = story.ring
    if ring is None:
        return
    if not ring.samples:
        yield Violation("not_converged", "nobody looked at the leases in the end")
        return
    last = ring.samples[-1]
    # A process may have gone on as another; the last that it was is what it is.
    latest = {number: one for one, number in sorted(ring.number_of.items(), key=lambda pair: ring.terms[pair[0]][0].at)}
    there = {one for number, one in latest.items() if number is not None and _is_there(ring, number, last.at)}
    for lease in last.leases:
        if lease.holder not in there or (last.expires_at.get(lease.holder or "") or 0) <= last.at:
            yield Violation("not_converged", f"partition {lease.partition} is {lease.holder}'s, there are {there}")
    without = there - {lease.holder for lease in last.leases}
    if without:
        yield Violation("not_converged", f"{sorted(without)} are there and own nothing")
    running = [row.id for row in story.rows.values() if row.state not in FINISHED and row.state == "running"]
    if running:
        yield Violation("not_converged", f"{len(running)} attempts still run, such as {running[0]}", running[0])


def _is_there(ring: RingStory, number: int, at: int) -> bool:
    life = ring.lives[number]
    return life.ready <= at < life.exited


def stampedes(story: Story) -> Iterator[Violation]:
    """However many nodes have lost their connections, they come back a few at a time."""
    most = CONNECTIONS_A_SECOND_MAX * len({node.name for node in story.nodes})
    for record in story.of_ring:
        if isinstance(record, Connections):
            for second, number in record.by_second.items():
                if number > most:
                    yield Violation("stampede", f"{number} connections were asked for in the second {second}")


def delays(story: Story) -> Iterator[Violation]:
    """Where that is what is asked: nothing is claimed later than this."""
    if story.ring is None or story.run is None or story.run.delay_max_ms is None:
        return
    for line, due in due_times(story):
        if line.picked_at - due > story.run.delay_max_ms:
            detail = f"attempt {line.attempt} of {line.task_id} was claimed {line.picked_at - due} ms late"
            yield Violation("delayed", detail, line.task_id)
