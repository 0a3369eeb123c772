"""What a schedule that pauses itself says about it, in words that can be told from a note that somebody wrote.

Such a note never takes the place of another, and goes with the pause: else a schedule that runs again would go on
saying that it is paused.
"""

import re

GONE = "Paused: the receiver answered 410 Gone."
_FAILURES = re.compile(r"paused after \d+ failures")


def of_failures(count: int) -> str:
    """It gave up so many times in a row."""
    return f"paused after {count} failures"


def left_by(own: str, note: str | None) -> str:
    """The note of a schedule that pauses itself: that of somebody stays."""
    return own if without(note) is None else str(note)


def without(note: str | None) -> str | None:
    """A note as it is once the pause is over."""
    is_own = note is None or note == GONE or _FAILURES.fullmatch(note) is not None
    return None if is_own else note
