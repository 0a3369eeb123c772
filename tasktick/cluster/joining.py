"""From the settings to a ring: where this node gossips, under which keys, and whom it asks first."""

import socket
from functools import partial

from tasktick.cluster.seal import Keyring
from tasktick.cluster.seat import Ring
from tasktick.cluster.transport import Door, Transport, adopt_sockets, open_sockets
from tasktick.errors import ConfigError
from tasktick.settings import NODE_NAME, ClusterConfig, host_and_port


def ring_of(
    cluster: ClusterConfig, node: str, own_key: bytes, bound: tuple[socket.socket, socket.socket] | None = None
) -> Ring | None:
    """The ring that the settings name, if any; on loopback, where it may have no key, `own_key` is it.

    `bound` are the sockets for exchanges and for datagrams, where somebody else has opened them.
    """
    if cluster.gossip is None:
        return None
    if NODE_NAME.fullmatch(node) is None:
        raise ConfigError(
            f"This machine's name {node!r} is no name for a node: give it one of 1 to 64 letters, digits, dots, _ or - "
            "with --node NAME."
        )
    host, port = host_and_port(cluster.gossip, "cluster.gossip")
    return Ring(
        open=partial(_open, host=_numeric(host), port=port) if bound is None else partial(_adopt, bound=bound),
        keyring=Keyring([key.encode() for key in cluster.keys] or [own_key]),
        seeds=tuple(host_and_port(seed, "cluster.join") for seed in cluster.join),
    )


def _numeric(host: str) -> str:
    """The address behind a name: what other nodes are told is never looked up by them."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)[0][4][0])
    except OSError as error:
        raise ConfigError(f"cluster.gossip: {host} is not known here: {error.strerror or error}.") from error


async def _open(door: Door, *, host: str, port: int) -> Transport:
    try:
        return await open_sockets(door, host, port)
    except OSError as error:
        raise ConfigError(
            f"cluster.gossip: {host}:{port} cannot be opened: {error.strerror or error}. Choose another with --gossip."
        ) from error


async def _adopt(door: Door, *, bound: tuple[socket.socket, socket.socket]) -> Transport:
    return await adopt_sockets(door, *bound)
