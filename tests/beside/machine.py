"""All rules in one machine, and how it is played."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.beside.keeping import KeepingRules
from tests.beside.lists import ListRules
from tests.beside.plans import PlanRules
from tests.beside.stage import Stage
from tests.beside.tasks import TaskRules


class Machine(TaskRules, PlanRules, KeepingRules, ListRules):
    """Everything that is done to a store, in any order."""


def play(stage: Stage, plays: int, steps: int) -> None:
    """Play so often, each time from empty stores."""
    Machine.stage = stage
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=plays,
            stateful_step_count=steps,
            deadline=None,
            # Each example needs its round trips.
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.filter_too_much,
                HealthCheck.data_too_large,
                HealthCheck.large_base_example,
            ],
            print_blob=True,
        ),
    )
