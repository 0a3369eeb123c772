"""Machines that are none: network namespaces around a router, every packet between two of them passes it, or does not.

A host has a namespace with one interface, whose other end is the router's. The router drops by its routing rules,
which the kernel asks for each packet: by source, destination and protocol, in one direction. A packet is dropped
without a word (`blackhole`) or with one (`prohibit`). Loss is a filter of a few instructions at a host's line.

The namespaces have no names. They are held by this process and by those that run in them, so that nothing is left when
these are gone, however they went. Nothing outside of them is touched.

Needs root, `ip`, `nsenter` and `setpriv`; no packet filter. `trouble` says what is missing.
"""

import ctypes
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeVar

T = TypeVar("T")
# Before a command: it does not outlive this process, however that ends.
WITH_US = ("setpriv", "--pdeathsig", "KILL")
How = Literal["blackhole", "prohibit"]
Protocol = Literal["udp", "tcp"]

NEW_NETWORK = 0x4000_0000
TOOLS = ("ip", "nsenter", "setpriv")
OWN_NETWORK = "/proc/thread-self/ns/net"
ALL_ADDRESSES = "10.231.0.0/16"
# tc: a random number of 32 bits; from a bound on, drop (2), else let it pass (0).
LOSS = "4,32 0 0 4294963256,53 0 1 {bound},6 0 0 2,6 0 0 0"
RULES_FROM = 100
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _enter(number: int) -> None:
    _check(_libc.setns(number, NEW_NETWORK), "setns")


def _tool(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")


class Namespace:
    """A network of its own, and a thread that lives in it: what it starts and opens is there."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="namespace")
        try:
            self._number = self._thread.submit(self._make).result()
        except BaseException:
            self._thread.shutdown()
            raise

    def _make(self) -> int:
        _check(_libc.unshare(NEW_NETWORK), "unshare")
        number = os.open(OWN_NETWORK, os.O_RDONLY | os.O_CLOEXEC)
        _tool("ip", "link", "set", "lo", "up")
        return number

    @property
    def path(self) -> str:
        """Where the kernel shows it, as long as this process lives."""
        return f"/proc/{os.getpid()}/fd/{self._number}"

    @property
    def prefix(self) -> tuple[str, ...]:
        """Before a command: run it here, and let it not outlive this process."""
        return "nsenter", f"--net={self.path}", *WITH_US

    def run(self, work: Callable[[], T]) -> T:
        """Run something here, and wait for it."""
        return self._thread.submit(work).result()

    def tool(self, *command: str) -> None:
        """Run a program here; it must succeed."""
        self.run(lambda: _tool(*command))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This very thread is here for as long as the block lasts."""
        before = os.open(OWN_NETWORK, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter(self._number)
            yield
        finally:
            _enter(before)
            os.close(before)

    def close(self) -> None:
        """Let go of it; it is gone with the last process in it."""
        self._thread.shutdown()
        os.close(self._number)


class Host:
    """A namespace with an address."""

    def __init__(self, name: str, address: str, namespace: Namespace, interface: str) -> None:
        self.name = name
        self.address = address
        self.namespace = namespace
        self.interface = interface

    def listening(self) -> socket.socket:
        """A socket that listens here, on a port that is free."""
        return self.namespace.run(lambda: socket.create_server((self.address, 0)))


class Cut:
    """What is cut; it can be mended."""

    def __init__(self, undo: list[Callable[[], None]]) -> None:
        self._undo = undo

    def heal(self) -> None:
        """Let packets pass again."""
        while self._undo:
            self._undo.pop()()


class Network:
    """The router, and the hosts around it."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self._numbers = count(1)
        self._rules = count(RULES_FROM)
        self._router = Namespace()
        try:
            self._router.run(lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("1"))
        except BaseException:
            self._router.close()
            raise

    def __enter__(self) -> "Network":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in self.hosts.values():
            host.namespace.close()
        self._router.close()

    def host(self, name: str) -> Host:
        """One more, with a line of its own to the router."""
        number = next(self._numbers)
        near, far, interface = f"10.231.{number}.1", f"10.231.{number}.2", f"to{number}"
        namespace = Namespace()
        self.hosts[name] = Host(name, far, namespace, interface)
        link = ("type", "veth", "peer", "name", "eth0", "netns", namespace.path)
        self._router.tool("ip", "link", "add", interface, *link)
        self._router.tool("ip", "address", "add", f"{near}/30", "dev", interface)
        self._router.tool("ip", "link", "set", interface, "up")
        namespace.tool("ip", "address", "add", f"{far}/30", "dev", "eth0")
        namespace.tool("ip", "link", "set", "eth0", "up")
        namespace.tool("ip", "route", "add", "default", "via", near)
        return self.hosts[name]

    def one_way(
        self, source: Host | None, target: Host | None, protocol: Protocol | None = None, how: How = "blackhole"
    ) -> Cut:
        """Let nothing pass from one host to another; None is any."""
        number = str(next(self._rules))
        rule = ["pref", number]
        rule += [] if source is None else ["from", source.address]
        rule += [] if target is None else ["to", target.address]
        rule += [] if protocol is None else ["ipproto", protocol]
        self._router.tool("ip", "rule", "add", *rule, how)
        return Cut([lambda: self._router.tool("ip", "rule", "del", "pref", number)])

    def both_ways(self, one: Host, other: Host, protocol: Protocol | None = None, how: How = "blackhole") -> Cut:
        """Let nothing pass between two hosts."""
        cuts = [self.one_way(one, other, protocol, how), self.one_way(other, one, protocol, how)]
        return Cut([cut.heal for cut in cuts])

    def loss(self, host: Host, share: float) -> Cut:
        """Drop this share of a host's packets, in both directions, by lot."""
        line = ("dev", host.interface)
        program = LOSS.format(bound=int((1.0 - share) * 0xFFFF_FFFF))
        undo: list[Callable[[], None]] = [lambda: self._router.tool("tc", "qdisc", "del", *line, "clsact")]
        self._router.tool("tc", "qdisc", "add", *line, "clsact")
        try:
            for direction in ("ingress", "egress"):
                self._router.tool("tc", "filter", "add", *line, direction, "bpf", "da", "bytecode", program)
        except OSError:
            Cut(undo).heal()
            raise
        return Cut(undo)


@cache
def trouble() -> str | None:
    """Why there can be no such network here; None if there can."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"there is no {', '.join(missing)} here (Debian: iproute2, util-linux)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with Network() as network:
            network.both_ways(network.host("one"), network.host("other"), "udp").heal()
    except OSError as error:
        return f"network namespaces are not allowed here: {error}"
    return None


@cache
def loss_trouble() -> str | None:
    """Why packets cannot be lost by lot here; None if they can."""
    if shutil.which("tc") is None:
        return "there is no tc here (Debian: iproute2)"
    try:
        with Network() as network:
            network.loss(network.host("one"), 0.5).heal()
    except OSError as error:
        return f"packets cannot be lost by lot on this kernel: {error}"
    return None
