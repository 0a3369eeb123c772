"""The corpus: every forbidden address in every spelling, at create and at connect, against live canaries.

The canaries listen on 127.0.0.1 and ::1. Whatever is tried, nobody may reach them; the control shows
that they can be reached by who is let through.
"""

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import IPv4Address, IPv6Address

import aiohttp
import pytest

from tasktick.dispatch.connector import RESOLVED_MAX, GuardedResolver, guarded_socket_factory
from tasktick.dispatch.guard import FORBIDDEN, AddressPolicy, ForbiddenAddress, TargetRefused, judge_url
from tests.fakes.receivers import Receiver, honest
from tests.fakes.sending import LOOPBACK, NOTHING_ALLOWED, FakeResolver, request, sending

EVERY_CANARY = ["127.0.0.1", "::1", "::ffff:127.0.0.1"]
FULLWIDTH = str.maketrans("0123456789", "".join(chr(0xFF10 + digit) for digit in range(10)))
CIRCLED = str.maketrans("0123456789", "\u24ea" + "".join(chr(0x2460 + digit) for digit in range(9)))
MATHEMATICAL = str.maketrans("0123456789", "".join(chr(0x1D7CE + digit) for digit in range(10)))


def spellings_of_ipv4(address: IPv4Address) -> Iterator[str]:
    """Hosts that some parser, resolver or gateway takes for this address."""
    number, text = int(address), str(address)
    octets = [number >> shift & 0xFF for shift in (24, 16, 8, 0)]
    yield from (text, f"{text}.", f"{text}..")
    yield from (str(number), hex(number), f"0{number:o}", f"0x{number:08X}", f"{number + (1 << 32)}")
    yield ".".join(map(hex, octets))
    yield ".".join(f"0{octet:o}" for octet in octets)
    yield ".".join(f"{octet:03d}" for octet in octets)
    yield ".".join(f"0000{octet:o}" for octet in octets)
    yield f"{octets[0]}.{number & 0xFFFFFF}"
    yield f"{octets[0]}.{octets[1]}.{number & 0xFFFF}"
    yield f"{octets[0]:#x}.{number & 0xFFFFFF:#o}".replace("0o", "0")
    yield f"{hex(octets[0])}.{octets[1]}.0{octets[2]:o}.{octets[3]}"
    yield ".".join(str(octet + 256) for octet in octets)
    yield from (text.translate(digits) for digits in (FULLWIDTH, CIRCLED, MATHEMATICAL))
    yield from (text.replace(".", dot) for dot in ("\u3002", "\uff0e", "\uff61", "\u2024", "%2e"))
    yield "".join(f"%{ord(character):02x}" for character in text)
    yield from (f"[::ffff:{text}]", f"[0:0:0:0:0:ffff:{text}]", f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]")
    yield from (f"[::{text}]", f"[::ffff:0:{text}]", f"[64:ff9b::{text}]", f"[64:ff9b:1::{text}]")
    yield from (f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::]", f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::1]")
    yield f"[{IPv6Address((0x20010000 << 96) | (number << 64) | (number ^ 0xFFFFFFFF))}]"
    yield from (f"[::ffff:{text}%25lo]", f"[::ffff:{text}%lo]", f"[::ffff:{text}%1]")
    yield from (f"user@{text}", f"8.8.8.8@{text}", f"8.8.8.8\\@{text}", f"{text}\\.example", f"8.8.8.8%40{text}")
    yield from (f"\u200b{text}", f"{text}\u200b", f" {text}", f"{text}\t", f"{text}\x00.example", f"{text}\u00ad")


def spellings_of_ipv6(address: IPv6Address) -> Iterator[str]:
    """Hosts that may be taken for this address."""
    yield from (f"[{address}]", f"[{address.exploded}]", f"[{address.exploded.upper()}]")
    yield from (f"[{address}%25lo]", f"[{address}%lo]", f"[{address}%1]", f"[{address}%25]")
    yield from (f"[{address}].", f"user@[{address}]", f"[v6.{address}]", f"{address}")


NAMES_OF_LOOPBACK = [
    "localhost", "LOCALHOST", "LocalHost", "localhost.", "a.localhost", "a.b.localhost.",
    "\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54", "localho\u017ft",
    "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3",
]  # fmt: skip

LITERALS = [
    spelling
    for address in ("127.0.0.1", "0.0.0.0", "127.255.255.254", "169.254.169.254", "168.63.129.16", "10.0.0.1")
    for spelling in spellings_of_ipv4(IPv4Address(address))
] + [
    spelling
    for address in ("::1", "::", "fd00:ec2::254", "fe80::1", "ff02::1", "fec0::1")
    for spelling in spellings_of_ipv6(IPv6Address(address))
]
EDGES = sorted(
    {str(network[at]) for network, _ in FORBIDDEN for at in (0, network.num_addresses // 2, network.num_addresses - 1)}
)


@asynccontextmanager
async def canaries() -> AsyncIterator[list[Receiver]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Receiver(honest, host)) for host in ("127.0.0.1", "::1")]


def untouched(receivers: list[Receiver]) -> bool:
    return all(receiver.connections == 0 for receiver in receivers)


@pytest.mark.parametrize("host", LITERALS + NAMES_OF_LOOPBACK, ids=ascii)
def test_every_spelling_is_refused_when_a_task_is_made(host: str) -> None:
    for url in (f"http://{host}/", f"https://{host}:8443/x?y"):
        with pytest.raises(TargetRefused):
            judge_url(url, NOTHING_ALLOWED)


@pytest.mark.parametrize("address", EDGES)
def test_the_edges_of_every_range_are_refused_when_a_task_is_made(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(TargetRefused) as refused:
        judge_url(f"http://{host}/", NOTHING_ALLOWED)
    assert refused.value.code == "target_forbidden"


@pytest.mark.usefixtures("each_sender")
async def test_no_spelling_connects() -> None:
    """As if nothing had been judged before, and with a resolver that leads every name to a canary."""
    resolver = FakeResolver(otherwise=EVERY_CANARY)
    async with canaries() as receivers, sending(NOTHING_ALLOWED, resolver) as sender:
        for host in LITERALS + NAMES_OF_LOOPBACK:
            for receiver in receivers:
                outcome = await sender.send(request(f"http://{host}:{receiver.port}/hook"))
                assert outcome.status is None
                assert outcome.error_code in {"forbidden_address", "bad_target"}, (host, outcome)
                assert not outcome.byte_left
        assert untouched(receivers)
    assert resolver.asked  # some spellings are names to the connector, and got that far


@pytest.mark.usefixtures("each_sender")
async def test_no_forbidden_literal_connects() -> None:
    async with canaries() as receivers, sending(NOTHING_ALLOWED) as sender:
        for address in [*EDGES, "127.0.0.1", "::1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe"]:
            host = f"[{address}]" if ":" in address else address
            outcome = await sender.send(request(f"http://{host}:{receivers[0].port}/hook"))
            assert (outcome.error_code, outcome.error_class) == ("forbidden_address", "policy"), address
            assert not outcome.byte_left
        assert untouched(receivers)


@pytest.mark.usefixtures("each_sender")
async def test_no_name_of_a_forbidden_address_connects() -> None:
    forbidden = [*EDGES, *EVERY_CANARY]
    resolver = FakeResolver({f"n{index}.example": [address] for index, address in enumerate(forbidden)})
    resolver.known["all.example"] = forbidden
    async with canaries() as receivers, sending(NOTHING_ALLOWED, resolver) as sender:
        for name in list(resolver.known):
            outcome = await sender.send(request(f"http://{name}:{receivers[0].port}/hook"))
            assert (outcome.error_code, outcome.byte_left) == ("forbidden_address", False)
            assert all(address not in outcome.detail for address in EVERY_CANARY)
        assert untouched(receivers)


async def test_the_socket_factory_alone_refuses_what_a_name_leads_to() -> None:
    """Without the resolver that drops forbidden addresses early: the guard is at the socket."""
    resolver = FakeResolver({"one.example": ["127.0.0.1"], "all.example": EVERY_CANARY})
    async with canaries() as receivers:
        connector = aiohttp.TCPConnector(socket_factory=guarded_socket_factory(NOTHING_ALLOWED), resolver=resolver)
        async with aiohttp.ClientSession(connector=connector) as session:
            for host in ("one.example", "all.example", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"):
                with pytest.raises(aiohttp.ClientConnectorError) as refused:
                    await session.get(f"http://{host}:{receivers[0].port}/")
                assert isinstance(refused.value.os_error, ForbiddenAddress)
        assert untouched(receivers)


@pytest.mark.parametrize("address", ["fe80::1", "2606:4700::1111"])
def test_the_socket_factory_refuses_a_zone(address: str) -> None:
    factory = guarded_socket_factory(AddressPolicy.of(["::/0"]))
    with pytest.raises(ForbiddenAddress):
        factory((socket.AF_INET6, socket.SOCK_STREAM, 0, "", (address, 80, 0, 1)))


@pytest.mark.usefixtures("each_sender")
async def test_control_the_canaries_are_reached_by_who_is_let_through() -> None:
    resolver = FakeResolver({"v4.example": ["127.0.0.1"], "v6.example": ["::1"]})
    async with canaries() as (v4, v6), sending(LOOPBACK, resolver) as sender:
        for url in (
            f"http://127.0.0.1:{v4.port}/", f"http://v4.example:{v4.port}/", f"http://[::ffff:127.0.0.1]:{v4.port}/",
            f"http://[::1]:{v6.port}/", f"http://v6.example:{v6.port}/",
        ):  # fmt: skip
            judge_url(url, LOOPBACK)
            outcome = await sender.send(request(url))
            assert (outcome.status, outcome.body, outcome.byte_left) == (200, b"ok", True), outcome
        assert (len(v4.hits), len(v6.hits)) == (3, 2)


@pytest.mark.usefixtures("each_sender")
async def test_of_a_mixed_answer_only_the_permitted_address_is_dialled() -> None:
    policy = AddressPolicy.of(["127.0.0.0/8"])
    resolver = FakeResolver({"mixed.example": ["::1", "10.0.0.1", "127.0.0.1", "169.254.169.254"]})
    async with canaries() as (v4, v6), sending(policy, resolver) as sender:
        outcome = await sender.send(request(f"http://mixed.example:{v4.port}/"))
        assert outcome.status == 200
        assert v6.connections == 0


@pytest.mark.usefixtures("each_sender")
async def test_a_name_that_turns_to_a_forbidden_address_is_refused_then() -> None:
    policy = AddressPolicy.of(["127.0.0.0/8"])
    resolver = FakeResolver({"turning.example": ["127.0.0.1"]})
    async with canaries() as (v4, v6), sending(policy, resolver, dns_cache_ms=0, keepalive_ms=0) as sender:
        assert (await sender.send(request(f"http://turning.example:{v4.port}/"))).status == 200
        resolver.known["turning.example"] = ["::1"]
        outcome = await sender.send(request(f"http://turning.example:{v4.port}/"))
        assert outcome.error_code == "forbidden_address"
        assert v6.connections == 0


@pytest.mark.usefixtures("each_sender")
@pytest.mark.parametrize("listen", ["same", "0.0.0.0", "::"])
async def test_the_daemons_own_endpoints_are_refused_at_connect(listen: str) -> None:
    resolver = FakeResolver(otherwise=EVERY_CANARY)
    async with canaries() as receivers:
        own = [(receiver.host if listen == "same" else listen, receiver.port) for receiver in receivers]
        policy = AddressPolicy.of(["0.0.0.0/0", "::/0"], own)
        async with sending(policy, resolver) as sender:
            for receiver, hosts in zip(
                receivers, (["127.0.0.1", "0.0.0.0", "[::ffff:127.0.0.1]"], ["[::1]", "[::]"]), strict=True
            ):
                for host in hosts:
                    outcome = await sender.send(request(f"http://{host}:{receiver.port}/"))
                    assert outcome.error_code == "forbidden_address", (host, outcome)
                await sender.send(request(f"http://name.example:{receiver.port}/"))
        assert untouched(receivers)


def test_listening_everywhere_refuses_this_machines_other_addresses_too() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("10.255.255.1", 9))  # sends nothing; says which address would
        except OSError:
            pytest.skip("this machine has no address but loopback")
        own = probe.getsockname()[0]
    factory = guarded_socket_factory(AddressPolicy.of(["0.0.0.0/0"], [("::", 8080)]))
    for address in (own, "127.0.0.5"):
        with pytest.raises(ForbiddenAddress):
            factory((socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 8080)))
    for endpoint in ((own, 8081), ("10.255.255.1", 8080)):
        factory((socket.AF_INET, socket.SOCK_STREAM, 0, "", endpoint)).close()


async def test_the_resolver_keeps_the_first_few_permitted_addresses() -> None:
    public = [f"8.8.8.{n}" for n in range(9)]
    known = {"mixed.example": ["::1", *public], "forbidden.example": ["127.0.0.1", "::1"]}
    resolver = GuardedResolver(FakeResolver(known), NOTHING_ALLOWED)
    assert [found["host"] for found in await resolver.resolve("mixed.example")] == public[:RESOLVED_MAX]
    with pytest.raises(ForbiddenAddress):
        await resolver.resolve("forbidden.example")


@pytest.mark.usefixtures("each_sender")
async def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with canaries() as (v4, v6):
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, v6.url)
            monkeypatch.setenv(name.upper(), v6.url)
        async with sending(AddressPolicy.of(["127.0.0.0/8"])) as sender:
            assert (await sender.send(request(v4.url))).status == 200
        assert os.environ["http_proxy"] == v6.url
        assert v6.connections == 0
