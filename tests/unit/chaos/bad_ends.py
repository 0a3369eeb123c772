"""Bad histories of what is left: lost, doubled, not as it was earned."""

from tests.chaos.history import Fault, Node
from tests.unit.chaos.bad import shows
from tests.unit.chaos.scenes import START, Scene


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


@shows("unexplained_interruption")
def cut_off_in_its_own_hands(scene: Scene) -> None:
    task = scene.create(delivery="at_most_once")
    scene.add(Fault(START + 10, START + 2_500, "stop", 1, "after_claim_before_send"))
    scene.line(task, 1, "unknown", 2_510, picked_at=START + 8)
    scene.row(task, "dead", reason="outcome_unknown")


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
    scene.integrity.append("row 3 missing from index tasks_waiting_by_slot")


@shows("node_crashed")
def a_process_that_ends_by_itself(scene: Scene) -> None:
    scene.succeed()
    scene.add(Node(START + 1_000, 1, "exited", 1))
