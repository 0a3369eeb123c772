"""The ring as a picture of characters: an arc for each node, as long as its share of the partitions. Pure.

Terminals are narrow and 256 partitions are many, so what is shown is shares, not numbers: the partitions of a node
lie scattered, and side by side they would be noise. What is on its way is in small letters, what nobody owns is a dot.
"""

import math
import string
from collections.abc import Mapping, Sequence
from typing import Any

FREE = "."
LETTERS = string.ascii_uppercase
OTHERS = "+"
# A character is about twice as high as it is wide.
RADIUS_X, RADIUS_Y = 18.0, 9.0
HOLE = 0.66
COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")

Cell = tuple[str, str]
BLANK: Cell = (" ", "")


def letters(nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Node id to the letter that stands for it, in the order of the nodes."""
    return {str(node["id"]): LETTERS[at] if at < len(LETTERS) else OTHERS for at, node in enumerate(nodes)}


def picture(cluster: Mapping[str, Any]) -> list[list[Cell]]:
    """Lines of characters, each with its style."""
    arc = _arc(cluster)
    cells = _cells()
    lines = [[BLANK] * (int(2 * RADIUS_X) + 1) for _ in range(int(2 * RADIUS_Y) + 1)]
    for place, (row, column) in enumerate(cells):
        lines[row][column] = arc[place * len(arc) // len(cells)] if arc else (FREE, "")
    _write_into_the_hole(lines, cluster)
    return lines


def _arc(cluster: Mapping[str, Any]) -> list[Cell]:
    """A cell for each partition, those of a node together."""
    names = letters(cluster["nodes"])
    styles = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
    order = {name: at for at, name in enumerate(names)}
    found: list[tuple[int, bool, Cell]] = []
    for one in cluster["partitions"]:
        owner = one["owner"]
        if one["state"] == "free" or owner not in names:
            found.append((len(order), False, (FREE, "bold")))
        else:
            moves = one["state"] == "moving"
            letter = names[owner].lower() if moves else names[owner]
            found.append((order[owner], moves, (letter, styles[owner])))
    return [cell for _, _, cell in sorted(found)]


def _cells() -> list[tuple[int, int]]:
    """Where the ring is, clockwise from the top."""
    found: list[tuple[float, int, int]] = []
    for row in range(int(2 * RADIUS_Y) + 1):
        for column in range(int(2 * RADIUS_X) + 1):
            x, y = (column - RADIUS_X) / RADIUS_X, (RADIUS_Y - row) / RADIUS_Y
            if HOLE <= math.hypot(x, y) <= 1:
                found.append((math.atan2(x, y) % math.tau, row, column))
    return [(row, column) for _, row, column in sorted(found)]


def _write_into_the_hole(lines: list[list[Cell]], cluster: Mapping[str, Any]) -> None:
    states = [one["state"] for one in cluster["partitions"]]
    said = [f"{len(cluster['nodes'])} node{'' if len(cluster['nodes']) == 1 else 's'}"]
    said += [f"{states.count(state)} {state}" for state in ("owned", "moving", "free") if state in states]
    for at, text in enumerate(said):
        row, column = int(RADIUS_Y) - len(said) // 2 + at, int(RADIUS_X) - len(text) // 2
        lines[row][column : column + len(text)] = [(letter, "bold") for letter in text]
