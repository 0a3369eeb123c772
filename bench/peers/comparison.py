"""The figures of all who took part, side by side, and what they come to. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.figures import Better, Figure, at_least, ratio, shown

NONE = "—"


@dataclass
class Line:
    """One figure of every contender."""

    question: str
    name: str
    unit: str
    better: Better
    rounds: dict[str, list[float]] = field(default_factory=dict)
    """By contender; one who has no such thing has none."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why one who should have it has none."""

    @property
    def title(self) -> str:
        """As the table calls it."""
        return f"{self.question}: {self.name}"

    def figure(self, contender: str) -> Figure | None:
        """What one came to; nothing where a round of it failed."""
        if contender in self.failed or not self.rounds.get(contender):
            return None
        return Figure(f"{self.title}, {contender}", self.unit, tuple(self.rounds[contender]))

    def beside(self, contender: str, other: str) -> float | None:
        """How many times the other's figure this one's is: the median of ratios within a round."""
        mine, its = self.figure(contender), self.figure(other)
        if mine is None or its is None or 0 in its.rounds:
            return None
        return ratio(self.title, mine, its).value


def columns(line: Line, contenders: Sequence[str], ours: Sequence[str]) -> list[tuple[str, ...]]:
    """A line's rows of the table."""
    rows = []
    for contender in contenders:
        if (figure := line.figure(contender)) is None:
            rows.append((contender, line.failed.get(contender, NONE), "", "", *("" for _ in ours)))
            continue
        ratios = (line.beside(contender, one) for one in ours)
        rows.append(
            (
                contender,
                shown(figure.value),
                line.unit,
                " ".join(shown(one) for one in figure.rounds),
                *(f"× {shown(one)}" if one is not None else "" for one in ratios),
            )
        )
    return rows


def table(lines: Iterable[Line], contenders: Sequence[str], ours: Sequence[str]) -> str:
    """All lines, with what each is to each of ours."""
    head = ("", "median", "unit", "rounds", *(f"to {one}" for one in ours))
    blocks = [(line, columns(line, contenders, ours)) for line in lines]
    rows = [head, *(row for _, block in blocks for row in block)]
    # A reason is long and stands alone in its row.
    widths = [max(len(row[at]) for row in rows if at == 0 or row[2] or row is head) for at in range(len(head))]
    text = ["  " + _joined(head, widths)]
    for line, block in blocks:
        text.append(f"{line.title} ({line.better} is better)")
        text += ["  " + _joined(row, widths) for row in block]
    return "\n".join(text)


def _joined(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.rjust(width) if at == 1 else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


@dataclass(frozen=True)
class Gate:
    """What one of ours should come to beside the best of these peers."""

    line: str
    ours: str
    peers: tuple[str, ...]
    at_least: float


def gates(lines: Sequence[Line], wanted: Iterable[Gate]) -> list[Figure]:
    """Those that this run can tell."""
    by_title = {line.title: line for line in lines}
    figures = []
    for gate in wanted:
        line = by_title.get(gate.line)
        if line is None or (mine := line.figure(gate.ours)) is None:
            continue
        there = [figure for peer in gate.peers if (figure := line.figure(peer)) is not None]
        if not there:
            continue
        best = max(there, key=lambda figure: figure.value)
        name = f"{gate.line}: {gate.ours} to {best.name.removeprefix(f'{line.title}, ')}"
        figures.append(ratio(name, mine, best, at_least(gate.at_least)))
    return figures


def as_record(lines: Iterable[Line], contenders: Sequence[str], ours: Sequence[str]) -> list[dict[str, Any]]:
    """The lines for a file."""
    return [
        {
            "figure": line.title,
            "unit": line.unit,
            "better": line.better,
            "of": {
                one: {
                    "median": figure.value,
                    "rounds": list(figure.rounds),
                    **{f"to {other}": line.beside(one, other) for other in ours},
                }
                if (figure := line.figure(one)) is not None
                else {"missing": line.failed.get(one, "has no such thing")}
                for one in contenders
            },
        }
        for line in lines
    ]


def take(lines: Mapping[str, Line], contender: str, found: Mapping[str, float]) -> None:
    """One round of one contender."""
    for name, value in found.items():
        lines[name].rounds.setdefault(contender, []).append(value)


def fail(lines: Mapping[str, Line], contender: str, why: str) -> None:
    """A contender who could not do it."""
    for line in lines.values():
        line.failed.setdefault(contender, why)
