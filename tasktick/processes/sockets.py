"""Sockets that are bound before there is anybody to use them, and handed down by their descriptors."""

import errno
import os
import socket

import msgspec

from tasktick.errors import ConfigError
from tasktick.settings import Config, host_and_port

LISTEN_ADVICE = {
    errno.EADDRINUSE: "Another process has it: choose another with --listen HOST:PORT.",
    errno.EADDRNOTAVAIL: "This machine has no such address.",
    errno.EACCES: "Ports below 1024 are the system's: choose another with --listen HOST:PORT.",
}
BACKLOG = 1_024
GOSSIP_BACKLOG = 16
GOSSIP_TRIES = 8
PORT_MOST = 65_535


def bind(config: Config) -> socket.socket:
    """Take the address before anything is sent: no task may call it, whatever networks are allowed."""
    host, port = host_and_port(config.server.listen)
    door = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        door = socket.socket(family, kind, protocol)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(address)
    except OSError as error:
        if door is not None:
            door.close()
        raise ConfigError(
            f"server.listen: {config.server.listen} cannot be listened on: {error.strerror or error}. "
            + LISTEN_ADVICE.get(error.errno or 0, "Choose another with --listen HOST:PORT.")
        ) from error
    door.setblocking(False)
    return door


def url_of(door: socket.socket) -> str:
    """Where clients reach what listens there."""
    host, port = door.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class GossipPair(msgspec.Struct, frozen=True):
    """One port of a node's gossip: exchanges over TCP, datagrams over UDP."""

    exchanges: socket.socket
    datagrams: socket.socket

    @property
    def address(self) -> str:
        """As a setting names it."""
        host, port = self.exchanges.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def descriptors(self) -> tuple[int, int]:
        """What is handed down."""
        return (self.exchanges.fileno(), self.datagrams.fileno())

    def close(self) -> None:
        """Give both back."""
        self.exchanges.close()
        self.datagrams.close()


def open_gossip(host: str, port: int) -> GossipPair:
    """Bind one port for both; with 0, one that is free for both."""
    tries = GOSSIP_TRIES if port == 0 else 1
    for left in reversed(range(tries)):
        exchanges = socket.create_server((host, port), family=_family(host), backlog=GOSSIP_BACKLOG)
        datagrams = socket.socket(_family(host), socket.SOCK_DGRAM)
        try:
            datagrams.bind((host, exchanges.getsockname()[1]))
        except OSError:
            exchanges.close()
            datagrams.close()
            if not left:
                raise
            continue
        exchanges.setblocking(False)
        datagrams.setblocking(False)
        return GossipPair(exchanges, datagrams)
    raise AssertionError("the last try raises")


def open_all_gossip(config: Config) -> list[GossipPair]:
    """A port for each process: from the one that is set upwards, or on loopback those that the system gives."""
    host, first = host_and_port(config.cluster.gossip or "127.0.0.1:0", "cluster.gossip")
    found: list[GossipPair] = []
    for number in range(config.server.processes):
        port = first + number if first else 0
        try:
            if port > PORT_MOST:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            found.append(open_gossip(host, port))
        except OSError as error:
            for pair in found:
                pair.close()
            raise ConfigError(
                f"cluster.gossip: {host}:{port}, the port of process {number + 1}, cannot be opened: "
                f"{error.strerror or error}. Choose another with --gossip: each process takes the next port."
            ) from error
    return found


def adopt(descriptor: int) -> socket.socket:
    """A socket that was handed down, for this process alone."""
    os.set_inheritable(descriptor, False)
    found = socket.socket(fileno=descriptor)
    found.setblocking(False)
    return found


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
