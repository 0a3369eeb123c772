"""One hand-made bad history for each kind of violation: the checker must name it."""

import inspect
import re
from pathlib import Path

import pytest

from tests.chaos import delivery, durability
from tests.chaos.checker import check
from tests.chaos.history import SqlDump
from tests.unit.chaos import bad_ends, bad_sends
from tests.unit.chaos.bad import BAD, Bad, tried_twice
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
