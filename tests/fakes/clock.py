"""A clock for what only asks for the time."""


class StandingClock:
    """Tells the time that it is set to."""

    def __init__(self, now: int) -> None:
        self.now = now

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> float:
        return float(self.now)

    async def sleep_ms(self, duration_ms: float) -> None:
        raise AssertionError("nothing here waits")
