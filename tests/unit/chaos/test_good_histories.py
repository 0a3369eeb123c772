"""Histories that nothing is wrong with: the checker must not cry wolf."""

from pathlib import Path
from typing import Any

from tests.chaos.checker import check
from tests.chaos.history import HistoryWriter, Wanted, read
from tests.unit.chaos.scenes import BODY, Scene, of_a_deleted_task


def accepts(scene: Scene, **counted: int) -> None:
    verdict = check(scene.records())
    assert not verdict.violations, "\n".join(verdict.lines())
    assert not verdict.void
    for name, number in counted.items():
        assert verdict.counters[name] == number, (name, verdict.counters)


def test_a_life_without_faults() -> None:
    scene = Scene()
    scene.succeed()
    accepts(scene, acknowledged=1, hits=1, end_succeeded=1)


def test_a_retry_after_a_failure() -> None:
    scene = Scene()
    task = scene.create()
    scene.hit(task, 10, status=500)
    scene.line(task, 1, "failed", 21, status=500)
    scene.hit(task, 130, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 141)
    scene.row(task, attempt=2)
    accepts(scene, retried=1, duplicates=0)


def test_a_duplicate_that_a_kill_explains() -> None:
    scene = Scene("kills", "attempt_interrupted")
    task = scene.create()
    scene.hit(task, 10)
    scene.kill(15)
    scene.line(task, 1, "interrupted", 316, picked_at=0)
    scene.hit(task, 330, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 341)
    scene.row(task, attempt=2)
    accepts(scene, duplicates=1, attempt_interrupted=1)


def test_an_attempt_after_the_lease_of_one_that_was_held_though_the_task_was_deleted() -> None:
    scene = Scene("kills")
    of_a_deleted_task(scene, again_after=1_150)
    scene.kill(2_100)
    accepts(scene, acknowledged=1)


def test_a_create_that_nobody_heard_of_may_be_there_or_not() -> None:
    scene = Scene()
    task = scene.create("m1", outcome="info")
    scene.create("m2", outcome="info")
    scene.hit(task, 10)
    scene.line(task, at=21)
    scene.row(task)
    accepts(scene, unknown_create_there=1, unknown_create_absent=1)


def test_a_create_that_nobody_heard_of_is_known_by_the_answer_to_its_repetition() -> None:
    scene = Scene()
    for mark, was_there in (("m1", True), ("m2", False)):
        asked: dict[str, Any] = {"wanted": [Wanted(mark, "ok", BODY)], "idempotency_key": f"k-{mark}"}
        scene.call(0, "create", **asked, returned_outcome="info")
        scene.call(10, "create", **asked, returned_ids=[f"tsk_{mark}"], returned_replayed=was_there)
        scene.hit(f"tsk_{mark}", 20)
        scene.line(f"tsk_{mark}", at=31)
        scene.row(f"tsk_{mark}")
    accepts(scene, unknown_create_there=1, unknown_create_repeated=1)


def test_a_cancel_before_and_a_cancel_while_running() -> None:
    scene = Scene()
    waiting, running = scene.create("m1", delay_ms=1_000), scene.create("m2")
    scene.call(20, "cancel", task_id=waiting, returned_state="cancelled", returned_attempt=0)
    scene.row(waiting, "cancelled", 0, reason="cancelled")
    scene.hit(running, 10, took=50)
    scene.call(20, "cancel", task_id=running, returned_state="running", returned_attempt=1)
    scene.line(running, at=70)
    scene.row(running)
    accepts(scene, cancel_ok=2, cancelled_while_running=1)


def test_a_delete_takes_everything_with_it() -> None:
    scene = Scene()
    task = scene.create()
    scene.hit(task, 10)
    scene.call(50, "delete", task_id=task)
    scene.counts["purged"] = 1
    accepts(scene, delete_ok=1)


def test_deaths_that_were_earned() -> None:
    scene = Scene()
    rejected = scene.create("m1")
    scene.hit(rejected, 10, status=400)
    scene.line(rejected, 1, "failed", 21, status=400)
    scene.row(rejected, "dead", reason="rejected")
    unknown = scene.create("m2", delivery="at_most_once")
    scene.hit(unknown, 10, status=None)
    scene.line(unknown, 1, "failed", 21)
    scene.row(unknown, "dead", reason="outcome_unknown")
    accepts(scene, reason_rejected=1, reason_outcome_unknown=1)


def test_a_dead_one_tried_again_on_request() -> None:
    scene = Scene()
    task = scene.create(delivery="at_most_once")
    scene.hit(task, 10, status=None)
    scene.line(task, 1, "failed", 21)
    scene.call(100, "retry", task_id=task, returned_state="ready", returned_attempt=1)
    scene.hit(task, 110, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 121, series=2)
    scene.row(task, attempt=2, series=2)
    accepts(scene, retry_ok=1)


def test_an_answer_that_came_too_late_for_its_sender() -> None:
    scene = Scene()
    task = scene.create(timeout_ms=400)
    scene.hit(task, 10, took=395)
    scene.line(task, 1, "failed", 420)
    scene.hit(task, 530, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 541)
    scene.row(task, attempt=2)
    accepts(scene, duplicates=1)


def test_a_history_survives_its_file(tmp_path: Path) -> None:
    scene = Scene()
    scene.succeed()
    writer = HistoryWriter(tmp_path / "history.jsonl")
    for record in scene.records():
        writer.add(record)
    writer.close()
    with writer.path.open("ab") as file:
        file.write(b'{"type":"hit","torn')
    assert list(read(writer.path)) == scene.records()


def test_a_run_in_which_the_fault_never_struck_is_void() -> None:
    scene = Scene("kills", "attempt_interrupted", "acknowledged")
    scene.succeed()
    verdict = check(scene.records())
    assert not verdict.ok
    assert verdict.void == ["kills was never seen", "attempt_interrupted was never seen"]


def test_no_history_is_void() -> None:
    assert not check([]).ok
