"""SQLite and PostgreSQL, played side by side: nothing that can be seen differs."""

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests import postgres
from tests.beside.machine import Machine
from tests.beside.stage import Stage

# More than CI has time for: `TASKTICK_BESIDE=2000 pytest tests/beside`.
EXAMPLES = int(os.environ.get("TASKTICK_BESIDE", "12"))
STEPS = 40
NEWEST = max(postgres.installed(), default="none")


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here")
@pytest.mark.parametrize("version", sorted(postgres.installed()))
def test_both_stores_show_the_same(version: str) -> None:
    with Stage(version) as stage:
        Machine.stage = stage
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                print_blob=True,
            ),
        )
