"""How soon threads take turns."""

import sys
from collections.abc import Iterator

import pytest

from tasktick import interpreter

NEARLY = 2e-6


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    seconds = sys.getswitchinterval()
    yield
    sys.setswitchinterval(seconds)


def test_it_is_as_usual_when_the_last_has_ended() -> None:
    first, second = interpreter.in_quick_turns(), interpreter.in_quick_turns()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(interpreter.QUICK_SWITCH_SECONDS, abs=NEARLY)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(interpreter.SWITCH_SECONDS, abs=NEARLY)


def test_it_is_as_usual_after_a_failure() -> None:
    with pytest.raises(RuntimeError), interpreter.in_quick_turns():
        raise RuntimeError
    assert sys.getswitchinterval() == pytest.approx(interpreter.SWITCH_SECONDS, abs=NEARLY)


def test_it_stays_as_usual_however_often() -> None:
    for _ in range(1_000):
        with interpreter.in_quick_turns():
            pass
    assert sys.getswitchinterval() == pytest.approx(interpreter.SWITCH_SECONDS, abs=NEARLY)
