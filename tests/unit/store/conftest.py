"""`bench`: a writer, and what is done with it."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.store.writing import Bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    await bench.settle()
    await bench.link.close()
