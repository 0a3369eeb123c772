"""Lateness of the fires of schedules: by nominal time, after the instant that the spread gives it."""

import pytest

from bench.schedules import Size, lateness
from tasktick.model.schedule import Rule
from tasktick.timetable.policy import due_at

SIZE = Size(schedules=1, every_ms=60_000)
NOMINAL = 1_800_000_000_000
SCHEDULE = "01a0f0324834700096464bd406c2cf23"
DUE = due_at(Rule(every_ms=60_000), SCHEDULE, NOMINAL, 60_000)


def _came(late_ms: float) -> tuple[str, int, int]:
    return f"sch_{SCHEDULE}", NOMINAL, int((DUE + late_ms) * 1_000)


def test_a_fire_is_late_after_its_own_instant() -> None:
    other = NOMINAL + 60_000
    assert lateness([_came(2.5)], [NOMINAL, other], SIZE) == [[2.5], []]
    assert lateness([_came(-1)], [NOMINAL], SIZE) == [[-1.0]]


def test_a_fire_that_came_twice_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="twice"):
        lateness([_came(1), _came(2)], [NOMINAL], SIZE)
