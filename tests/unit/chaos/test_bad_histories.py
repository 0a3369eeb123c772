"""One hand-made bad history for each kind of violation: the checker must name it."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.chaos import delivery, durability
from tests.chaos.checker import check
from tests.chaos.history import AttemptLine, Node, SqlDump
from tests.unit.chaos.scenes import START, Scene

Bad = Callable[[Scene], None]
KIND = re.compile(r"Violation\(\s*\"([a-z_]+)\"")
BAD: list[tuple[str, Bad]] = []


def shows(kind: str) -> Callable[[Bad], Bad]:
    def keep(bad: Bad) -> Bad:
        BAD.append((kind, bad))
        return bad

    return keep


def _twice(scene: Scene, first: str, *, status: int | None = 200, **create: int | str) -> str:
    """Two attempts of one task, of which the first was recorded as `first`."""
    task = scene.create(**create)  # type: ignore[arg-type] # fields of Wanted
    scene.hit(task, 10, status=status)
    scene.line(task, 1, first, 21, status=status if first == "failed" else None)
    scene.hit(task, 150, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 161)
    scene.row(task, attempt=2)
    return task


@shows("lost")
def acknowledged_and_gone(scene: Scene) -> None:
    scene.create()


@shows("doubled")
def one_create_two_tasks(scene: Scene) -> None:
    scene.succeed()
    scene.row("tsk_other", "cancelled", 0, mark="m1")
    scene.call(500, "cancel", task_id="tsk_other", returned_state="cancelled", returned_attempt=0)


@shows("phantom")
def nobody_asked(scene: Scene) -> None:
    scene.row("tsk_ghost", "cancelled", 0)


@shows("not_whole")
def a_task_without_its_payload(scene: Scene) -> None:
    task = scene.create(outcome="info")
    scene.call(5, "cancel", task_id=task, returned_state="cancelled", returned_attempt=0)
    scene.row(task, "cancelled", 0, body=None)


@shows("refused_and_done")
def refused_and_there(scene: Scene) -> None:
    task = scene.create(outcome="fail")
    scene.hit(task, 10)
    scene.line(task, at=21)
    scene.row(task)


@shows("other_answer")
def one_key_two_tasks(scene: Scene) -> None:
    first, second = scene.succeed("m1"), scene.succeed("m2")
    for at, task in ((100, first), (200, second)):
        scene.call(at, "create", idempotency_key="k", returned_ids=[task], returned_replayed=at == 200)


@shows("not_replayed")
def a_key_that_is_not_remembered(scene: Scene) -> None:
    task = scene.succeed()
    for at in (100, 200):
        scene.call(at, "create", idempotency_key="k", returned_ids=[task])


@shows("started_after_cancel")
def sent_though_cancelled(scene: Scene) -> None:
    task = scene.create(delay_ms=1_000)
    scene.call(20, "cancel", task_id=task, returned_state="cancelled", returned_attempt=0)
    scene.hit(task, 1_010, scheduled=1_000, status=500)
    scene.line(task, 1, "failed", 1_021, status=500)
    scene.row(task, "cancelled", 1)


@shows("started_after_cancel")
def retried_though_asked_to_stop(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, status=500)
    scene.call(12, "cancel", took=1, task_id=task, returned_state="running", returned_attempt=1)
    scene.line(task, 1, "failed", 21, status=500)
    scene.hit(task, 150, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 161)
    scene.row(task, attempt=2)


@shows("cancel_undone")
def cancelled_and_dead(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, status=400)
    scene.call(12, "cancel", took=1, task_id=task, returned_state="running", returned_attempt=1)
    scene.line(task, 1, "failed", 21, status=400)
    scene.row(task, "dead", reason="rejected")


@shows("deleted_lives")
def deleted_and_there(scene: Scene) -> None:
    task = scene.succeed()
    scene.call(50, "delete", task_id=task)
    scene.counts["purged"] = 1


@shows("started_after_delete")
def deleted_and_sent(scene: Scene) -> None:
    task = scene.create()
    scene.call(5, "delete", task_id=task)
    scene.hit(task, 50)
    scene.counts["purged"] = 1


@shows("not_settled")
def never_taken_up(scene: Scene) -> None:
    scene.row(scene.create(), "scheduled", 0)


@shows("past_lease")
def running_for_ever(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, status=None)
    scene.row(task, "running", 1, fence=1, lease_until=START + 2_000)


@shows("wrong_end")
def given_up_too_soon(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, status=500)
    scene.line(task, 1, "failed", 21, status=500)
    scene.row(task, "dead", reason="attempts_exhausted")


@shows("wrong_end")
def cancelled_by_nobody(scene: Scene) -> None:
    scene.row(scene.create(), "cancelled", 0)


@shows("dead_letters")
def dead_without_a_letter(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, status=404)
    scene.line(task, 1, "failed", 21, status=404)
    scene.row(task, "dead", reason="rejected")
    scene.dead_letters.clear()


@shows("attempts_gap")
def an_attempt_without_a_row(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, attempt=2)
    scene.line(task, 2, fence=1)
    scene.row(task, attempt=2)


@shows("unexplained_interruption")
def cut_off_by_nothing(scene: Scene) -> None:
    task = scene.create()
    scene.line(task, 1, "interrupted", 21)
    scene.hit(task, 150, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 161)
    scene.row(task, attempt=2)


@shows("counts")
def counts_that_drift(scene: Scene) -> None:
    scene.succeed()
    scene.counts["succeeded"] += 1


@shows("counts")
def purged_by_nobody(scene: Scene) -> None:
    scene.succeed()
    scene.counts["purged"] = 1


@shows("views_disagree")
def the_api_tells_another_story(scene: Scene) -> None:
    scene.api_changes[scene.succeed()] = {"state": "dead"}


@shows("integrity")
def a_damaged_file(scene: Scene) -> None:
    scene.integrity.append("row 3 missing from index tasks_waiting")


@shows("node_crashed")
def a_process_that_ends_by_itself(scene: Scene) -> None:
    scene.succeed()
    scene.add(Node(START + 1_000, 1, "exited", 1))


@shows("sent_twice")
def one_claim_two_requests(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, status=None)
    scene.hit(task, 30)
    scene.line(task, at=41)
    scene.row(task)


@shows("fence_back")
def a_fence_that_falls(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, fence=9, status=500)
    scene.line(task, 1, "failed", 21, fence=9, status=500)
    scene.hit(task, 150, attempt=2, fence=5)
    scene.line(task, 2, "succeeded", 161, fence=5)
    scene.row(task, attempt=2)


@shows("attempt_back")
def an_attempt_number_given_out_twice(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, fence=1)
    scene.kill(15)
    scene.hit(task, 400, fence=2)
    scene.line(task, 1, "succeeded", 411, fence=2)
    scene.row(task)


@shows("unexplained_duplicate")
def sent_again_after_its_success(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10)
    scene.line(task, 1, "succeeded", 21)
    scene.kill(30)
    scene.hit(task, 400, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 411)
    scene.row(task, attempt=2)


@shows("unexplained_duplicate")
def rescued_without_a_fault(scene: Scene) -> None:
    _twice(scene, "interrupted")


@shows("overlap")
def two_at_a_time(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, took=400, status=500)
    scene.line(task, 1, "failed", 21, status=500)
    scene.hit(task, 150, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 161)
    scene.row(task, attempt=2)


@shows("at_most_once_twice")
def doubled_though_it_must_not_be(scene: Scene) -> None:
    _twice(scene, "failed", status=None, delivery="at_most_once")


@shows("early")
def before_its_nominal_time(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, scheduled=11)
    scene.line(task, at=21)
    scene.row(task)


@shows("early")
def before_the_delay_that_was_asked_for(scene: Scene) -> None:
    task = scene.create(delay_ms=1_000)
    scene.hit(task, 10)
    scene.line(task, at=21)
    scene.row(task)


@shows("early_retry")
def before_its_backoff(scene: Scene) -> None:
    _twice(scene, "failed", status=500, retry_ms=1_000)


@shows("late_start")
def due_and_left_standing(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 30_000)
    scene.line(task, at=30_011)
    scene.row(task)


@shows("late_rescue")
def cut_off_and_left_lying(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10)
    scene.kill(15)
    scene.line(task, 1, "interrupted", 30_000, picked_at=START + 5)
    scene.hit(task, 30_010, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 30_021)
    scene.row(task, attempt=2)


@shows("attempt_unrecorded")
def sent_before_it_was_claimed(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, fence=1)
    scene.kill(15)
    scene.hit(task, 400, attempt=2, fence=2)
    scene.line(task, 1, "interrupted", 330, fence=7, picked_at=START)
    scene.line(task, 2, "succeeded", 411, fence=8)
    scene.attempts.append(AttemptLine(task, 3, 1, 9, "released", None, START, START + 500))
    scene.row(task, "cancelled", 3)
    scene.call(600, "cancel", task_id=task, returned_state="cancelled", returned_attempt=3)


@shows("success_unseen")
def a_success_that_nobody_saw(scene: Scene) -> None:
    task = scene.create()
    scene.line(task, at=21)
    scene.row(task)


@shows("attempt_untrue")
def a_failure_that_was_none(scene: Scene) -> None:
    _twice(scene, "failed", status=200)
    scene.attempts[0] = msgspec.structs.replace(scene.attempts[0], status=None)


@shows("malformed")
def a_request_without_its_headers(scene: Scene) -> None:
    scene.succeed()
    scene.hit("", 700)


@shows("bad_signature")
def signed_with_something_else(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, webhook_signature="v1,AAAA")
    scene.line(task, at=21)
    scene.row(task)


@shows("bad_signature")
def signed_long_ago(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, webhook_timestamp=str(START // 1_000 - 60))
    scene.line(task, at=21)
    scene.row(task)


@shows("wrong_header")
def another_idempotency_key(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, idempotency_key="another")
    scene.line(task, at=21)
    scene.row(task)


@shows("body_changed")
def other_bytes_than_stored(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, body=b"{}")
    scene.line(task, at=21)
    scene.row(task)


@pytest.mark.parametrize(("kind", "bad"), BAD, ids=lambda value: getattr(value, "__name__", ""))
def test_it_is_found(kind: str, bad: Bad) -> None:
    scene = Scene()
    bad(scene)
    verdict = check(scene.records())
    assert kind in verdict.kinds(), "\n".join(verdict.lines()) or "nothing was found"
    assert any(kind in line for line in verdict.lines())


def test_a_counter_example_comes_with_its_records() -> None:
    scene = Scene()
    _twice(scene, "interrupted")
    (found, *_) = [one for one in check(scene.records()).violations if one.kind == "unexplained_duplicate"]
    assert len(found.evidence) == 6, "the call and its answer, two hits and their answers"


def test_a_history_without_its_end_is_no_success() -> None:
    scene = Scene()
    scene.succeed()
    without_end = [one for one in scene.records() if not isinstance(one, SqlDump)]
    assert "no_end" in check(without_end).kinds()


def test_every_kind_that_the_checker_knows_is_shown_here() -> None:
    texts = [Path(inspect.getfile(module)).read_text() for module in (delivery, durability)]
    known = {kind for text in texts for kind in KIND.findall(text)} | {"success_unseen", "attempt_untrue"}
    assert known - {"no_end"} == {kind for kind, _ in BAD}
