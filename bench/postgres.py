"""Fires and creates on a PostgreSQL of this machine, with its defaults, beside the same on SQLite.

Its processes share the cores with the daemon, which SQLite's thread does too: what is compared is the whole.
"""

import asyncio
from pathlib import Path

from bench.create import BULK_TASKS, CALLERS, SECONDS, call
from bench.daemon import running
from bench.figures import Figure, per_second, ratio
from bench.fire import ROUNDS, TASKS, fire
from bench.processes import child
from tests.postgres import installed, own_cluster


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, for each version that is there, alternating with SQLite."""
    count, seconds, rounds = (TASKS // 4, 1.0, 1) if quick else (TASKS, SECONDS, ROUNDS)
    names = ["SQLite", *(f"PostgreSQL {version}" for version in sorted(installed()))]
    found: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    with child("bench.receiver") as receiver:
        for number in range(rounds):
            for name in names:
                inside = folder / f"{name.replace(' ', '-')}-{number}"
                rates = found[name]
                if name == "SQLite":
                    _round(inside, rates, receiver["port"], count, seconds, None)
                    continue
                with own_cluster(name.removeprefix("PostgreSQL ")) as server:
                    url = asyncio.run(server.new_database())
                    _round(inside, rates, receiver["port"], count, seconds, url)
    return [figure for kind in ("fires", "creates", "bulk") for figure in _figures(kind, names, found)] + [
        Figure(f"processor per fire of the daemon, {name}", "µs", tuple(found[name]["cpu"])) for name in names
    ]


def _round(
    folder: Path, rates: dict[str, list[float]], port: int, count: int, seconds: float, store: str | None
) -> None:
    took, cpu_seconds = fire(folder, port, count, store)
    rates.setdefault("fires", []).append(per_second(count, took))
    rates.setdefault("cpu", []).append(cpu_seconds / count * 1e6)
    with running(folder, store) as daemon:
        said = call(daemon.port, daemon.key, seconds)
        rates.setdefault("creates", []).append(per_second(said["answers"], said["seconds"]))
        said = call(daemon.port, daemon.key, seconds, bulk=True)
        rates.setdefault("bulk", []).append(per_second(said["answers"] * BULK_TASKS, said["seconds"]))


TITLES = {
    "fires": "fires, all recorded",
    "creates": f"created one a call, {CALLERS} callers",
    "bulk": f"created {BULK_TASKS:,} a call",
}


def _figures(kind: str, names: list[str], found: dict[str, dict[str, list[float]]]) -> list[Figure]:
    base, *others = [Figure(f"{TITLES[kind]}, {name}", "/s", tuple(found[name][kind])) for name in names]
    shares = [ratio(f"{figure.name} to SQLite", figure, base) for figure in others]
    return [base, *others, *shares]
