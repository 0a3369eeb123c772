"""A daemon among hostile receivers, in a small count; `python -m tests.hostile --count 500` is the whole crowd."""

import os
from pathlib import Path

import pytest

from tests.hostile.crowd import Crowd
from tests.hostile.limits import faults

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(300)]


async def test_a_crowd_costs_the_honest_and_the_daemon_little(tmp_path: Path, each_sender: str) -> None:
    count = int(os.environ.get("TASKTICK_HOSTILE_COUNT", "150"))
    figures = await Crowd(count, 20, 10.0, tmp_path, each_sender).run()
    assert not faults(figures), "\n".join([*faults(figures), *figures.lines()])
