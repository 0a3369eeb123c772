"""What tasks within the horizon hold in memory: 100,000 and a million, beside a start with an empty store.

What one more of them costs is told by the two together: what a start with any number of them leaves behind, pages of
the file's cache and of the allocator, is in both.
"""

from pathlib import Path

from bench.boot import boot, stocked_near
from bench.daemon import running
from bench.figures import Figure, at_most, ratio

ROUNDS = 3
FEW, MANY = 100_000, 1_000_000
EACH_BYTES, TO_EMPTY = 120, 1.3


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question."""
    rounds, scale = (1, 10) if quick else (ROUNDS, 1)
    counts = (FEW // scale, MANY // scale)
    empty = folder / "empty"
    with running(empty):
        pass
    found: dict[int, list[float]] = {0: [], **{count: [] for count in counts}}
    for _ in range(rounds):
        found[0].append(boot(empty, 0)[1])
        for count in counts:
            found[count].append(boot(stocked_near(folder / "near", count), count)[1])
    few, many = counts
    nothing, some, much = (Figure(_title(count), "MB", tuple(megabytes)) for count, megabytes in found.items())
    each = tuple((more - less) * 1e6 / (many - few) for more, less in zip(much.rounds, some.rounds, strict=True))
    first = tuple((more - less) * 1e6 / few for more, less in zip(some.rounds, nothing.rounds, strict=True))
    return [
        nothing,
        some,
        much,
        ratio(f"memory with {few:,} to an empty store", some, nothing, at_most(TO_EMPTY)),
        Figure(f"memory for each of the first {few:,}", "B", first),
        Figure(f"memory for each more, to {many:,}", "B", each, at_most(EACH_BYTES)),
    ]


def _title(count: int) -> str:
    return f"memory, {count:,} due within the horizon" if count else "memory, empty store"
