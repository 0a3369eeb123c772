"""Where a task is in a node's memory, and what holds it back there: what an explanation is made of.

It is this node's alone. What another owns is in that one's memory, which nobody else can look into.
"""

from typing import Literal

import msgspec

from tasktick.ready.limits import Reason

Place = Literal["elsewhere", "in_hand", "ready", "not_loaded", "unknown"]
"""Another node owns it; it is being claimed or sent from here; it waits for its turn; it is due, and is to be read;
or nobody was there to ask."""


class Standing(msgspec.Struct, frozen=True):
    """Where it is, and the limit that it may not pass now, with how many are in flight there and may be."""

    place: Place
    held_by: Reason | None = None
    in_flight: int | None = None
    cap: int | None = None
    before: int | None = None
    """How many wait in the ready queue of this node, in all."""
