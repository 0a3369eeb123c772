"""The checker: from a history to a verdict. Pure; it believes nothing but the records."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import msgspec

from tests.chaos import cut_checks, delivery, durability, ring_checks, ring_counters, ring_ledgers
from tests.chaos.history import Record
from tests.chaos.story import Call, Story
from tests.chaos.verdict import Verdict, Violation

CHECKS: tuple[Callable[[Story], Iterator[Violation]], ...] = (
    durability.acknowledged_creates,
    durability.creates_once,
    durability.replays,
    durability.cancels,
    durability.deletes,
    durability.ends,
    durability.attempt_lines,
    durability.conservation,
    durability.nodes,
    delivery.once_for_each_claim,
    delivery.explained,
    delivery.apart,
    delivery.at_most_once,
    delivery.never_early,
    delivery.no_late_byte,
    delivery.not_late,
    delivery.recorded,
    delivery.truthful,
    ring_checks.leases,
    ring_checks.claims,
    ring_checks.fences,
    ring_checks.rescues,
    ring_checks.takeovers,
    ring_checks.unclaimed,
    ring_checks.converged,
    ring_checks.delays,
    ring_checks.stampedes,
    ring_ledgers.ledgers,
    cut_checks.gossip_moves_nothing,
    cut_checks.silent,
    cut_checks.late_claims,
    cut_checks.moved_on,
    cut_checks.joins,
)


def check(records: Iterable[Record]) -> Verdict:
    """Judge a history."""
    story = Story(records)
    if story.run is None:
        return Verdict([], Counter(), ["the history does not say what was run"])
    found = [violation for one in CHECKS for violation in one(story)]
    counters = count(story)
    void = [f"{name} was never seen" for name in story.run.demanded if not counters[name]]
    return Verdict([_with_evidence(story, one) for one in found], counters, void)


def count(story: Story) -> Counter[str]:
    """How often each thing happened that a suite may demand."""
    counters: Counter[str] = Counter()
    for call in story.calls.values():
        _count_call(call, counters)
    counters["acknowledged"] = sum(len(ids) for ids in story.acknowledged.values())
    for mark, creates in story.creates.items():
        if any(call.maybe for call in creates):
            counters[_what_an_unknown_create_was(story, mark, creates)] += 1
    _count_sends(story, counters)
    for row in story.rows.values():
        counters[f"end_{row.state}"] += 1
        counters[f"reason_{row.reason}"] += row.reason is not None
    for line in story.attempt_by_claim.values():
        counters[f"attempt_{line.state}"] += 1
    for fault in story.faults:
        counters[f"fault_{fault.kind}"] += 1
        counters["kills"] += fault.kind in {"kill", "armed"}
        counters[f"at_{fault.label}"] += fault.label is not None
        counters[f"store_{fault.label}"] += fault.kind == "store"
    for seen in story.seen.values():
        counters.update({f"event_{name}": number for name, number in seen.events.items()})
    counters["starts"] = sum(node.what == "started" for node in story.nodes)
    ring_counters.count(story, counters)
    cut_checks.count(story, counters)
    return +counters


def _what_an_unknown_create_was(story: Story, mark: str, creates: list[Call]) -> str:
    """Its answer never came: had it been carried out? Known by its row, or by the first answer to its repetition."""
    told = [call.returned for call in creates if call.acknowledged and call.returned is not None]
    if told:
        return "unknown_create_there" if told[0].replayed else "unknown_create_repeated"
    return "unknown_create_there" if story.rows_by_mark.get(mark) else "unknown_create_absent"


def _count_call(call: Call, counters: Counter[str]) -> None:
    returned = call.returned
    outcome = "info" if returned is None else returned.outcome
    counters[f"{call.invoked.action}_{outcome}"] += 1
    if returned is not None:
        counters["replayed"] += returned.replayed
        cancel = call.acknowledged and call.invoked.action == "cancel"
        counters["cancelled_while_running"] += cancel and returned.state == "running"


def _count_sends(story: Story, counters: Counter[str]) -> None:
    for task_id, sends in story.sends.items():
        counters["hits"] += len(sends)
        counters["retried"] += len(sends) > 1
        if not story.calls_on(task_id, "delete"):
            counters["duplicates"] += sum(delivery.is_duplicate(story, before) for before, _ in pairwise(sends))


def _with_evidence(story: Story, violation: Violation) -> Violation:
    task_id = violation.task_id
    if task_id is None:
        return violation
    evidence: list[Record] = []
    for call in story.calls.values():
        returned = call.returned
        if call.invoked.task_id == task_id or (returned is not None and task_id in returned.ids):
            evidence += [one for one in (call.invoked, returned) if one is not None]
    for send in story.sends.get(task_id, ()):
        evidence += [one for one in (send.hit, send.answered) if one is not None]
    return msgspec.structs.replace(violation, evidence=evidence)
