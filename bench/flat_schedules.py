"""How late the fires of one second are, by how many schedules fire in it: 1, 100 and 10,000.

Several such seconds a round, some seconds apart; each schedule fires in one of them. What a fire costs the daemon, with
its next one's rows and its line in the ledger, is told of the most.
"""

import time
from pathlib import Path

import msgspec

from bench.daemon import running
from bench.figures import Figure, at_most, percentile
from bench.processes import child
from bench.receiver import ask_receiver
from bench.stock import fill_schedules
from bench.tasks import now_ms

ROUNDS = 3
COUNTS = (1, 100, 10_000)
GROUPS, GROUP_MS = 5, 4_000
# Time to make them, and for a start of the daemon.
AHEAD_MS, MADE_PER_MS = 6_000, 8
SETTLE_SECONDS = 4
WITHIN, LATE_MORE_MS = 0.8, 1.0


def late_in_one_second(folder: Path, port: int, count: int, groups: int) -> tuple[list[float], float]:
    """How late each fire was (ms), and what it cost the daemon (µs)."""
    schedule = {"every": "1d", "task": {"target": {"url": f"http://127.0.0.1:{port}/fire"}}}
    with running(folder) as daemon:
        status, answer = daemon.call("POST", "/v1/schedules", msgspec.json.encode(schedule))
        if status != 201:
            raise RuntimeError(f"the daemon refused a schedule: {status} {answer[:500]!r}")
    first_ms = now_ms() + AHEAD_MS + count * groups // MADE_PER_MS
    fill_schedules(folder, count * groups, first_ms, 1_000, groups, GROUP_MS)
    ask_receiver(port, "/reset")
    with running(folder) as daemon:
        if now_ms() > first_ms - 1_000:
            raise RuntimeError("the start took so long that the first are due: give them more time")
        time.sleep((first_ms - now_ms()) / 1_000 - 0.5)
        spent = daemon.cpu_seconds
        time.sleep((first_ms + groups * GROUP_MS - now_ms()) / 1_000)
        cost = (daemon.cpu_seconds - spent) / (count * groups) * 1e6
        time.sleep(SETTLE_SECONDS)
        fires = ask_receiver(port, "/fires")
    if len({schedule for schedule, _, _ in fires}) != len(fires) or len(fires) != count * groups:
        raise RuntimeError(f"of {count * groups} fires {len(fires)} came")
    return [at_us / 1_000 - due for _, due, at_us in fires], cost


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question."""
    rounds, scale, groups = (1, 10, 2) if quick else (ROUNDS, 1, GROUPS)
    counts = [max(count // scale, 1) for count in COUNTS]
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[int, list[tuple[list[float], float]]] = {count: [] for count in counts}
    with child("bench.receiver") as receiver:
        for number in range(rounds):
            for count in counts:
                place = folder / f"{count}-{number}"
                found[count].append(late_in_one_second(place, receiver["port"], count, groups))
    figures: list[Figure] = []
    for part, name in ((0.5, "p50"), (0.99, "p99")):
        for count in counts:
            rates = tuple(percentile(late, part) for late, _ in found[count])
            base = figures[-counts.index(count)].value if count != counts[0] else None
            target = None if base is None else at_most(max(base / WITHIN, base + LATE_MORE_MS))
            figures.append(Figure(f"late, {count:,} schedules due in one second, {name}", "ms", rates, target))
    most = counts[-1]
    cost = tuple(cpu_us for _, cpu_us in found[most])
    return [*figures, Figure(f"processor per fire, {most:,} schedules due in one second", "µs", cost)]
