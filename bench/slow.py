"""Ten thousand requests in flight to receivers that take five seconds, and honest tasks beside them.

The slow ones are due evenly, so many that as many are always under way, to a hundred addresses. The honest ones, a
hundred a second, go to a receiver of their own that answers at once. How late these are is told alone and beside the
crowd, in the same daemon; and once more beside as many slow ones of another tenant that are all due at the same
instant, which is when all connections are made.
"""

import time
from pathlib import Path

from bench.daemon import Daemon, running
from bench.figures import Figure, at_least, at_most, percentile
from bench.lateness import late_ms, steady
from bench.processes import child
from bench.receiver import ask_receiver
from bench.slow_receiver import ask_crowd
from bench.tasks import now_ms

ROUNDS = 3
IN_FLIGHT = 10_000
DELAY_SECONDS = 5
PORTS = 100
HONEST_PER_SECOND, HONEST_SECONDS = 100, 10
# More than asked for are due, since each is also connected, claimed and recorded.
SPARE = 1.05
AHEAD_MS = 6_000
# Until as many are under way as there will be.
FILL_SECONDS = DELAY_SECONDS + 2
CROWD_CREATED_PER_SECOND = 8_000
SETTLE_SECONDS_MAX = 60
MORE_MS, MEMORY_MB = 50, 1_000
CROWD = "crowd"
PARTS = ((0.5, "p50"), (0.99, "p99"))


class Beside:
    """A daemon with its receivers, slow and honest."""

    def __init__(self, daemon: Daemon, ports: list[int], honest: int, in_flight: int, seconds: int) -> None:
        self._daemon = daemon
        self._ports = ports
        self._honest = honest
        self._in_flight = in_flight
        self._seconds = seconds
        self._slow = 0

    def alone(self) -> list[float]:
        """How late honest tasks are with nothing beside them."""
        return steady(self._daemon, self._honest, HONEST_PER_SECOND, self._seconds)

    def beside(self, *, at_once: bool) -> tuple[list[float], dict[str, int]]:
        """How late they are beside the crowd, and how many were under way there meanwhile."""
        rate = self._in_flight * SPARE / DELAY_SECONDS
        count = int(self._in_flight * SPARE) if at_once else int(rate * (FILL_SECONDS + self._seconds + 1))
        begins_ms = now_ms() + AHEAD_MS + count * 1_000 // CROWD_CREATED_PER_SECOND
        # Beside a crowd that is due at once the honest ones are due from a second before on.
        first_ms = begins_ms - 1_000 if at_once else begins_ms + FILL_SECONDS * 1_000
        for number, port in enumerate(self._ports):
            times = [
                begins_ms if at_once else begins_ms + int(n * 1_000 / rate)
                for n in range(number, count, len(self._ports))
            ]
            self._daemon.create(f"http://127.0.0.1:{port}/slow", times, CROWD if at_once else None)
        self._slow += count
        ask_receiver(self._honest, "/reset")
        honest = HONEST_PER_SECOND * self._seconds
        self._daemon.create(
            f"http://127.0.0.1:{self._honest}/late",
            [first_ms + n * 1_000 // HONEST_PER_SECOND for n in range(honest)],
        )
        if now_ms() > min(begins_ms, first_ms) - 500:
            raise RuntimeError("creating the tasks took so long that the first are due")
        time.sleep((first_ms - now_ms()) / 1_000)
        ask_crowd(self._ports[0])
        time.sleep(self._seconds)
        crowd = ask_crowd(self._ports[0])
        late = late_ms(self._honest, honest)
        self._until_all_are_answered()
        return late, crowd

    def _until_all_are_answered(self) -> None:
        until = time.perf_counter() + SETTLE_SECONDS_MAX
        while (answered := ask_crowd(self._ports[0])["answered"]) < self._slow:
            if time.perf_counter() > until:
                raise RuntimeError(f"of {self._slow} slow requests {answered} have come")
            time.sleep(0.2)


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question."""
    rounds, in_flight, seconds = (1, IN_FLIGHT // 10, 4) if quick else (ROUNDS, IN_FLIGHT, HONEST_SECONDS)
    # The crowd is not to be all that may be in flight: what honest tasks wait for then is a place.
    settings = {"TASKTICK_DISPATCH__IN_FLIGHT_MAX": str(in_flight * 3 // 2)}
    late: dict[str, list[list[float]]] = {"alone": [], "evenly": [], "at once": []}
    crowds: list[dict[str, int]] = []
    load = ("--ports", str(PORTS), "--delay-seconds", str(DELAY_SECONDS))
    with (
        child("bench.receiver") as receiver,
        child("bench.slow_receiver", *load) as slow,
        running(folder / "slow", settings=settings) as daemon,
    ):
        empty = daemon.resident_mb
        of = Beside(daemon, slow["ports"], receiver["port"], in_flight, seconds)
        for _ in range(rounds):
            late["alone"].append(of.alone())
            found, crowd = of.beside(at_once=False)
            late["evenly"].append(found)
            crowds.append(crowd)
            late["at once"].append(of.beside(at_once=True)[0])
        most = daemon.resident_most_mb
    return [
        Figure("slow requests under way, least", "", tuple(float(one["least"]) for one in crowds), at_least(in_flight)),
        *_lateness(late),
        Figure("memory at the start", "MB", (empty,)),
        Figure("memory, most", "MB", (most,), at_most(MEMORY_MB)),
    ]


def _lateness(late: dict[str, list[list[float]]]) -> list[Figure]:
    titles = {
        "alone": "honest tasks alone",
        "evenly": "honest beside slow ones that come evenly",
        "at once": "honest beside slow ones due at once",
    }
    figures = [
        Figure(f"late, {titles[kind]}, {name}", "ms", tuple(percentile(one, part) for one in rounds))
        for kind, rounds in late.items()
        for part, name in PARTS
    ]
    alone = [percentile(one, 0.99) for one in late["alone"]]
    for kind in ("evenly", "at once"):
        more = tuple(percentile(one, 0.99) - of for one, of in zip(late[kind], alone, strict=True))
        figures.append(Figure(f"p99 of {titles[kind]}, more than alone", "ms", more, at_most(MORE_MS)))
    return figures
