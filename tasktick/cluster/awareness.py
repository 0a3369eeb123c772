"""How well this node itself seems to be, from 0 (well) up: who misses answers may be the one who is slow."""


class Awareness:
    """A score that failed probes raise and answered ones lower."""

    def __init__(self, score_max: int) -> None:
        if score_max < 1:
            raise ValueError("the highest score plus one is at least 1")
        self._score_max = score_max
        self.score = 0

    def add(self, change: int) -> None:
        """Worse by so much, or better; it stays within its bounds."""
        self.score = min(max(self.score + change, 0), self._score_max - 1)

    def scale(self, duration_ms: float) -> float:
        """A timeout, longer the worse this node is."""
        return duration_ms * (self.score + 1)
