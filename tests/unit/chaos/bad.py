"""The bad histories by the kind of violation that each shows."""

from collections.abc import Callable

from tests.unit.chaos.scenes import Scene

Bad = Callable[[Scene], None]
BAD: list[tuple[str, Bad]] = []


def shows(kind: str) -> Callable[[Bad], Bad]:
    """Keep a history as one that shows this."""

    def keep(bad: Bad) -> Bad:
        BAD.append((kind, bad))
        return bad

    return keep


def tried_twice(scene: Scene, first: str, *, status: int | None = 200, **create: int | str) -> str:
    """Two attempts of one task, of which the first was recorded as `first`."""
    task = scene.create(**create)  # type: ignore[arg-type] # fields of Wanted
    scene.hit(task, 10, status=status)
    scene.line(task, 1, first, 21, status=status if first == "failed" else None)
    scene.hit(task, 150, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 161)
    scene.row(task, attempt=2)
    return task
