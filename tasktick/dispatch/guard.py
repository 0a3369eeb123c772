"""The address guard: which addresses and URLs a task may call. Pure: it resolves and opens nothing.

`classify` judges one numeric address, and is asked for every address that is about to be dialled.
`judge_url` refuses early, when a task is made, what can be refused without asking the DNS. It reads a
URL with the parser that the connector uses (yarl), so what is judged is what is dialled; checks on the
raw text come on top and only ever refuse more.

The table is our own rather than ssrfguard's. That one decodes NAT64, 6to4, Teredo and IPv4-compatible
addresses and lets through what leads to a public address, where we forbid those ranges whole; it lets
some IANA anycast blocks through, and it lacks IPv4-translated addresses (::ffff:0:0:0/96) and Azure's
168.63.129.16. A test holds ours to be a superset of it.
"""

import re
from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

import msgspec
from yarl import URL

from tasktick.errors import Refused

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network
Endpoint: TypeAlias = tuple[Address, int]

URL_CHARS_MAX = 2_048
HOST_CHARS_MAX = 253
PORT_MAX = 65_535
PORT_DIGITS_MAX = 5
PORT_FAULT = f"The URL's port must be from 1 to {PORT_MAX}."

_FORBIDDEN_RANGES: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "this host"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "carrier-grade NAT"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "Azure's host"),
    ("169.254.0.0/16", "link-local, cloud metadata"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "IETF protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::1/128", "loopback"),
    ("::/96", "unspecified or IPv4-compatible"),
    ("::ffff:0:0:0/96", "IPv4-translated"),
    ("64:ff9b::/96", "NAT64"),
    ("64:ff9b:1::/48", "local NAT64"),
    ("100::/64", "discard"),
    ("100:0:0:1::/64", "dummy prefix"),
    ("2001::/23", "IETF protocol assignments, Teredo"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "unique local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
FORBIDDEN: tuple[tuple[Network, str], ...] = tuple((ip_network(cidr), name) for cidr, name in _FORBIDDEN_RANGES)

# Ranges that carry an IPv4 address, and by how many bits it is shifted: where an operator lets one of
# them through, that does not let through what it carries.
_CARRIERS: tuple[tuple[IPv6Network, int], ...] = (
    (IPv6Network("::/96"), 0),
    (IPv6Network("::ffff:0:0:0/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
)
_TEREDO = IPv6Network("2001::/32")
_LOOPBACKS = (IPv4Address("127.0.0.1"), IPv6Address("::1"))

# Control characters, every kind of space, zero-width and bidirectional marks, surrogates, backslash.
_UNSAFE = re.compile(
    "[\\x00-\\x20\\x7f-\\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ud800-\udfff\\\\]"
)
_SHAPE = re.compile(r"(?:http|https)://([^/?#]*)", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^:\[\]@%]+)(?::([0-9]+))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")


class ForbiddenAddress(OSError):
    """The address that was about to be dialled is one that policy forbids; nothing was sent.

    Its text is the same for every address, so that what a private name resolves to is not told to
    whoever made the task.
    """

    def __init__(self) -> None:
        super().__init__("The target's address is one that tasks may not call.")


class TargetRefused(Refused):
    """A URL that no task may have: `validation_failed` if it is malformed, else `target_forbidden`."""


class AddressPolicy(msgspec.Struct, frozen=True, cache_hash=True):
    """What the operator has decided: ranges let through, and endpoints refused whatever the range.

    The refused endpoints are the daemon's own (listening sockets, its database). One at `0.0.0.0` or
    `::` stands for every address of this machine at that port.
    """

    allowed_networks: tuple[Network, ...] = ()
    refused_endpoints: frozenset[Endpoint] = frozenset()

    @classmethod
    def of(cls, allowed: Iterable[str] = (), refused: Iterable[tuple[str, int]] = ()) -> "AddressPolicy":
        """A policy from text; raises ValueError at what is no network or address."""
        return cls(
            tuple(ip_network(cidr) for cidr in allowed),
            frozenset((_unwrapped(ip_address(address)), port) for address, port in refused),
        )

    def wildcard_ports(self) -> frozenset[int]:
        """Ports that are refused at every address of this machine."""
        return frozenset(port for address, port in self.refused_endpoints if address.is_unspecified)

    def refuses(self, address: Address, port: int) -> bool:
        """Whether this is one of the daemon's own endpoints, as far as the address alone tells."""
        return any(
            own_port == port
            and (own == address or address.is_unspecified or (own.is_unspecified and address.is_loopback))
            for own, own_port in self.refused_endpoints
        )


class Verdict(msgspec.Struct, frozen=True):
    """Whether an address may be called; if not, why."""

    permitted: bool
    reason: str = ""


class ParsedTarget(msgspec.Struct, frozen=True):
    """A URL that passed, as it will be dialled. `address` is set where the host is a literal."""

    scheme: str
    host: str
    port: int
    address: Address | None = None


_PERMITTED = Verdict(permitted=True)


def classify(address: str | Address, policy: AddressPolicy, port: int | None = None) -> Verdict:
    """Judge a numeric address, at a port where that is known. What cannot be read is refused."""
    if isinstance(address, str):
        try:
            address = ip_address(address)
        except ValueError:
            return Verdict(permitted=False, reason="not a numeric address")
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return Verdict(permitted=False, reason="an address with a zone")
    address = _unwrapped(address)
    if port is not None and policy.refuses(address, port):
        return Verdict(permitted=False, reason="the scheduler's own endpoint")
    reason = next((name for network, name in FORBIDDEN if address in network), None)
    if reason is None:
        return _PERMITTED
    if not any(address in network for network in policy.allowed_networks):
        return Verdict(permitted=False, reason=reason)
    for carried in _carried(address):
        verdict = classify(carried, policy, port)
        if not verdict.permitted:
            return verdict
    return _PERMITTED


def judge_url(url: str, policy: AddressPolicy) -> ParsedTarget:
    """Refuse a URL that can be refused without resolving its name."""
    parsed, bracketed = _parse(url)
    host, port = parsed.raw_host or "", parsed.port or 0
    if not 1 <= port <= PORT_MAX:
        raise TargetRefused("validation_failed", PORT_FAULT)
    address = _literal(host, bracketed=bracketed)
    if address is None:
        _judge_name(host, policy)
    else:
        verdict = classify(address, policy, port)
        if not verdict.permitted:
            raise TargetRefused(
                "target_forbidden",
                f"Tasks may not call {address} ({verdict.reason}). An operator can let a network "
                "through with --allow-network.",
            )
    return ParsedTarget(scheme=parsed.scheme, host=host, port=port, address=address)


def _parse(url: str) -> tuple[URL, bool]:
    """The URL as the connector reads it, and whether its host stands in brackets."""
    if len(url) > URL_CHARS_MAX:
        raise TargetRefused("validation_failed", f"A URL has at most {URL_CHARS_MAX} characters.")
    if _UNSAFE.search(url):
        raise TargetRefused("validation_failed", "A URL has no spaces, control characters or backslashes.")
    shape = _SHAPE.match(url)
    if shape is None:
        raise TargetRefused("validation_failed", "A URL begins with http:// or https:// and a host.")
    authority = shape[1]
    _check_authority(authority)
    if "#" in url:
        raise TargetRefused("validation_failed", "A URL has no fragment: it would never be sent.")
    try:
        parsed = URL(url)
    except ValueError:  # yarl, idna and urllib all raise it or a child of it
        raise TargetRefused("validation_failed", "The URL is malformed.") from None
    if parsed.raw_user is not None or parsed.raw_password is not None or parsed.raw_fragment:
        raise TargetRefused("validation_failed", "A URL carries no user, password or fragment.")
    if len(str(parsed)) > URL_CHARS_MAX:
        raise TargetRefused("validation_failed", f"A URL has at most {URL_CHARS_MAX} characters once encoded.")
    return parsed, authority.startswith("[")


def _check_authority(authority: str) -> None:
    if "@" in authority:
        raise TargetRefused("validation_failed", "A URL carries no user or password; use a header.")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise TargetRefused("validation_failed", "The URL's host or port is malformed.")
    if parts[1] is not None and (len(parts[1]) > PORT_DIGITS_MAX or int(parts[1]) > PORT_MAX):
        raise TargetRefused("validation_failed", PORT_FAULT)  # yarl would only say that it cannot read it


def _literal(host: str, *, bracketed: bool) -> Address | None:
    """The address that the host spells, None if it is a name. Only the usual spelling is taken.

    A last label that is a number makes a host an address for `inet_aton`, browsers and most resolvers:
    2130706433, 0x7f.1, 0177.0.0.1 and 127.1 are all 127.0.0.1. Whoever means an address can write it.
    """
    if bracketed or ":" in host:
        try:
            return IPv6Address(host)
        except ValueError:
            raise TargetRefused("validation_failed", "The URL's host is no IPv6 address.") from None
    last_label = host.removesuffix(".").rpartition(".")[2]
    if _NUMERIC_LABEL.fullmatch(last_label) is None:
        return None
    try:
        return IPv4Address(host)
    except ValueError:
        raise TargetRefused(
            "target_forbidden", "An IPv4 address is written as four decimal numbers, without leading zeros."
        ) from None


def _judge_name(host: str, policy: AddressPolicy) -> None:
    name = host.removesuffix(".")
    labels = name.split(".")
    if len(name) > HOST_CHARS_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise TargetRefused("validation_failed", "The URL's host is no valid name.")
    if labels[-1] == "localhost" and not any(classify(own, policy).permitted for own in _LOOPBACKS):
        raise TargetRefused(
            "target_forbidden",
            "Tasks may not call this machine. An operator can allow that with --allow-network 127.0.0.0/8.",
        )


def _unwrapped(address: Address) -> Address:
    """The IPv4 address inside an IPv4-mapped one: the kernel dials that."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _carried(address: Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that a translated or tunnelled address leads to."""
    if not isinstance(address, IPv6Address) or address.is_loopback or address.is_unspecified:
        return ()
    if address in _TEREDO:  # the server, and the client with its bits inverted (RFC 4380)
        return IPv4Address((int(address) >> 64) & 0xFFFFFFFF), IPv4Address(~int(address) & 0xFFFFFFFF)
    return tuple(
        IPv4Address((int(address) >> shift) & 0xFFFFFFFF) for network, shift in _CARRIERS if address in network
    )
