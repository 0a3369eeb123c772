"""What every contender is given to do: so many jobs, when they are due, what they post and where. Pure."""

from dataclasses import asdict, dataclass
from typing import Any

from bench.tasks import body_of


@dataclass(frozen=True)
class Load:
    """Number n is due at `first_ms` and n × `step_us`; every job posts the same 256 bytes."""

    url: str
    count: int
    first_ms: int
    step_us: int = 0

    @property
    def times_ms(self) -> list[int]:
        """When each is due."""
        return [self.first_ms + number * self.step_us // 1_000 for number in range(self.count)]

    @property
    def last_ms(self) -> int:
        """When the last is due."""
        return self.times_ms[-1]

    def as_options(self) -> dict[str, Any]:
        """For a program of a peer."""
        return {**asdict(self), "body": body_of(0).decode()}


def ahead_ms(count: int, fill_us: int, least_ms: int) -> int:
    """How long before the first is due making them must begin, for a contender that takes so long for one."""
    return least_ms + count * fill_us // 1_000
