"""Torn tails of the log, on a real store: what is torn after the last sync is forgiven, before it is found."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from tests.chaos import tears

pytestmark = pytest.mark.slow


async def test_what_was_acknowledged_outlives_a_torn_tail(tmp_path: Path) -> None:
    random = Random(7)
    torn = await tears.make(tmp_path, random)
    assert torn.acknowledged
    assert torn.later
    for _ in range(6):
        assert tears.tear(torn, tmp_path / "torn", random) == []


async def test_a_log_torn_before_its_last_sync_is_found(tmp_path: Path) -> None:
    random = Random(11)
    torn = await tears.make(tmp_path, random)
    unsynced = msgspec.structs.replace(torn, safe_bytes=32)
    found = [violation for _ in range(4) for violation in tears.tear(unsynced, tmp_path / "torn", random)]
    assert "lost" in {one.kind for one in found}
