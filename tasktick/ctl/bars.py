"""Bars of block characters. Pure."""

# Eighths of a cell.
_PARTS = " ▏▎▍▌▋▊▉"
_FULL, _WAITS = "█", "░"


def bar(due: int, waits: int, most: int, room: int) -> tuple[str, str]:
    """A bar for what falls due and, behind it, one for what waits; the longest of all has so many cells."""
    if not most:
        return "", ""
    cells = room * 8 * due // most
    whole, eighths = divmod(cells, 8)
    drawn = _FULL * whole + (_PARTS[eighths] if eighths else "")
    if due and not drawn:
        drawn = _PARTS[1]
    behind = round(room * waits / most)
    return drawn, _WAITS * min(max(behind, 1 if waits else 0), max(0, room - len(drawn)))
