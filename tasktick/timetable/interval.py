"""Every so long, aligned to an anchor: arithmetic, never the last fire plus the interval."""

EVERY_MIN_MS = 100
EVERY_MAX_MS = 366 * 100 * 86_400_000


def next_at(every_ms: int, anchor_at: int, after: int) -> int:
    """The first instant after `after` that is a whole number of intervals from the anchor, to either side."""
    return after + every_ms - (after - anchor_at) % every_ms
