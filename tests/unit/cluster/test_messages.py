"""What nodes say: round trips, bounds, later and older versions, bytes that are nothing."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.cluster import messages as m

INCARNATION = "0123456789abcdef"
NODE = m.Node(INCARNATION, "node-1", "127.0.0.1", 7946, 5, "http://127.0.0.1:8080", "1.0", "2026a", drained=True)
ALL: list[m.Message] = [
    m.Alive(NODE, 3),
    m.Suspect(INCARNATION, 3, INCARNATION),
    m.Dead(INCARNATION, 3, INCARNATION),
    m.Left(INCARNATION, 3),
    m.Ping(1),
    m.ProbeFor(1, INCARNATION),
    m.Ack(1),
    m.Nack(1),
    m.Ask(),
    m.DueSoon("0" * 30 + "ff", 7),
    m.WakeUp((0, 255)),
]


@pytest.mark.parametrize("message", ALL, ids=lambda message: type(message).__name__)
def test_a_message_survives_its_journey(message: m.Message) -> None:
    assert m.decode(m.encode(message)) == message


def test_a_nudge_says_its_partition() -> None:
    assert m.DueSoon("0" * 30 + "ff", 7).partition == 255


def test_the_longest_alive_leaves_room_for_others() -> None:
    longest = m.Node("f" * 32, "n" * 64, "f" * 4 + ":ffff" * 7, 65_535, (1 << 53) - 1, "x" * 128, "v" * 32, "z" * 32)
    assert len(m.encode(m.Alive(longest, m.REVISION_MAX))) < 420


@pytest.mark.parametrize(
    "changed",
    [
        {"incarnation": "xyz"},
        {"incarnation": INCARNATION + "\n"},
        {"name": ""},
        {"name": "a\x1b[2J"},
        {"name": "n" * 65},
        {"host": "example.org"},
        {"host": "1.2.3"},
        {"port": 0},
        {"port": 70_000},
        {"api": "a b"},
        {"api": "x" * 129},
    ],
)
def test_a_node_that_says_nonsense_is_not_heard(changed: dict[str, object]) -> None:
    fields = [changed.get(field, getattr(NODE, field)) for field in NODE.__struct_fields__]
    assert m.decode(msgspec.msgpack.encode([1, fields, 3])) is None


@pytest.mark.parametrize("revision", [-1, 1 << 53, 1.5, "3", None])
def test_a_revision_has_bounds(revision: object) -> None:
    assert m.decode(msgspec.msgpack.encode([4, INCARNATION, revision])) is None


def test_a_later_version_may_add_fields_and_kinds() -> None:
    assert m.decode(msgspec.msgpack.encode([10, 5, "something new"])) == m.Ping(5)
    assert m.decode(msgspec.msgpack.encode([99, 5])) is None
    older = [1, [INCARNATION, "node-1", "127.0.0.1", 7946], 3]
    assert m.decode(msgspec.msgpack.encode(older)) == m.Alive(m.Node(INCARNATION, "node-1", "127.0.0.1", 7946), 3)


@given(st.binary(max_size=200))
def test_bytes_that_are_nothing_raise_nothing(data: bytes) -> None:
    m.decode(data)
    m.decode_state(data)


@given(st.sampled_from([m.encode(message) for message in ALL]), st.data())
def test_a_damaged_message_raises_nothing(encoded: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(encoded) - 1))
    damaged = encoded[:at] + data.draw(st.binary(max_size=4)) + encoded[at + data.draw(st.integers(0, 3)) :]
    m.decode(damaged)
    m.decode_state(damaged)


def test_depth_raises_nothing() -> None:
    assert m.decode(b"\x91" * 100_000) is None
    assert m.decode_state(b"\x91" * 100_000) is None


def test_a_state_is_bounded() -> None:
    entry = m.Entry(NODE, 1, m.Standing.ALIVE)
    assert m.decode_state(m.encode(m.State((entry,)))) == m.State((entry,))
    assert m.decode_state(m.encode(m.State(()))) is None
    assert m.decode_state(m.encode(m.State((entry,) * (m.ENTRIES_MAX + 1)))) is None
