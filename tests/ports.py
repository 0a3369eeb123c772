"""Ports of loopback for somebody else to open: a process that a test starts, or one that comes again on the same port.

A port that the system has chosen is anybody's again as soon as it is closed, and tests run beside each other. These
ports lie below those that the system chooses from, are free when they are asked for, and are nobody else's who asks
here, in this process or in another, until this process ends: each is held by a name that the kernel frees with it.
"""

import os
import socket
from collections.abc import Iterator

FIRST, LAST = 20_000, 30_000
HELD_AS = "\0tasktick-tests-port-{port}"
_holds: list[socket.socket] = []


def free_port() -> int:
    """A port that is free for TCP and UDP, and stays so."""
    return ports_in_a_row(1)


def free_ports(count: int) -> list[int]:
    """So many of them."""
    return [free_port() for _ in range(count)]


def ports_in_a_row(count: int) -> int:
    """The first of so many ports that follow each other."""
    for first in _candidates(count):
        holds: list[socket.socket] = []
        try:
            for port in range(first, first + count):
                holds.append(_hold(port))
        except OSError:
            for hold in holds:
                hold.close()
            continue
        _holds.extend(holds)
        return first
    raise AssertionError(f"no {count} ports in a row are free from {FIRST} to {LAST}")


def _candidates(count: int) -> Iterator[int]:
    """Where a row may begin: from a place of this process's own, so that few ask for what others have."""
    places = (LAST - FIRST) // count
    start = os.getpid() * 64 // count
    for number in range(places):
        yield FIRST + (start + number) % places * count


def _hold(port: int) -> socket.socket:
    """The hold on a port that nobody has; OSError if somebody has it."""
    hold = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        hold.bind(HELD_AS.format(port=port))
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as door:
                door.bind(("127.0.0.1", port))
    except OSError:
        hold.close()
        raise
    return hold
