"""The arithmetic of a bench, and the table it prints. Pure."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, Literal

import msgspec

Better = Literal["more", "less"]


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least this part of all does not exceed (nearest rank)."""
    if not values:
        raise ValueError("no values, no percentile")
    if not 0 < part <= 1:
        raise ValueError(f"a part is above 0 and at most 1, not {part}")
    ordered = sorted(values)
    rank = -(-len(ordered) * round(part * 1_000_000) // 1_000_000)
    return ordered[max(rank, 1) - 1]


def per_second(count: int, seconds: float) -> float:
    """How many a second."""
    if seconds <= 0:
        raise ValueError(f"a rate needs time to pass, not {seconds} s")
    return count / seconds


class Target(msgspec.Struct, frozen=True):
    """What a figure should come to."""

    value: float
    better: Better

    def met(self, figure: float) -> bool:
        """Whether the figure does."""
        return figure >= self.value if self.better == "more" else figure <= self.value

    def __str__(self) -> str:
        return f"{'≥' if self.better == 'more' else '≤'} {shown(self.value)}"


class Figure(msgspec.Struct, frozen=True):
    """One line of the table: the rounds that were measured, and what they should come to."""

    name: str
    unit: str
    rounds: tuple[float, ...]
    target: Target | None = None

    @property
    def value(self) -> float:
        """The median of the rounds."""
        return median(self.rounds)

    @property
    def verdict(self) -> str:
        """Whether the target was met; empty where there is none."""
        if self.target is None:
            return ""
        return "met" if self.target.met(self.value) else "missed"


def at_least(value: float) -> Target:
    """More is better."""
    return Target(value, "more")


def at_most(value: float) -> Target:
    """Less is better."""
    return Target(value, "less")


def ratio(name: str, ours: Figure, limit: Figure, target: Target | None = None) -> Figure:
    """Ours to the limit, of medians; the rounds are neighbours in time, hence ratios of their own."""
    rounds = tuple(our / its for our, its in zip(ours.rounds, limit.rounds, strict=True))
    return Figure(name, "×", (*rounds,), target)


def shown(value: float) -> str:
    """A number as a person reads it: three digits that mean something."""
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def table(title: str, figures: Iterable[Figure]) -> str:
    """The figures of a question, one a line."""
    rows = [("", "median", "unit", "rounds", "target", "")]
    rows += [
        (
            figure.name,
            shown(figure.value),
            figure.unit,
            " ".join(shown(one) for one in figure.rounds),
            str(figure.target) if figure.target is not None else "",
            figure.verdict,
        )
        for figure in figures
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [title]
    for row in rows:
        cells = [
            cell.rjust(width) if at == 1 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def as_record(figures: Iterable[Figure]) -> list[dict[str, Any]]:
    """The figures for a file."""
    return [
        {
            "name": figure.name,
            "unit": figure.unit,
            "median": figure.value,
            "rounds": list(figure.rounds),
            "target": str(figure.target) if figure.target is not None else None,
            "verdict": figure.verdict or None,
        }
        for figure in figures
    ]
