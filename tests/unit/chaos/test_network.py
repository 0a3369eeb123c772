"""The network of the harness itself: what it says is cut is cut, and nothing else."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.chaos.network import Host, Network, loss_trouble, trouble

pytestmark = [pytest.mark.slow]
PATIENCE_S = 0.3
LONG_S = 5.0
MANY = 200


@pytest.fixture
def network() -> Iterator[Network]:
    reason = trouble()
    if reason is not None:
        pytest.skip(reason)
    with Network() as made:
        yield made


def _talks(source: Host, target: Host, kind: socket.SocketKind, within_s: float = LONG_S) -> bool | None:
    """Whether a packet arrives; None: it was refused on its way."""
    with closing(target.namespace.run(lambda: socket.socket(socket.AF_INET, kind))) as ear:
        ear.bind((target.address, 0))
        ear.settimeout(within_s)
        if kind is socket.SOCK_STREAM:
            ear.listen()
        with closing(source.namespace.run(lambda: socket.socket(socket.AF_INET, kind))) as mouth:
            mouth.settimeout(within_s)
            try:
                mouth.connect(ear.getsockname())
                if kind is socket.SOCK_STREAM:
                    return True
                mouth.send(b"x")
                return ear.recv(1) == b"x"
            except TimeoutError:
                return False
            except OSError:
                return None


def test_a_cut_is_of_what_it_says_and_mends(network: Network) -> None:
    one, other, third = (network.host(name) for name in ("one", "other", "third"))
    tcp, udp = socket.SOCK_STREAM, socket.SOCK_DGRAM
    assert _talks(one, other, tcp)
    assert _talks(other, one, udp)
    cut = network.one_way(one, other, "udp")
    assert _talks(one, other, udp, PATIENCE_S) is False
    assert _talks(other, one, udp)
    assert _talks(one, other, tcp)
    assert _talks(one, third, udp)
    cut.heal()
    assert _talks(one, other, udp)
    cut = network.one_way(None, None, "udp")
    assert _talks(one, other, udp, PATIENCE_S) is False
    assert _talks(third, one, udp, PATIENCE_S) is False
    assert _talks(one, other, tcp)
    cut.heal()
    cut = network.both_ways(one, other, how="prohibit")
    assert _talks(one, other, tcp) is None
    assert _talks(third, other, tcp)
    cut.heal()
    assert _talks(one, other, tcp)


def _arrives(mouth: socket.socket, ear: socket.socket) -> bool:
    ear.settimeout(0.01)
    mouth.sendto(b"x", ear.getsockname())
    try:
        return bool(ear.recv(1))
    except TimeoutError:
        return False


def test_packets_are_lost_by_lot(network: Network) -> None:
    reason = loss_trouble()
    if reason is not None:
        pytest.skip(reason)
    one, other = network.host("one"), network.host("other")
    with (
        closing(other.namespace.run(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))) as ear,
        closing(one.namespace.run(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))) as mouth,
    ):
        ear.bind((other.address, 0))
        ear.settimeout(LONG_S)
        mouth.sendto(b"y", ear.getsockname())  # they find each other before anything is lost
        assert ear.recv(1) == b"y"
        cut = network.loss(other, 0.25)
        arrived = sum(_arrives(mouth, ear) for _ in range(MANY))
        assert MANY * 0.55 < arrived < MANY * 0.95
        cut.heal()
        ear.settimeout(LONG_S)
        mouth.sendto(b"y", ear.getsockname())
        assert ear.recv(1) == b"y"
