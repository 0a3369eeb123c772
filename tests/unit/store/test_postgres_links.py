"""Connections that cannot be made: none is tried for a while, longer each time, and never all at once."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tasktick.errors import StoreUnavailable
from tasktick.store import postgres_links
from tasktick.store.postgres_links import REST_MOST_MS, Gate, PostgresAddress, shown


class StoppedClock:
    """A clock that its test moves."""

    def __init__(self) -> None:
        self.at_ms = 0.0

    def now_ms(self) -> int:
        return int(self.at_ms)

    def monotonic_ms(self) -> float:
        return self.at_ms

    async def sleep_ms(self, duration_ms: float) -> None:
        self.at_ms += duration_ms


async def test_a_gate_that_failed_is_closed_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[float] = []
    clock = StoppedClock()

    async def refuse(*_: Any, **__: Any) -> None:
        tried.append(clock.at_ms)
        raise ConnectionRefusedError("nobody is there")

    monkeypatch.setattr(postgres_links, "connect_postgres", refuse)
    gate = Gate(PostgresAddress("postgresql://db/tasks", "tests"), clock, Random(1))
    for _ in range(12):
        for _ in range(3):  # the second and third are told the reason of the first
            with pytest.raises(StoreUnavailable, match="nobody is there"):
                await gate.connect()
        await gate.wait(len(tried))
    assert len(tried) == 12
    pauses = [after - before for before, after in pairwise(tried)]
    assert max(pauses) <= 2 * REST_MOST_MS
    assert pauses[0] < pauses[-1]
    assert len(set(pauses)) == len(pauses), "each is a draw"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://user:s3cret@db:5432/tasks?sslmode=require", "postgresql://user@db:5432/tasks?sslmode=require"),
        ("postgres://db/tasks", "postgresql://db/tasks"),
        ("postgresql:///tasks?host=/run/postgresql&password=s3cret", "postgresql:///tasks?host=/run/postgresql"),
        ("postgresql://a%40b:s3%40cret@db/tasks", "postgresql://a%40b@db/tasks"),
    ],
)
def test_an_address_is_shown_without_secrets(url: str, said: str) -> None:
    assert shown(url) == said
