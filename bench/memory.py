"""What tasks within the horizon hold in memory: 100,000 and a million, beside a start with an empty store.
On SQLite and on PostgreSQL.

What one more of them costs is told by the two together: what a start with any number of them leaves behind, pages of
the file's cache and of the allocator, is in both.
"""

from pathlib import Path

from bench.boot import begun, boot, near
from bench.figures import Figure, at_most, ratio
from bench.places import kinds, places

ROUNDS = 3
FEW, MANY = 100_000, 1_000_000
EACH_BYTES, TO_EMPTY = 120, 1.3


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question."""
    rounds, scale = (1, 10) if quick else (ROUNDS, 1)
    return [figure for kind in kinds() for figure in _on(kind, folder, rounds, FEW // scale, MANY // scale)]


def _on(kind: str, folder: Path, rounds: int, few: int, many: int) -> list[Figure]:
    found: dict[int, list[float]] = {0: [], few: [], many: []}
    with places(kind, folder) as made:
        empty = begun(made)
        for number in range(rounds):
            found[0].append(boot(empty.data, 0, empty.store)[1])
            for count in (few, many):
                place = near(made, f"near-{count}-{number}", count)
                found[count].append(boot(place.data, count, place.store)[1])
                made.drop(place)
    nothing, some, much = (
        Figure(f"{kind}: {_title(count)}", "MB", tuple(megabytes)) for count, megabytes in found.items()
    )
    each = tuple((more - less) * 1e6 / (many - few) for more, less in zip(much.rounds, some.rounds, strict=True))
    first = tuple((more - less) * 1e6 / few for more, less in zip(some.rounds, nothing.rounds, strict=True))
    return [
        nothing,
        some,
        much,
        ratio(f"{kind}: memory with {few:,} to an empty store", some, nothing, at_most(TO_EMPTY)),
        Figure(f"{kind}: memory for each of the first {few:,}", "B", first),
        Figure(f"{kind}: memory for each more, to {many:,}", "B", each, at_most(EACH_BYTES)),
    ]


def _title(count: int) -> str:
    return f"memory, {count:,} due within the horizon" if count else "memory, empty store"
