"""Who may speak: keys and their rotation, replays, tampering, other versions, other receivers."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.cluster.messages import Ping, encode
from tasktick.cluster.seal import DATAGRAM_BYTES_MAX, ROOM_BYTES, SENDERS_MAX, WINDOW, Dropped, Keyring, Opened, Seal

OLD, NEW = b"the old key of a ring", b"the new key of a ring"
A, B, C = "a" * 32, "b" * 32, "c" * 32
PING = (encode(Ping(1)),)


def _seal(incarnation: str, *keys: bytes) -> Seal:
    return Seal(Keyring(keys or (OLD,)), incarnation)


def test_what_is_closed_is_opened_by_its_receiver() -> None:
    opened = _seal(B).open(_seal(A).close(B, PING))
    assert isinstance(opened, Opened)
    assert opened.sender == A
    assert [bytes(raw) for raw in opened.messages] == list(PING)


@pytest.mark.parametrize("messages", [[bytes((0xC4, 251)) + bytes(251)] * 5, [b"\xc0"] * 128, [bytes(ROOM_BYTES)]])
def test_a_full_datagram_fits(messages: list[bytes]) -> None:
    seal = _seal(A)
    seal._sequence = (1 << 62) - 2
    assert sum(map(len, messages)) <= ROOM_BYTES
    assert len(seal.close(B, messages)) <= DATAGRAM_BYTES_MAX


def test_a_datagram_counts_once() -> None:
    datagram, receiver = _seal(A).close(B, PING), _seal(B)
    assert isinstance(receiver.open(datagram), Opened)
    assert receiver.open(datagram) is Dropped.REPLAYED


def test_a_datagram_counts_at_its_receiver_alone_and_at_no_later_start() -> None:
    datagram = _seal(A).close(B, PING)
    assert _seal(C).open(datagram) is Dropped.MISADDRESSED
    assert _seal("b" * 31 + "0").open(datagram) is Dropped.MISADDRESSED


def test_another_key_is_refused() -> None:
    assert _seal(B, NEW).open(_seal(A, OLD).close(B, PING)) is Dropped.UNAUTHENTICATED


def test_keys_rotate_while_both_are_accepted() -> None:
    stages = [(OLD,), (OLD, NEW), (NEW, OLD), (NEW,)]
    for before, after in pairwise(stages):
        for sender, receiver in permutations((before, after), 2):
            assert isinstance(_seal(B, *receiver).open(_seal(A, *sender).close(B, PING)), Opened)


@pytest.mark.parametrize("keys", [(), (b"short",), (OLD,) * 5])
def test_a_keyring_has_a_few_long_keys(keys: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match="key"):
        Keyring(keys)


@given(st.data())
def test_a_changed_byte_is_noticed(data: st.DataObject) -> None:
    datagram = bytearray(_seal(A).close(B, PING))
    at = data.draw(st.integers(0, len(datagram) - 1))
    datagram[at] ^= data.draw(st.integers(1, 255))
    assert _seal(B).open(bytes(datagram)) is (Dropped.VERSION if at == 0 else Dropped.UNAUTHENTICATED)


@given(st.binary(max_size=1_500))
def test_noise_is_dropped(noise: bytes) -> None:
    assert isinstance(_seal(B).open(noise), Dropped)


def test_another_version_is_told_apart() -> None:
    datagram = _seal(A).close(B, PING)
    assert _seal(B).open(bytes((0,)) + datagram[1:]) is Dropped.VERSION
    assert _seal(B).open(bytes((2,)) + datagram[1:]) is Dropped.VERSION


def test_a_frame_of_one_purpose_is_none_of_another() -> None:
    ring = Keyring((OLD,))
    assert ring.verify(b"pull", ring.sign(b"push", b"body")) is Dropped.UNAUTHENTICATED
    assert ring.verify(b"push", ring.sign(b"push", b"body")) == b"body"
    assert ring.verify(b"pushb", ring.sign(b"push", b"body")) is Dropped.UNAUTHENTICATED


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x91" * 1_000])
def test_an_authentic_body_may_still_be_nonsense(body: bytes) -> None:
    assert _seal(B).open(Keyring((OLD,)).sign(b"datagram", body)) is Dropped.MALFORMED


def test_too_long_or_too_many_is_refused_before_it_is_looked_at() -> None:
    assert _seal(B).open(bytes(DATAGRAM_BYTES_MAX + 1)) is Dropped.OVERSIZED
    assert _seal(B).open(_seal(A).close(B, [b"\xc0"] * 129)) is Dropped.OVERSIZED


@given(st.lists(st.integers(1, 3_000), max_size=200))
def test_order_does_not_matter_within_the_window_and_nothing_counts_twice(order: list[int]) -> None:
    receiver = _seal(B)
    seen: set[int] = set()
    for sequence in order:
        newest = max(seen, default=-1)
        expected = sequence not in seen and sequence > newest - WINDOW
        assert receiver._admit(A, sequence) is expected
        if expected:
            seen.add(sequence)


def test_a_leap_costs_nothing() -> None:
    receiver = _seal(B)
    assert receiver._admit(A, 1)
    assert receiver._admit(A, (1 << 62) - 1)
    assert not receiver._admit(A, 1)


def test_senders_remembered_are_bounded() -> None:
    receiver = _seal(B)
    for number in range(SENDERS_MAX + 10):
        receiver._admit(f"{number:032x}", 1)
    assert len(receiver._windows) == SENDERS_MAX
