"""What one request costs, by the way it is sent: the bare client, the session, our bytes on its pool, the wire."""

from pathlib import Path

from bench.figures import Figure, at_least, at_most, per_second, ratio
from bench.processes import ask, child

REQUESTS = 60_000
ROUNDS = 3
IN_FLIGHT = (64, 256)
BARE = "bare aiohttp client"
WAYS = {
    "session": "session sender",
    "own-bytes": "own bytes on aiohttp's pool",
    "wire": "wire sender",
    "protocol": "limit: bare protocol on httptools",
}


def _ask(way: str, url: str, count: int, in_flight: int) -> tuple[float, float]:
    """Requests a second, and microseconds of processor for each."""
    load = ("--url", url, "--count", str(count), "--connections", str(in_flight))
    said = ask("bench.limit_client", *load) if way == BARE else ask("bench.limit_sender", "--way", way, *load)
    return per_second(count, said["seconds"]), said["cpu_seconds"] / count * 1e6


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """Each way in turn, at each number in flight."""
    del folder
    count = REQUESTS // 10 if quick else REQUESTS
    names = {BARE: BARE, **WAYS}
    figures: list[Figure] = []
    with child("bench.receiver") as receiver:
        url = f"http://127.0.0.1:{receiver['port']}/send"
        for in_flight in IN_FLIGHT:
            rounds = [{way: _ask(way, url, count, in_flight) for way in names} for _ in range(1 if quick else ROUNDS)]
            rates = {
                way: Figure(f"{name}, {in_flight} in flight", "/s", tuple(one[way][0] for one in rounds))
                for way, name in names.items()
            }
            figures += rates.values()
            figures.append(ratio("wire to the bare client", rates["wire"], rates[BARE], at_least(1.3)))
            figures += [
                Figure(
                    f"processor per request, {name}",
                    "µs",
                    tuple(one[way][1] for one in rounds),
                    at_most(10) if way == "wire" else None,
                )
                for way, name in names.items()
            ]
    return figures
