"""Checks of what is left: nothing acknowledged is lost, nothing is doubled, every end is one that was earned. Pure."""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.history import ApiDump, AttemptLine, SqlDump, TaskLine, Wanted
from tests.chaos.story import FINISHED, Call, Story
from tests.chaos.verdict import Violation

CUT_OFF = frozenset({"interrupted", "lease_lost"})
POISON_INTERRUPTIONS = 10
# Beyond the lease and a sweep, how long work that nobody has taken up may stand after a fault has healed.
TAKEN_UP_WITHIN_MS = 10_000


def acknowledged_creates(story: Story) -> Iterator[Violation]:
    """Every acknowledged create is there in the end, or was deleted on request."""
    for mark, ids in story.acknowledged.items():
        for task_id in sorted(ids):
            if task_id not in story.rows and not story.calls_on(task_id, "delete"):
                yield Violation("lost", f"{task_id} ({mark}) was acknowledged and is gone", task_id)
        if len(ids) > 1:
            yield Violation("other_answer", f"the create of {mark} was answered with {sorted(ids)}", min(ids))


def creates_once(story: Story) -> Iterator[Violation]:
    """A create makes one task or none, and it is whole."""
    for mark, rows in story.rows_by_mark.items():
        wanted = story.wanted.get(mark)
        if wanted is None:
            for row in (row for row in rows if row.schedule_id is None):
                yield Violation("phantom", f"nobody asked for {row.id} ({mark!r})", row.id)
            continue
        if len(rows) > 1:
            yield Violation("doubled", f"{mark} became {sorted(row.id for row in rows)}", rows[0].id)
        if all(call.returned is not None and call.returned.outcome == "fail" for call in story.creates[mark]):
            yield Violation("refused_and_done", f"every create of {mark} was refused, and it is there", rows[0].id)
        for row in rows:
            if row.body != wanted.body.encode():
                yield Violation("not_whole", f"{row.id} holds {row.body!r}, asked for {wanted.body!r}", row.id)


def replays(story: Story) -> Iterator[Violation]:
    """The same Idempotency-Key is answered the same, and says so."""
    first: dict[str, Call] = {}
    for call in sorted(story.calls.values(), key=lambda one: one.returned.at if one.returned else 0):
        key, returned = call.invoked.idempotency_key, call.returned
        if key is None or returned is None or returned.outcome != "ok":
            continue
        before = first.setdefault(key, call)
        assert before.returned is not None
        if before is call:
            continue
        if before.returned.ids != returned.ids:
            yield Violation("other_answer", f"key {key}: {before.returned.ids}, then {returned.ids}", returned.ids[0])
        elif not returned.replayed and call.invoked.at > before.returned.at:
            yield Violation("not_replayed", f"key {key} was answered anew, not replayed", returned.ids[0])


def cancels(story: Story) -> Iterator[Violation]:
    """No attempt starts after an acknowledged cancel, and nothing undoes it."""
    for task_id in story.actions:
        if story.calls_on(task_id, "retry"):
            continue
        for call in story.calls_on(task_id, "cancel"):
            if call.acknowledged:
                yield from _after_cancel(story, task_id, call)


def _after_cancel(story: Story, task_id: str, call: Call) -> Iterator[Violation]:
    returned = call.returned
    assert returned is not None
    was_running = returned.state == "running"
    for send in story.sends.get(task_id, ()):
        later = send.attempt > (returned.attempt or 0) if was_running else send.at > returned.at
        if later:
            detail = f"attempt {send.attempt} of {task_id} started after its cancel was acknowledged"
            yield Violation("started_after_cancel", detail, task_id)
    row = story.rows.get(task_id)
    if row is not None and row.state != "cancelled" and not (was_running and row.state == "succeeded"):
        detail = f"{task_id} is {row.state} though its cancel was acknowledged ({returned.state})"
        yield Violation("cancel_undone", detail, task_id)


def deletes(story: Story) -> Iterator[Violation]:
    """What was deleted is gone, and nothing of it is sent any more."""
    for task_id in story.actions:
        times = [call.returned.at for call in story.calls_on(task_id, "delete") if call.acknowledged and call.returned]
        if not times:
            continue
        if task_id in story.rows:
            yield Violation("deleted_lives", f"{task_id} is there though its delete was acknowledged", task_id)
        for send in story.sends.get(task_id, ()):
            if send.at > min(times):
                detail = f"attempt {send.attempt} of {task_id} was sent after its delete was acknowledged"
                yield Violation("started_after_delete", detail, task_id)


def ends(story: Story) -> Iterator[Violation]:
    """Every task has ended, in a state that it earned."""
    dead_letters = Counter(one.task_id for one in story.sql.dead_letters if one.resolution is None) if story.sql else {}
    for row in story.rows.values():
        wanted = story.wanted.get(row.mark or "")
        if row.state not in FINISHED:
            ahead = row.schedule_id is not None and row.attempt == 0 and row.state in {"scheduled", "paused"}
            if not ahead:  # the next fire of a schedule that pauses never comes
                yield _unsettled(story, row)
            continue
        if wanted is None:
            continue
        fault = _unearned(story, row, wanted)
        if fault is not None:
            yield Violation("wrong_end", f"{row.id} is {row.state} ({row.reason}): {fault}", row.id)
        expected = 1 if row.state == "dead" else 0
        if dead_letters.get(row.id, 0) != expected:
            detail = f"{row.id} is {row.state} and has {dead_letters.get(row.id, 0)} open dead letters"
            yield Violation("dead_letters", detail, row.id)


def _unsettled(story: Story, row: TaskLine) -> Violation:
    assert story.sql is not None
    assert story.run is not None
    if row.state == "running" and (row.lease_until or 0) + story.run.sweep_every_ms < story.sql.at:
        detail = f"{row.id} is running {story.sql.at - (row.lease_until or 0)} ms past the end of its lease"
        return Violation("past_lease", detail, row.id)
    return Violation("not_settled", f"{row.id} is still {row.state}, long after the last fault", row.id)


def _unearned(story: Story, row: TaskLine, wanted: Wanted) -> str | None:
    """Why this end is not one that the task earned, if so."""
    lines = [line for line in story.attempts[row.id] if line.series == row.series]
    last = lines[-1] if lines else None
    if row.state == "succeeded":
        return None if last is not None and last.state == "succeeded" else "its last attempt did not succeed"
    if row.state == "cancelled":
        return None if story.calls_on(row.id, "cancel") else "nobody cancelled it"
    if row.state == "dead":
        return _undeserved_death(row, wanted, lines)
    return "nothing in this run ends so"


def _undeserved_death(row: TaskLine, wanted: Wanted, lines: list[AttemptLine]) -> str | None:
    failed = sum(line.state == "failed" for line in lines)
    last = lines[-1] if lines else None
    if last is None:
        return "it was never tried"
    if row.reason == "attempts_exhausted":
        return None if failed >= wanted.max_attempts else f"only {failed} of {wanted.max_attempts} attempts failed"
    if row.reason == "rejected":
        return None if last.status is not None and 400 <= last.status < 500 else f"it was answered {last.status}"
    if row.reason == "outcome_unknown":
        unknown = last.state == "unknown" or (last.state == "failed" and last.status is None)
        return None if unknown and wanted.delivery == "at_most_once" else "its outcome is known, or may be doubled"
    if row.reason == "poison":
        cut = sum(line.state in CUT_OFF for line in lines)
        return None if cut >= POISON_INTERRUPTIONS else f"only {cut} of its attempts were interrupted"
    return "there is no such reason"


def attempt_lines(story: Story) -> Iterator[Violation]:
    """Attempts are numbered without a gap, and those that were cut off were cut off by a fault."""
    for row in story.rows.values():
        lines = story.attempts[row.id]
        recorded = len(lines) + (1 if row.state == "running" else 0)
        if [line.attempt for line in lines] != list(range(1, len(lines) + 1)) or recorded != row.attempt:
            numbers = [line.attempt for line in lines]
            yield Violation("attempts_gap", f"{row.id} counts {row.attempt} attempts, recorded {numbers}", row.id)
        for line in lines:
            cut = line.state in {*CUT_OFF, "released", "unknown"}
            if cut and not story.cause(line, line.picked_at, line.completed_at):
                detail = f"attempt {line.attempt} of {row.id} is {line.state}, and no fault explains it"
                yield Violation("unexplained_interruption", detail, row.id)


def conservation(story: Story) -> Iterator[Violation]:
    """Created = live + every end + purged, by the product's own counts, by its tables, and by its API."""
    sql, api = story.sql, story.api
    if sql is None:
        yield Violation("no_end", "the tables were never read")
        return
    there = Counter(row.state for row in sql.tasks)
    kept = {state: count for state, count in sql.counts.items() if count and state != "purged"}
    if kept != dict(there):
        yield Violation("counts", f"the counts say {kept}, the tables {dict(there)}")
    deletes_by_task = [call for calls in story.actions.values() for call in calls if call.invoked.action == "delete"]
    sure = len({call.invoked.task_id for call in deletes_by_task if call.acknowledged})
    possible = len({call.invoked.task_id for call in deletes_by_task if call.acknowledged or call.maybe})
    possible += story.pauses  # of a schedule, which may take back the fire that was made ahead
    purged = sql.counts.get("purged", 0)
    if not sure <= purged <= possible:
        yield Violation("counts", f"{purged} purged by the counts, {sure} to {possible} by what clients did")
    for trouble in sql.integrity:
        yield Violation("integrity", trouble)
    if api is not None:
        yield from _views_agree(sql, api)


def _views_agree(sql: SqlDump, api: ApiDump) -> Iterator[Violation]:
    def seen(row: TaskLine) -> tuple[str | None, str, int, str | None]:
        return row.mark, row.state, row.attempt, row.reason

    by_sql, by_api = {row.id: seen(row) for row in sql.tasks}, {row.id: seen(row) for row in api.tasks}
    for task_id in sorted(by_sql.keys() | by_api.keys()):
        if by_sql.get(task_id) != by_api.get(task_id):
            detail = f"{task_id} is {by_sql.get(task_id)} by SQL and {by_api.get(task_id)} by the API"
            yield Violation("views_disagree", detail, task_id)
    listed = {state: count for state, count in api.counts.items() if count}
    if listed != dict(Counter(row.state for row in sql.tasks)):
        yield Violation("views_disagree", f"the API counts {listed}")
    asked = set(api.attempts_of)

    def told(line: AttemptLine) -> tuple[str, int, int, int, str, int | None]:
        return line.task_id, line.attempt, line.series, line.fence, line.state, line.status

    recorded = {told(line) for line in sql.attempts if line.task_id in asked}
    for odd in sorted(recorded ^ {told(line) for line in api.attempts}, key=str):
        yield Violation("views_disagree", f"SQL and API do not agree on the attempt {odd}", odd[0])


def nodes(story: Story) -> Iterator[Violation]:
    """No process ends by itself."""
    for node in story.nodes:
        if node.what != "exited":
            continue
        kinds = {fault.kind for fault in story.faults if fault.node == node.node}
        killed, stopped = bool(kinds & {"kill", "armed"}), "term" in kinds
        if not (killed and node.code == -9) and not (stopped and node.code == 0):
            yield Violation("node_crashed", f"node {node.node} ended with {node.code} (faults: {sorted(kinds)})")
