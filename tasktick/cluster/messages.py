"""What nodes say to each other: small structs in MessagePack, each field bounded.

They travel as arrays, so a later version may add fields at the end: the older one ignores them, and for what the
newer one misses there are defaults. A message of an unknown kind is skipped, the others of its datagram count.
"""

from enum import IntEnum
from ipaddress import ip_address
from typing import Annotated

import msgspec
from msgspec import Meta

Incarnation = Annotated[str, Meta(pattern=r"^[0-9a-f]{16,32}\Z")]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")]
Numeric = Annotated[str, Meta(pattern=r"^[0-9a-fA-F:.]{2,45}\Z")]
Port = Annotated[int, Meta(ge=1, le=65_535)]
# What is shown to people: printable ASCII, no escapes.
Shown = Annotated[str, Meta(pattern=r"^[!-~]{0,128}\Z")]
Release = Annotated[str, Meta(pattern=r"^[!-~]{0,32}\Z")]
Revision = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
Sequence = Annotated[int, Meta(ge=0, le=(1 << 62) - 1)]
Instant = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
TaskId = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
Partition = Annotated[int, Meta(ge=0, le=255)]

REVISION_MAX = (1 << 53) - 1
ENTRIES_MAX = 1_024

Address = tuple[str, int]


class Standing(IntEnum):
    """What is held of a member. On the wire."""

    ALIVE = 0
    SUSPECT = 1
    DEAD = 2
    LEFT = 3


class Node(msgspec.Struct, frozen=True, array_like=True):
    """What a node says of itself. `host` is numeric: no name is ever looked up for a datagram."""

    incarnation: Incarnation
    name: Name
    host: Numeric
    port: Port
    started_at: Instant = 0
    api: Shown = ""
    version: Release = ""
    tzdata: Release = ""
    drained: bool = False
    term: Release = ""
    """The incarnation that its term goes by, once the store has forgotten the one that it began as."""

    @property
    def owner(self) -> str:
        """What the store knows it by."""
        return self.term or self.incarnation

    def __post_init__(self) -> None:
        ip_address(self.host)

    @property
    def address(self) -> Address:
        return (self.host, self.port)


class Alive(msgspec.Struct, frozen=True, array_like=True, tag=1):
    node: Node
    revision: Revision


class Suspect(msgspec.Struct, frozen=True, array_like=True, tag=2):
    incarnation: Incarnation
    revision: Revision
    accuser: Incarnation


class Dead(msgspec.Struct, frozen=True, array_like=True, tag=3):
    incarnation: Incarnation
    revision: Revision
    accuser: Incarnation


class Left(msgspec.Struct, frozen=True, array_like=True, tag=4):
    incarnation: Incarnation
    revision: Revision


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=10):
    sequence: Sequence


class ProbeFor(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Please ping this member for me, and answer with an `Ack` or a `Nack` of my number."""

    sequence: Sequence
    target: Incarnation


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=12):
    sequence: Sequence


class Nack(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """I hear you, but not the member that you asked about."""

    sequence: Sequence


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """I do not know you: who are you?"""


class DueSoon(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """A task of yours has been written that is due within the horizon. A hint."""

    task: TaskId
    wake_at: Instant

    @property
    def partition(self) -> int:
        """The id carries it."""
        return int(self.task[-2:], 16)


class WakeUp(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """Look again at these partitions: tasks, lease rows, requests. A hint."""

    partitions: Annotated[tuple[Partition, ...], Meta(max_length=256)]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A member as one node knows it."""

    node: Node
    revision: Revision
    standing: Standing


class State(msgspec.Struct, frozen=True, array_like=True):
    """All members as one node knows them; the teller is the first."""

    entries: Annotated[tuple[Entry, ...], Meta(min_length=1, max_length=ENTRIES_MAX)]


Rumour = Alive | Suspect | Dead | Left
Probing = Ping | ProbeFor | Ack | Nack | Ask
Nudge = DueSoon | WakeUp
Message = Rumour | Probing | Nudge

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_state_decoder = msgspec.msgpack.Decoder(State)
# Whatever bytes come in, decoding them raises one of these and nothing else.
MALFORMED = (msgspec.MsgspecError, ValueError, RecursionError)


def encode(message: Message | State) -> bytes:
    """Bytes of a message or a state."""
    return _encoder.encode(message)


def decode(data: bytes | msgspec.Raw) -> Message | None:
    """The message, or None for what is none, or is of a kind that this version does not know."""
    try:
        return _decoder.decode(data)
    except MALFORMED:
        return None


def decode_state(data: bytes) -> State | None:
    """The state, or None for what is none."""
    try:
        return _state_decoder.decode(data)
    except MALFORMED:
        return None
