"""Checks of what was sent: once for each claim, never early, never at the same time, signed, and recorded. Pure."""

import base64
import hashlib
import hmac
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from tests.chaos.durability import CUT_OFF, TAKEN_UP_WITHIN_MS
from tests.chaos.history import AttemptLine, Fault
from tests.chaos.ring_story import FOR_EVER
from tests.chaos.story import SIGHT_SLACK_MS, Send, Story
from tests.chaos.verdict import Violation

# How much sooner than its timeout an answer may come and still be too late for the sender, on a busy machine.
TIMEOUT_SLACK_MS = 150
TIMESTAMP_FRESH_MS = 5_000


def once_for_each_claim(story: Story) -> Iterator[Violation]:
    """At most one request for each (task, attempt, fence); fences and attempts only grow."""
    many = Counter(send.claim for send in story.every_send())
    for task_id, attempt, fence in (claim for claim, number in many.items() if number > 1):
        detail = f"attempt {attempt} of {task_id} arrived {many[task_id, attempt, fence]} times"
        yield Violation("sent_twice", detail, task_id)
    for task_id, sends in story.sends.items():
        for before, send in pairwise(sends):
            if send.claim == before.claim or _overtaken(story, before, send):
                continue
            if send.fence <= before.fence:
                detail = f"{task_id} was sent under fence {send.fence} after {before.fence}"
                yield Violation("fence_back", detail, task_id)
            elif send.attempt <= before.attempt:
                detail = f"{task_id} was sent as attempt {send.attempt} after {before.attempt}"
                yield Violation("attempt_back", detail, task_id)
        for earlier, line in pairwise(story.attempts.get(task_id, ())):
            if line.fence <= earlier.fence:
                detail = f"attempts {earlier.attempt} and {line.attempt} of {task_id}: fences do not grow"
                yield Violation("fence_back", detail, task_id)


def explained(story: Story) -> Iterator[Violation]:
    """Every further request of a task has its reason: a failure that was recorded, or an unknown window."""
    for task_id, sends in story.sends.items():
        if story.calls_on(task_id, "delete"):
            continue
        for before, send in pairwise(sends):
            if _overtaken(story, before, send):
                continue
            why_not = _why_not_explained(story, before, send)
            if why_not is not None:
                detail = f"attempt {send.attempt} of {task_id} after attempt {before.attempt}: {why_not}"
                yield Violation("unexplained_duplicate", detail, task_id)


def _why_not_explained(story: Story, before: Send, send: Send) -> str | None:
    line = story.line_of(before)
    if line is None:
        return None if story.cause(None, before.at, send.at) else "the earlier one is not recorded, without a fault"
    if line.state == "succeeded":
        return "the earlier one had succeeded"
    if line.state == "failed":
        return None  # whether it did fail is asked of the line
    return None if story.cause(line, before.at, send.at) else f"the earlier one was {line.state}, without a fault"


def is_duplicate(story: Story, before: Send) -> bool:
    """Whether what follows this request is work done again: it had been answered well, or nobody knows."""
    line = story.line_of(before)
    return before.status is not None and 200 <= before.status < 300 and (line is None or line.state != "succeeded")


def apart(story: Story) -> Iterator[Violation]:
    """Attempts of a task never overlap, unless the earlier one's process had died or its lease had passed."""
    for task_id, sends in story.sends.items():
        for before, send in pairwise(sends):
            if send.at >= before.ended_at or _ended(story, before, send):
                continue
            if send.at < _lease_until(story, before):
                detail = f"attempt {send.attempt} of {task_id} began at {send.at}, {before.attempt} was under way"
                yield Violation("overlap", detail, task_id)


def _overtaken(story: Story, before: Send, send: Send) -> bool:
    """Whether the older of two requests was sent first, and only heard last: its sender was dead, or had hung up."""
    line, newer = story.line_of(send), story.line_of(before)
    if line is None or newer is None or send.fence >= before.fence or line.picked_at > newer.picked_at:
        return False
    hung_up = line.state == "failed" and line.status is None and line.completed_at <= send.at
    return hung_up or story.death(line, line.picked_at, send.at) is not None


def _ended(story: Story, before: Send, send: Send) -> bool:
    """Whether who sent the earlier one was dead, or had given up by its deadline and hung up."""
    line = story.line_of(before)
    if line is not None and line.state == "failed" and line.status is None and line.completed_at <= send.at:
        return True
    return story.death(story.line_of(before), before.at, send.at) is not None


def _lease_until(story: Story, send: Send) -> int:
    assert story.run is not None
    line, wanted = story.line_of(send), story.wanted_of(send.task_id) or story.wanted_by_id.get(send.task_id)
    if wanted is None:
        return FOR_EVER
    # Of a task that was deleted no line is left; a fence is no less than the time of its claim.
    claimed_at = send.fence if line is None else line.picked_at
    return claimed_at + story.run.start_delay_ms + wanted.timeout_ms + story.run.lease_margin_ms


def at_most_once(story: Story) -> Iterator[Violation]:
    """A task that must not be doubled is sent again only after a complete answer."""
    for task_id, sends in story.sends.items():
        wanted = story.wanted_of(task_id)
        if wanted is None or wanted.delivery != "at_most_once":
            continue
        for before, send in pairwise(sends):
            line = story.line_of(before)
            if _is_new_series(story, before, send):
                continue
            if before.status is None or line is None or line.status != before.status:
                detail = f"{task_id} was sent again (attempt {send.attempt}), outcome of {before.attempt} unknown"
                yield Violation("at_most_once_twice", detail, task_id)


def _is_new_series(story: Story, before: Send, send: Send) -> bool:
    """Whether somebody asked for the task to be tried again from the beginning, between these two."""
    line, later = story.line_of(before), story.line_of(send)
    return (
        line is not None
        and later is not None
        and later.series > line.series
        and any(call.invoked.at <= send.at for call in story.calls_on(send.task_id, "retry"))
    )


def never_early(story: Story) -> Iterator[Violation]:
    """Nothing arrives before its time: not before it was asked for, nor before its backoff has passed."""
    asked: dict[str, int] = {}
    for mark, calls in story.creates.items():
        asked[mark] = min(call.invoked.at for call in calls) + story.wanted[mark].delay_ms
    for task_id, sends in story.sends.items():
        row, wanted = story.rows.get(task_id), story.wanted_of(task_id)
        for send in sends:
            due_ms = max(_scheduled_at(send), asked.get(row.mark or "", 0) if row is not None else 0)
            if send.at < due_ms:
                yield Violation("early", f"{task_id} arrived {due_ms - send.at} ms early", task_id)
        for before, send in pairwise(sends):
            line = story.line_of(before)
            if line is None or wanted is None or line.state != "failed" or story.calls_on(task_id, "retry"):
                continue  # `retry` may also cut a backoff short
            if send.at < line.completed_at + wanted.retry_ms:
                detail = f"attempt {send.attempt} of {task_id} came {send.at - line.completed_at} ms after a failure"
                yield Violation("early_retry", detail, task_id)


def _scheduled_at(send: Send) -> int:
    text = send.hit.headers.get("tasktick-scheduled-at", "")
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000)
    except ValueError:
        return FOR_EVER  # a header that is no time is reported as early by for ever


def no_late_byte(story: Story) -> Iterator[Violation]:
    """No first byte leaves later than the start delay after its claim.

    Asked of processes that were held right after a claim: of others the hold may fall between the look at
    the clock and the byte, where nobody can do anything about it.
    """
    held = [fault for fault in story.faults if fault.kind == "stop" and fault.label == "after_claim_before_send"]
    for fault in held:
        theirs = (line for line in story.attempt_by_claim.values() if _is_by(story, line, fault))
        claimed = (line.picked_at for line in theirs if line.picked_at <= fault.at)
        last_ms = max(claimed, default=0)
        if last_ms < fault.at - SIGHT_SLACK_MS:
            continue  # what was claimed then was given back, and left no row
        for send in (send for sends in story.sends.values() for send in sends):
            line = story.line_of(send)
            if line is None or line.picked_at != last_ms or story.run is None or not _is_by(story, line, fault):
                continue
            late_ms = send.at - last_ms - story.run.start_delay_ms
            if late_ms > SIGHT_SLACK_MS:
                detail = f"attempt {send.attempt} of {send.task_id} left {late_ms} ms after its claim permitted"
                yield Violation("late_byte", detail, send.task_id)


def _is_by(story: Story, line: AttemptLine, fault: Fault) -> bool:
    """Whether the process that the fault befell had claimed this."""
    return story.ring is None or story.ring.claimer(line) == fault.node


def not_late(story: Story) -> Iterator[Violation]:
    """While a process is up, what is due starts and what was cut off is taken up, within bounds."""
    if story.ring is not None:
        return  # there it is asked who had it
    for task_id, sends in story.sends.items():
        row = story.rows.get(task_id)
        if row is not None and story.run is not None:
            bound_ms = story.run.sweep_every_ms + TAKEN_UP_WITHIN_MS
            awake_ms = _longest_awake_ms(story, row.run_at, sends[0].at, bound_ms)
            if awake_ms > bound_ms:
                yield Violation("late_start", f"{task_id} stood due for {awake_ms} ms of uptime", task_id)
    for line in story.attempt_by_claim.values():
        if line.state in CUT_OFF and story.run is not None:
            wanted = story.wanted_of(line.task_id)
            lease_ms = story.run.start_delay_ms + story.run.lease_margin_ms + (wanted.timeout_ms if wanted else 0)
            bound_ms = lease_ms + story.run.sweep_every_ms + TAKEN_UP_WITHIN_MS
            awake_ms = _longest_awake_ms(story, line.picked_at, line.completed_at, bound_ms)
            if awake_ms > bound_ms:
                yield Violation("late_rescue", f"{line.task_id} stood cut off for {awake_ms} ms", line.task_id)


def _longest_awake_ms(story: Story, first_ms: int, last_ms: int, bound_ms: int) -> int:
    """The longest time between two instants during which one process was ready; 0 if that is within the bound."""
    if last_ms - first_ms <= bound_ms:
        return 0
    longest_ms, since = 0, FOR_EVER
    for node in story.nodes:
        if node.what == "ready":
            since = node.at
        elif node.what == "exited":
            longest_ms = max(longest_ms, min(last_ms, node.at) - max(first_ms, since))
            since = FOR_EVER
    return max(longest_ms, last_ms - max(first_ms, since))


def recorded(story: Story) -> Iterator[Violation]:
    """Every request has its attempt, every attempt that was answered its request, and they agree."""
    by_claim = {send.claim: send for send in story.every_send()}
    for send in by_claim.values():
        if send.task_id in story.rows and story.line_of(send) is None and not _is_running(story, send):
            detail = f"attempt {send.attempt} of {send.task_id} (fence {send.fence}) was sent and has no row"
            yield Violation("attempt_unrecorded", detail, send.task_id)
    for line in story.attempt_by_claim.values():
        sent = by_claim.get((line.task_id, line.attempt, line.fence))
        fault = _disagreement(story, line, sent)
        if fault is not None:
            yield Violation(
                "success_unseen" if line.state == "succeeded" else "attempt_untrue",
                f"attempt {line.attempt} of {line.task_id} is {line.state} ({line.status}): {fault}",
                line.task_id,
            )


def _is_running(story: Story, send: Send) -> bool:
    row = story.rows[send.task_id]
    return row.state == "running" and (row.attempt, row.fence) == (send.attempt, send.fence)


def _disagreement(story: Story, line: AttemptLine, send: Send | None) -> str | None:
    """Where the record of an attempt is not what its receiver saw, if so."""
    if line.status is not None:
        if send is None:
            return "no receiver saw it"
        return None if send.status == line.status else f"the receiver answered {send.status}"
    if line.state == "succeeded":
        return "it has no status"
    if line.state != "failed" or send is None or send.answered is None or send.status is None:
        return None
    wanted = story.wanted_of(line.task_id)
    # What the sender did not wait for; a receiver on a busy machine may have begun late.
    too_late = send.answered.at >= line.completed_at
    too_late |= wanted is not None and send.answered.at >= send.at + wanted.timeout_ms - TIMEOUT_SLACK_MS
    held = any(
        one.kind == "stop" and one.end >= send.at - SIGHT_SLACK_MS and one.at <= line.completed_at
        for one in story.faults
    )
    unheard = held or story.cut_between(line.picked_at, max(send.at, line.completed_at))
    return None if too_late or unheard else f"the receiver had answered {send.status} in time"


def truthful(story: Story) -> Iterator[Violation]:
    """The request is what was asked for, under the task's id, freshly signed over these very bytes."""
    for hit in story.malformed:
        yield Violation("malformed", f"hit {hit.hit} on {hit.path} lacks headers: {sorted(hit.headers)}")
    for task_id, sends in story.sends.items():
        wanted, row = story.wanted_of(task_id), story.rows.get(task_id)
        for send in sends:
            headers = send.hit.headers
            if not _is_signed(story.secrets, send):
                yield Violation("bad_signature", f"attempt {send.attempt} of {task_id} is not signed well", task_id)
            if headers.get("idempotency-key") != task_id:
                detail = f"{task_id} came with the key {headers.get('idempotency-key')}"
                yield Violation("wrong_header", detail, task_id)
            if wanted is not None and headers.get("tasktick-max-attempts") != str(wanted.max_attempts):
                detail = f"{task_id} may be tried {headers.get('tasktick-max-attempts')} times, it says"
                yield Violation("wrong_header", detail, task_id)
            if row is not None and send.hit.body != row.body:
                detail = f"{send.hit.body!r} was sent, {row.body!r} is stored"
                yield Violation("body_changed", detail, task_id)


def _is_signed(secrets: list[str], send: Send) -> bool:
    timestamp = send.hit.headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(int(timestamp) * 1_000 - send.at) > TIMESTAMP_FRESH_MS:
        return False
    content = f"{send.task_id}.{timestamp}.".encode() + send.hit.body
    given = send.hit.headers.get("webhook-signature", "").split(" ")
    expected = (
        hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), content, hashlib.sha256) for secret in secrets
    )
    return any(f"v1,{base64.b64encode(digest).decode()}" in given for digest in expected)
