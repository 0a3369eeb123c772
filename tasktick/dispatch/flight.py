"""What is in this node's hands: tasks being claimed, and attempts from their claim to their durable end."""

from collections.abc import Iterable

import msgspec

from tasktick.dispatch.attempt import Call
from tasktick.model.task import Claimed, Due, Payload


class Flight(msgspec.Struct):
    """One attempt that we hold."""

    entry: Due
    claimed: Claimed
    payload: Payload | None
    claimed_monotonic_ms: float
    # It was due before the clock was set back: it does not wait for its time a second time.
    was_due: bool = False
    started_at: int = 0
    # It may go, and waits for a call to its host to end.
    in_line: bool = False
    # There is one from its start on.
    call: Call | None = None
    slot_held: bool = True


class Hands:
    """The table of it; the sweeper leaves alone what is in here."""

    def __init__(self) -> None:
        self._claiming: set[str] = set()
        self._flights: dict[str, Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def holds(self, task_id: str) -> bool:
        """Whether the task is being claimed or sent from here."""
        return task_id in self._flights or task_id in self._claiming

    def ids(self) -> list[str]:
        """The ids of what is in here: attempts that we hold, and claims that may be durable before we hear of it."""
        return [*self._flights, *self._claiming]

    def flights(self) -> list[Flight]:
        """The attempts that we hold."""
        return list(self._flights.values())

    def claiming(self, ids: Iterable[str]) -> None:
        """These are on their way to a claim."""
        self._claiming.update(ids)

    def claimed(self, ids: Iterable[str], flights: Iterable[Flight]) -> None:
        """The claim is settled: these are ours now."""
        self._claiming.difference_update(ids)
        for flight in flights:
            self._flights[flight.claimed.id] = flight

    def ended(self, claimed: Claimed) -> None:
        """The end of this attempt is durable, or was refused as stale. The task's next one may be here by now."""
        flight = self._flights.get(claimed.id)
        if flight is not None and flight.claimed.fence == claimed.fence:
            del self._flights[claimed.id]

    @property
    def unsettled_claims(self) -> int:
        """Tasks whose claim has not come back."""
        return len(self._claiming)
