"""SQLite and PostgreSQL, played side by side: nothing that can be seen differs.

Longer than CI has time for: `python -m tests.beside --minutes 10`.
"""

import pytest

from tests import postgres
from tests.beside.machine import play
from tests.beside.stage import Stage

PLAYS = 20
STEPS = 40


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.timeout(600)  # a difference is made small before it is shown
@pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here")
@pytest.mark.parametrize("version", sorted(postgres.installed()))
def test_both_stores_show_the_same(version: str) -> None:
    with Stage(version) as stage:
        play(stage, PLAYS, STEPS)
