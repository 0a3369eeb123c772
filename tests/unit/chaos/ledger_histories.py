"""Histories of ledgers, as they are told: good ones, bad ones by the kind of violation, and what they begin with."""

from collections.abc import Callable

import msgspec

from tests.unit.chaos.ledgers import START, STEP_MS, Scribe

Told = Callable[[Scribe], None]
GOOD: list[Told] = []
BAD: list[tuple[str, Told]] = []
LATE = 400  # steps after which an outage of 390 of them ends


def good(told: Told) -> Told:
    GOOD.append(told)
    return told


def bad(kind: str) -> Callable[[Told], Told]:
    def keep(told: Told) -> Told:
        BAD.append((kind, told))
        return told

    return keep


def changed(scribe: Scribe, place: int, **fields: object) -> None:
    scribe.entries[place] = msgspec.structs.replace(scribe.entries[place], **fields)


def caught_up(scribe: Scribe, *, missed: int = 389, times: int = 389, runs: int = LATE) -> None:
    """Nobody was there from 10.5 to 400; the last time of it stands for all."""
    scribe.run(*range(1, 11))
    scribe.outage(10.5, LATE + 0.1)
    at = START + int((LATE + 0.1) * STEP_MS)
    stretch = {"until_at": START + 399 * STEP_MS, "times": times, "task_id": None, "decided_at": at}
    scribe.decide(11, "missed", "catch_up:latest", **stretch)
    scribe.decide(runs, decided_at=at, missed=missed)
