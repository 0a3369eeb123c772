"""`bench`: a writer, and what is done with it."""

from collections.abc import AsyncIterator

import pytest

from tasktick.store import lots
from tests.unit.store.writing import Bench


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    # How quick this machine is just now decides nothing here: see test_lots.py.
    monkeypatch.setattr(lots, "ANSWERED_SECONDS", 1.0)
    bench = Bench()
    yield bench
    await bench.settle()
    await bench.link.close()
