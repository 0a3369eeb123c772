"""One suite for the sockets and for their twin in memory, and what only sockets can suffer."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from tasktick.cluster import transport as transport_module
from tasktick.cluster.messages import Address, Entry, Node, Ping, Standing, State, encode
from tasktick.cluster.seal import DATAGRAM_BYTES_MAX, Dropped, Keyring, Opened, Seal
from tasktick.cluster.transport import (
    SERVED_MAX,
    STATE_BYTES_MAX,
    STRANGER_TIMEOUT_MS,
    STRANGERS_PER_ADDRESS_MAX,
    Door,
    SocketTransport,
    Transport,
    adopt_sockets,
    open_sockets,
)
from tasktick.processes.sockets import open_gossip
from tests.fakes.gossip_network import MemoryNetwork

KEY, OTHER_KEY = b"the key of this ring", b"the key of another one"
PING = (encode(Ping(1)),)


class Heard:
    """A listener that keeps what it is told."""

    def __init__(self, number: int) -> None:
        self.incarnation = f"{number:016x}"
        self.datagrams: asyncio.Queue[Opened] = asyncio.Queue()
        self.states: list[State] = []
        self.events: Counter[str] = Counter()

    def received(self, opened: Opened, source: Address) -> None:
        assert source[0] == "127.0.0.1"
        self.datagrams.put_nowait(opened)

    def merge(self, state: State) -> None:
        self.states.append(state)

    def state(self) -> State:
        node = Node(self.incarnation, f"node-{self.incarnation[-1]}", "127.0.0.1", 1)
        return State((Entry(node, 1, Standing.ALIVE),))

    async def next(self) -> Opened:
        """The next datagram that counts."""
        async with asyncio.timeout(5):
            return await self.datagrams.get()


class End:
    """A transport, what it hears, and a way to throw bytes at it."""

    def __init__(self, heard: Heard, transport: Transport, throw: Callable[[Address, bytes], None]) -> None:
        self.heard = heard
        self.transport = transport
        self.throw = throw
        self.address = transport.address
        self.incarnation = heard.incarnation


Opener = Callable[..., Awaitable[End]]


@pytest.fixture(params=["sockets", "handed_down", "memory"])
async def opener(request: pytest.FixtureRequest) -> AsyncIterator[Opener]:
    """Opens ends of one kind, and closes them in the end."""
    network = MemoryNetwork()
    ends: list[End] = []
    thrower = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def throw(to: Address, datagram: bytes) -> None:
        if request.param == "memory":
            network.throw(to, datagram)
        else:
            thrower.sendto(datagram, to)

    async def open_end(number: int, *keys: bytes) -> End:
        heard = Heard(number)
        door = Door(Seal(Keyring(keys or (KEY,)), heard.incarnation), heard.events, heard)
        opened: Transport
        match request.param:
            case "sockets":
                opened = await open_sockets(door)
            case "handed_down":
                pair = open_gossip("127.0.0.1", 0)
                opened = await adopt_sockets(door, pair.exchanges, pair.datagrams)
            case _:
                opened = network.open(door)
        ends.append(End(heard, opened, throw))
        return ends[-1]

    yield open_end
    thrower.close()
    for end in ends:
        await end.transport.close()


async def test_a_datagram_arrives(opener: Opener) -> None:
    first, second = await opener(1), await opener(2)
    first.transport.send(second.address, second.incarnation, PING)
    opened = await second.heard.next()
    assert (opened.sender, [bytes(raw) for raw in opened.messages]) == (first.incarnation, list(PING))


async def test_what_does_not_count_is_counted_and_what_comes_after_still_arrives(opener: Opener) -> None:
    first, second, stranger = await opener(1), await opener(2), await opener(3, OTHER_KEY)
    good = Seal(Keyring([KEY]), "f" * 16).close(second.incarnation, PING)
    bad = [
        b"",
        b"\x01",
        b"\x02" + good[1:],
        good[:-1] + b"?",
        good,
        good,
        bytes(DATAGRAM_BYTES_MAX + 1),
        Keyring([KEY]).sign(b"datagram", b"\xc1"),
        Seal(Keyring([KEY]), "f" * 16).close("e" * 16, PING),
    ]
    for datagram in bad:
        second.throw(second.address, datagram)
    stranger.transport.send(second.address, second.incarnation, PING)
    assert (await second.heard.next()).sender == "f" * 16
    first.transport.send(second.address, second.incarnation, PING)
    assert (await second.heard.next()).sender == first.incarnation
    assert second.heard.events == {
        Dropped.MALFORMED: 3,
        Dropped.VERSION: 1,
        Dropped.UNAUTHENTICATED: 2,
        Dropped.REPLAYED: 1,
        Dropped.OVERSIZED: 1,
        Dropped.MISADDRESSED: 1,
    }


async def test_states_are_exchanged(opener: Opener) -> None:
    first, second = await opener(1), await opener(2)
    assert await first.transport.exchange(second.address)
    assert first.heard.states == [second.heard.state()]
    assert second.heard.states == [first.heard.state()]


async def test_an_exchange_under_another_key_changes_nothing(opener: Opener) -> None:
    first, second = await opener(1), await opener(2, OTHER_KEY)
    assert not await first.transport.exchange(second.address)
    assert (first.heard.states, second.heard.states) == ([], [])
    assert second.heard.events[Dropped.UNAUTHENTICATED] == 1


async def test_an_exchange_while_keys_rotate(opener: Opener) -> None:
    first, second = await opener(1, KEY, OTHER_KEY), await opener(2, OTHER_KEY, KEY)
    assert await first.transport.exchange(second.address)


async def test_an_exchange_with_oneself_is_none(opener: Opener) -> None:
    first = await opener(1)
    assert not await first.transport.exchange(first.address)
    assert first.heard.states == []


async def test_an_exchange_with_nobody_fails(opener: Opener) -> None:
    first, second = await opener(1), await opener(2)
    await second.transport.close()
    assert not await first.transport.exchange(second.address)


async def test_after_its_end_it_says_nothing_and_raises_nothing(opener: Opener) -> None:
    first, second = await opener(1), await opener(2)
    await first.transport.close()
    first.transport.send(second.address, second.incarnation, PING)
    assert first.heard.events[Dropped.UNSENT] == 1


def test_an_exchange_cannot_be_replayed_to_either_side() -> None:
    doors = [Door(Seal(Keyring([KEY]), heard.incarnation), heard.events, heard) for heard in (Heard(1), Heard(2))]
    client, server = doors
    hello = server.hello()
    push = client.push(hello)
    assert push is not None
    pull = server.pull(hello, push)
    assert pull is not None
    assert client.finish(hello, push, pull)
    assert server.pull(server.hello(), push) is None
    later = server.hello()
    again = client.push(later)
    assert again is not None
    assert not client.finish(later, again, pull)
    assert not client.finish(hello, push, push[16:])


# ------------------------------------------------------------------------------- sockets alone


@pytest.fixture
async def served() -> AsyncIterator[tuple[SocketTransport, Heard]]:
    """A real end."""
    heard = Heard(1)
    transport = await open_sockets(Door(Seal(Keyring([KEY]), heard.incarnation), heard.events, heard))
    yield transport, heard
    await transport.close()


async def _say(to: Address, data: bytes) -> bytes:
    """What a stranger hears who says this and no more."""
    reader, writer = await asyncio.open_connection(*to)
    writer.write(data)
    writer.write_eof()
    async with asyncio.timeout(5):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    ("data", "counted"),
    [
        (b"", Dropped.MALFORMED),
        (b"GET / HTTP/1.1\r\n\r\n", Dropped.OVERSIZED),
        ((STATE_BYTES_MAX + 1).to_bytes(4, "big"), Dropped.OVERSIZED),
        ((100).to_bytes(4, "big") + b"too short", Dropped.MALFORMED),
        ((0).to_bytes(4, "big"), Dropped.MALFORMED),
        ((60).to_bytes(4, "big") + b"\x01" * 60, Dropped.UNAUTHENTICATED),
    ],
)
async def test_a_connection_that_says_nonsense_is_closed(
    served: tuple[SocketTransport, Heard], data: bytes, counted: Dropped
) -> None:
    transport, heard = served
    hello = await _say(transport.address, data)
    assert len(hello) == 4 + 16 + len(heard.incarnation)
    assert heard.events == {counted: 1}
    assert heard.states == []


async def test_a_server_that_says_nonsense_is_left() -> None:
    heard = Heard(1)

    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    transport = await open_sockets(Door(Seal(Keyring([KEY]), heard.incarnation), heard.events, heard))
    assert not await transport.exchange(server.sockets[0].getsockname())
    assert not await transport.exchange(("name.invalid", 1))
    assert not await transport.exchange(("\x00", 1))
    await transport.close()
    server.close()
    await server.wait_closed()


async def test_connections_are_bounded_and_who_is_silent_is_left(
    served: tuple[SocketTransport, Heard], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "STRANGER_TIMEOUT_MS", 100)
    monkeypatch.setattr(transport_module, "STRANGERS_PER_ADDRESS_MAX", SERVED_MAX)
    transport, heard = served
    streams = [await asyncio.open_connection(*transport.address) for _ in range(SERVED_MAX)]
    for reader, _ in streams:
        await reader.readexactly(4)
    late, writer = await asyncio.open_connection(*transport.address)
    async with asyncio.timeout(5):
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await late.readexactly(1)
        for reader, _ in streams:
            await reader.read()
    assert heard.events == {Dropped.OVERLOADED: 1, Dropped.MALFORMED: SERVED_MAX}
    for _, each in [*streams, (late, writer)]:
        each.close()


async def test_strangers_of_one_address_take_few_places_and_not_for_long(
    served: tuple[SocketTransport, Heard],
) -> None:
    transport, heard = served
    streams = [await asyncio.open_connection(*transport.address) for _ in range(STRANGERS_PER_ADDRESS_MAX)]
    for reader, _ in streams:
        await reader.readexactly(4)
    third, writer = await asyncio.open_connection(*transport.address)
    async with asyncio.timeout(5):
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await third.readexactly(1)
    elsewhere, other = await asyncio.open_connection(*transport.address, local_addr=("127.0.0.2", 0))
    async with asyncio.timeout(STRANGER_TIMEOUT_MS / 1_000 + 2):  # far less than an exchange may take
        assert await elsewhere.readexactly(4)
        for reader, _ in streams:
            await reader.read()
    assert heard.events[Dropped.OVERLOADED] == 1
    again, last = await asyncio.open_connection(*transport.address)
    async with asyncio.timeout(5):
        assert await again.readexactly(4)
    for each in (*(one for _, one in streams), writer, other, last):
        each.close()


async def test_a_member_that_takes_no_answer_is_left_too(
    served: tuple[SocketTransport, Heard], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is stopped within an exchange would else have its place for ever."""
    monkeypatch.setattr(transport_module, "EXCHANGE_TIMEOUT_MS", 200)
    transport, heard = served
    entry = heard.state().entries[0]
    large = State((msgspec.structs.replace(entry, node=msgspec.structs.replace(entry.node, api="x" * 128)),) * 1_000)
    monkeypatch.setattr(heard, "state", lambda: large)
    transport._listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2_048)  # or the kernel takes it all
    with socket.socket() as stopped:
        stopped.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        await asyncio.to_thread(stopped.connect, transport.address)
        hello = await asyncio.to_thread(stopped.recv, 4 + 16 + 16)
        member = Heard(7)
        push = Door(Seal(Keyring([KEY]), member.incarnation), member.events, member).push(hello[4:])
        assert push is not None
        stopped.sendall(len(push).to_bytes(4, "big") + push)
        async with asyncio.timeout(5):
            while not heard.states or transport._serving:  # noqa: ASYNC110 - who is served has no event
                await asyncio.sleep(0.01)


async def test_its_end_does_not_wait_for_who_is_silent(served: tuple[SocketTransport, Heard]) -> None:
    transport, _ = served
    reader, writer = await asyncio.open_connection(*transport.address)
    await reader.readexactly(4)
    async with asyncio.timeout(1):
        await transport.close()
    writer.close()


async def test_an_address_of_another_kind_loses_the_datagram(served: tuple[SocketTransport, Heard]) -> None:
    transport, _ = served
    transport.send(("::1", 7_946), "f" * 16, PING)
    transport.send(("255.255.255.255", 7_946), "f" * 16, PING)


async def test_a_port_that_is_taken_is_said_at_once(served: tuple[SocketTransport, Heard]) -> None:
    transport, heard = served
    with pytest.raises(OSError, match="in use"):
        await open_sockets(Door(Seal(Keyring([KEY]), heard.incarnation), heard.events, heard), *transport.address)
