"""Bad histories of what was sent: twice, early, at the same time, unsigned, unrecorded."""

import msgspec

from tests.chaos.history import AttemptLine, Fault
from tests.unit.chaos.bad import shows, tried_twice
from tests.unit.chaos.scenes import START, Scene, of_a_deleted_task


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
    tried_twice(scene, "interrupted")


@shows("overlap")
def two_at_a_time(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10, took=400, status=500)
    scene.line(task, 1, "failed", 21, status=500)
    scene.hit(task, 150, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 161)
    scene.row(task, attempt=2)


@shows("overlap")
def two_at_a_time_of_a_task_that_was_deleted(scene: Scene) -> None:
    of_a_deleted_task(scene, again_after=900)


@shows("at_most_once_twice")
def doubled_though_it_must_not_be(scene: Scene) -> None:
    tried_twice(scene, "failed", status=None, delivery="at_most_once")


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
    tried_twice(scene, "failed", status=500, retry_ms=1_000)


@shows("late_byte")
def sent_long_after_its_claim(scene: Scene) -> None:
    task = scene.create()
    scene.add(Fault(START + 10, START + 1_500, "stop", 1, "after_claim_before_send"))
    scene.hit(task, 1_501)
    scene.line(task, at=1_511, picked_at=START + 8)
    scene.row(task)


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
    tried_twice(scene, "failed", status=200)
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
