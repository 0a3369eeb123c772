"""`served`: the API with a store of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.served import Served, serving


@pytest.fixture(autouse=True)
def _short_farewells(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that was refused in mid-sentence is heard out for a moment only."""
    monkeypatch.setattr("tasktick.api.limits.LINGER_S", 0.02)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A served API with default settings."""
    async with serving(tmp_path) as served:
        yield served
