"""One hand-made bad history for each kind of violation: the checker must name it."""

import inspect
import re
from pathlib import Path

import pytest

from tests.chaos import delivery, durability, ring_checks
from tests.chaos.checker import check
from tests.chaos.history import SqlDump
from tests.unit.chaos import bad_ends, bad_rings, bad_sends
from tests.unit.chaos.bad import BAD, Bad, tried_twice
from tests.unit.chaos.rings import RingScene
from tests.unit.chaos.scenes import Scene

KIND = re.compile(r"Violation\(\s*\"([a-z_]+)\"")
FILLED_BY = (bad_ends, bad_sends)  # their import fills BAD


@pytest.mark.parametrize(("kind", "bad"), BAD, ids=lambda value: getattr(value, "__name__", ""))
def test_it_is_found(kind: str, bad: Bad) -> None:
    scene = Scene()
    bad(scene)
    verdict = check(scene.records())
    assert kind in verdict.kinds(), "\n".join(verdict.lines()) or "nothing was found"
    assert any(kind in line for line in verdict.lines())


@pytest.mark.parametrize(("kind", "bad"), bad_rings.BAD, ids=lambda value: getattr(value, "__name__", ""))
def test_it_is_found_in_a_ring(kind: str, bad: bad_rings.Bad) -> None:
    scene = RingScene()
    bad(scene)
    verdict = check(scene.records())
    assert kind in verdict.kinds(), "\n".join(verdict.lines()) or "nothing was found"


def test_a_counter_example_comes_with_its_records() -> None:
    scene = Scene()
    tried_twice(scene, "interrupted")
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


def test_every_kind_that_the_checker_of_rings_knows_is_shown_here() -> None:
    known = set(KIND.findall(Path(inspect.getfile(ring_checks)).read_text()))
    shown = {kind for kind, _ in bad_rings.BAD}
    assert known <= shown
    assert shown - known == {"fence_back", "late_byte", "sent_twice", "unexplained_interruption"}
