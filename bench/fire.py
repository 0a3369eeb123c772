"""How many tasks that are due at once go out a second: claimed, signed, delivered and recorded, durably.

The clock runs from the instant at which they are due until the last one is recorded in the file; the limit's
from its first request to its last answer.
"""

import time
from pathlib import Path

from bench.daemon import Ledger, ServerLedger, running
from bench.figures import Figure, at_least, at_most, per_second, ratio
from bench.processes import ask, child
from bench.receiver import ask_receiver
from bench.tasks import now_ms

TASKS = 20_000
AHEAD_MS = 5_000
ROUNDS = 3
WIDE, NARROW = 256, 64
SECONDS_MAX = 60
LOOK_SECONDS = 0.02


def fire(folder: Path, port: int, count: int, store: str | None = None) -> tuple[float, float]:
    """Seconds until all are recorded, and processor seconds of the daemon meanwhile; everything is checked."""
    ask_receiver(port, "/reset")
    with running(folder, store) as daemon:
        ledger = Ledger(folder) if store is None else ServerLedger(store)
        try:
            before = ledger.succeeded(), *ledger.rows()
            due_ms = now_ms() + AHEAD_MS
            daemon.create(f"http://127.0.0.1:{port}/fire", [due_ms] * count)
            left_ms = due_ms - now_ms()
            if left_ms < 500:
                raise RuntimeError("creating the tasks took so long that they are due: give them more time")
            time.sleep(left_ms / 1_000 - 0.05)
            spent = daemon.cpu_seconds
            while (recorded := ledger.succeeded() - before[0]) < count and now_ms() < due_ms + SECONDS_MAX * 1_000:
                time.sleep(LOOK_SECONDS)
            seconds, cpu_seconds = (now_ms() - due_ms) / 1_000, daemon.cpu_seconds - spent
            said = ask_receiver(port, "/hits")
            tasks, attempts = ledger.rows()
            seen = (recorded, tasks - before[1], attempts - before[2], said["hits"], said["distinct"])
            if seen != (count,) * len(seen):
                raise RuntimeError(f"of {count}, counted, rows, attempts, hits, distinct hits are {seen}")
            return seconds, cpu_seconds
        finally:
            ledger.close()


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, beside the bare client."""
    count = TASKS // 4 if quick else TASKS
    rates: dict[str, list[float]] = {"daemon": [], "cpu": [], "wide": [], "narrow": [], "limit_cpu": []}
    with child("bench.receiver") as receiver:
        port = receiver["port"]
        for number in range(1 if quick else ROUNDS):
            for name, connections in (("wide", WIDE), ("narrow", NARROW)):
                said = ask(
                    "bench.limit_client",
                    *("--url", f"http://127.0.0.1:{port}/fire"),
                    *("--count", str(count), "--connections", str(connections)),
                )
                rates[name].append(per_second(count, said["seconds"]))
                if name == "narrow":
                    rates["limit_cpu"].append(said["cpu_seconds"] / count * 1e6)
            seconds, cpu_seconds = fire(folder / f"fire-{number}", port, count)
            rates["daemon"].append(per_second(count, seconds))
            rates["cpu"].append(cpu_seconds / count * 1e6)
    ours = Figure("fires, all recorded", "/s", tuple(rates["daemon"]), at_least(8_000))
    wide = Figure(f"limit: bare aiohttp client, {WIDE} connections", "/s", tuple(rates["wide"]))
    narrow = Figure(f"limit: bare aiohttp client, {NARROW} connections", "/s", tuple(rates["narrow"]))
    return [
        ours,
        wide,
        narrow,
        ratio(f"fires to the bare client at {WIDE}", ours, wide, at_least(0.9)),
        ratio(f"fires to the bare client at {NARROW}", ours, narrow),
        Figure("processor per fire, all of the daemon", "µs", tuple(rates["cpu"]), at_most(40)),
        Figure("processor per post, bare client", "µs", tuple(rates["limit_cpu"])),
    ]
