"""A process of hostile receivers: `python -m tests.hostile.host COUNT FOLDER` prints where each listens, then serves.

They are not in the process that measures: what they cost is not to look like lateness.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvloop

from tests.fakes.authority import EXPIRED, Authority
from tests.fakes.receivers import Behaviour, Receiver, honest
from tests.hostile.cases import CASES
from tests.hostile.test_tls import FAULTS


class Place(msgspec.Struct, frozen=True):
    """Where one of them listens, and what it does."""

    name: str
    url: str


Open = Callable[[], Receiver]


def kinds(authority: Authority) -> dict[str, tuple[str, Open]]:
    """Every behaviour there is: the scheme it is called by, and what makes one."""
    found: dict[str, tuple[str, Open]] = {}

    def plain(behave: Behaviour) -> Open:
        return lambda: Receiver(behave)

    def wrapped(behave: Behaviour, tls: object) -> Open:
        return lambda: Receiver(behave, tls=tls)  # type: ignore[arg-type]

    for name, (behave, _) in CASES.items():
        found[name] = ("http", plain(behave))
        if "flood" in name or "drip" in name or "endless" in name:
            found[f"{name}, by TLS"] = ("https", wrapped(behave, authority.context()))
    for name, fault in FAULTS.items():
        tls = fault.server(authority) if fault.server is not None else None
        found[f"TLS: {name}"] = ("https", wrapped(fault.behave, tls))
    expired = authority.context(end=EXPIRED)
    found["http to https"] = ("http", wrapped(honest, expired))
    return found


async def serve(count: int, folder: Path) -> None:
    """Open as many as were asked for, each behaviour in its turn, until standard input ends."""
    authority = Authority(folder)
    of = list(kinds(authority).items())
    receivers: list[Receiver] = []
    places: list[Place] = []
    for at in range(count):
        name, (scheme, make) = of[at % len(of)]
        receiver = await make().__aenter__()
        receivers.append(receiver)
        places.append(Place(name, f"{scheme}://127.0.0.1:{receiver.port}/hook"))
    sys.stdout.write(msgspec.json.encode(places).decode() + "\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    sys.stdout.write(f"{sum(one.connections for one in receivers)} {sum(one.sent_bytes for one in receivers)}\n")
    sys.stdout.flush()
    for receiver in receivers:
        await receiver.__aexit__(None, None, None)


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
