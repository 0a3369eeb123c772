"""Preview is reality: for a large mixed set, over weeks in which clocks change, what was said is what fires."""

import asyncio
import os
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.preview import Preview, milliseconds
from tests.api.served import serving

# Over the spring of New York, Berlin and Casablanca and the autumn of Sydney and Santiago; and the other way round.
SEASONS = (("2027-03-12T00:00:00Z", 26), ("2027-10-01T00:00:00Z", 40))
DAY_MS = 86_400_000
# All of them with `make test-chaos`, which has the time.
NUMBER = 200 if "TASKTICK_AT_LENGTH" in os.environ else 60


async def played(begin: int, days: int, seed: int, number: int) -> list[str]:
    """Where what came differs from what was said."""
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder)) as served:
            served.world.now = begin
            preview = Preview(served, begin + days * DAY_MS)
            await preview.put_calendars()
            await preview.draw(Random(seed), number)
            assert sum(map(len, preview.said.values())) > number
            await preview.pass_time()
            return await preview.faults()


@pytest.mark.slow
@pytest.mark.parametrize(("begin", "days"), SEASONS)
async def test_what_upcoming_says_is_what_fires(begin: str, days: int) -> None:
    assert await played(milliseconds(begin), days, seed=27, number=NUMBER) == []


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), begin=st.sampled_from([milliseconds(one) for one, _ in SEASONS]))
def test_whatever_is_drawn_fires_as_was_said(seed: int, begin: int) -> None:
    # From some days before the clocks change until some days after.
    offset_ms = Random(seed).randrange(20 * DAY_MS)
    assert asyncio.run(played(begin + offset_ms, 9, seed, number=12)) == []
