"""What is asked of a disk whose power was cut, against histories made by hand."""

from collections.abc import Callable

import pytest

from tests.chaos import cuts
from tests.chaos.history import SqlDump
from tests.unit.chaos.scenes import START, Scene

CUT = 1_000


def kinds(scene: Scene, instant: int = CUT) -> set[str]:
    (recovered,) = [one for one in scene.records() if isinstance(one, SqlDump)]
    known = cuts.before(scene.records_before_end, START + instant, recovered)
    return {one.kind for one in cuts.judge(known)}


def test_a_disk_that_holds_what_it_must() -> None:
    scene = Scene()
    waiting, running = scene.create("m1", delay_ms=5_000), scene.create("m2")
    scene.row(waiting, "scheduled", 0)
    scene.hit(running, 10)
    scene.row(running, "running", 1, fence=1)
    assert kinds(scene) == set()


def test_what_was_read_after_the_cut_proves_nothing() -> None:
    scene = Scene()
    task = scene.create(at=CUT - 3, delay_ms=5_000)  # its answer was read 2 ms after the cut
    scene.hit(task, CUT + 10)
    assert kinds(scene) == set()
    assert kinds(scene, CUT + 20) == {"lost", "claim_lost"}


def _acknowledged_and_gone(scene: Scene) -> None:
    scene.create()


def _sent_and_not_claimed(scene: Scene) -> None:
    task = scene.create()
    scene.hit(task, 10)
    scene.row(task, "scheduled", 0)


def _cancelled_and_waiting(scene: Scene) -> None:
    task = scene.create(delay_ms=5_000)
    scene.call(20, "cancel", task_id=task, returned_state="cancelled", returned_attempt=0)
    scene.row(task, "scheduled", 0)


def _a_damaged_file(scene: Scene) -> None:
    scene.integrity.append("a page is torn")


def _counts_that_do_not_agree(scene: Scene) -> None:
    scene.counts["scheduled"] = 3


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        ("lost", _acknowledged_and_gone),
        ("claim_lost", _sent_and_not_claimed),
        ("cancel_undone", _cancelled_and_waiting),
        ("integrity", _a_damaged_file),
        ("counts", _counts_that_do_not_agree),
    ],
)
def test_a_disk_that_does_not(kind: str, bad: Callable[[Scene], None]) -> None:
    scene = Scene()
    bad(scene)
    assert kinds(scene) == {kind}
