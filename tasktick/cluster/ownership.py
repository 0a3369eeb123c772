"""What this node owns, and for how long it may trust that it does. Pure.

A lease ends by the database's clock; the node counts on its own, monotonic one, from before the renewal was issued,
and a margin less. In doubt it owns nothing: it claims nothing and decides nothing, until a renewal has come back.
"""

from collections.abc import Callable, Collection, Mapping

from tasktick.model.ids import partition_of
from tasktick.model.partition import ALL_PARTITIONS

FOR_EVER = float("inf")


class Ownership:
    """Epoch by partition, within the trust window."""

    def __init__(self, incarnation: str, monotonic_ms: Callable[[], float]) -> None:
        self.incarnation = incarnation
        self._monotonic_ms = monotonic_ms
        self._epochs: dict[int, int] = {}
        self._gained_at: dict[int, int] = {}
        self._trusted_until_ms = 0.0
        self._doubted_ms = float("-inf")
        self._trusted_since_ms = 0.0
        self.beat = 0
        """How often the term is known to have been renewed."""

    @property
    def is_trusted(self) -> bool:
        """Whether what is written here still holds."""
        return self.is_in_window and not self.is_doubted

    @property
    def is_in_window(self) -> bool:
        """Whether the last renewal was so lately that nobody else can have taken anything."""
        return self._monotonic_ms() < self._trusted_until_ms

    @property
    def is_doubted(self) -> bool:
        """Whether the store may have become another since the last renewal was issued."""
        return self._doubted_ms >= self._trusted_since_ms

    def doubt(self) -> None:
        """A connection was lost: what is behind the next one is to be seen by a renewal first."""
        self._doubted_ms = self._monotonic_ms()

    @property
    def epochs(self) -> Mapping[int, int]:
        """Under which term this node may write; nothing outside the trust window. What was told does not change."""
        return self._epochs if self.is_trusted else {}

    @property
    def partitions(self) -> list[str] | None:
        """The partitions as the store's statements filter by them: the last byte of an id. None is all of them."""
        epochs = self.epochs
        return None if len(epochs) == len(ALL_PARTITIONS) else [f"{one:02x}" for one in sorted(epochs)]

    def owns(self, task_id: str) -> bool:
        """Whether this is in one of its partitions."""
        return partition_of(task_id) in self.epochs

    def gained_at(self, partition: int) -> int:
        """When it became this node's: what was due before may have passed unseen."""
        return self._gained_at.get(partition, 0)

    def trust(self, until_ms: float, since_ms: float = FOR_EVER) -> None:
        """A renewal has come back that was issued then: hold on until then."""
        self._trusted_until_ms, self._trusted_since_ms = until_ms, since_ms

    def begin_anew(self, incarnation: str) -> None:
        """Go on as another incarnation, which owns nothing yet."""
        self.lose_all()
        self.incarnation, self.beat = incarnation, 0

    def trust_for_ever(self) -> None:
        """Nobody else can have it."""
        self.trust(FOR_EVER)

    def reconcile(self, epochs: Mapping[int, int], now: int) -> list[int]:
        """Own exactly what the store says; what is new."""
        gained = [one for one in epochs if self._epochs.get(one) != epochs[one]]
        self._epochs = dict(epochs)
        for one in gained:
            self._gained_at[one] = now
        return sorted(gained)

    def give_up(self, partitions: Collection[int]) -> None:
        """Claim and decide nothing more of these."""
        self._epochs = {one: epoch for one, epoch in self._epochs.items() if one not in partitions}

    def lose_all(self) -> None:
        """Own nothing from now on."""
        self._epochs = {}
        self._trusted_until_ms = 0.0
