"""Who may speak, and that nothing counts twice: HMAC-SHA256 under a shared key, bound to one receiver.

A datagram names the incarnation of the node that it is for, which is random at each start, and carries a number
that its sender never uses again. So one that is recorded and sent again is refused: by another node or another
start because it is not for it, by the same one because it remembers the numbers of its senders. No clock is
compared, so a node whose clock is wrong is heard all the same.

Frame: version (1 byte), HMAC (32 bytes), body. Nothing of the body is parsed before the HMAC has matched.
Keys rotate in three rounds of configuration: accept the new one everywhere, sign with it, drop the old one.
"""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Sequence as SequenceOf
from enum import StrEnum

import msgspec

from tasktick.cluster.messages import MALFORMED, Incarnation, Sequence

VERSION = 1
DATAGRAM_BYTES_MAX = 1_400
# What a datagram spends on its frame: version, HMAC, two incarnations, the number, array headers.
FRAME_BYTES = 1 + 32 + 2 * 34 + 9 + 1 + 3
ROOM_BYTES = DATAGRAM_BYTES_MAX - FRAME_BYTES
KEY_BYTES_MIN = 16
KEYS_MAX = 4
MESSAGES_MAX = 128
# How far behind the newest number of a sender one may come that has not been seen.
WINDOW = 1_024
SENDERS_MAX = 4_096

_MAC_BYTES = 32
_HEAD_BYTES = 1 + _MAC_BYTES


class Dropped(StrEnum):
    """Why something was dropped: the name under which it is counted."""

    OVERSIZED = "gossip_dropped_oversized"
    MALFORMED = "gossip_dropped_malformed"
    VERSION = "gossip_dropped_version"
    UNAUTHENTICATED = "gossip_dropped_unauthenticated"
    MISADDRESSED = "gossip_dropped_misaddressed"
    REPLAYED = "gossip_dropped_replayed"
    OVERLOADED = "gossip_dropped_overloaded"
    UNSENT = "gossip_dropped_unsent"


class _Body(msgspec.Struct, frozen=True, array_like=True):
    receiver: Incarnation
    sender: Incarnation
    sequence: Sequence
    messages: list[msgspec.Raw]


class Opened(msgspec.Struct, frozen=True):
    """What an authentic datagram said, and who said it."""

    sender: str
    messages: list[msgspec.Raw]


class Keyring:
    """The keys of the ring: the first signs, all are accepted."""

    def __init__(self, keys: SequenceOf[bytes]) -> None:
        if not 1 <= len(keys) <= KEYS_MAX:
            raise ValueError(f"a ring has 1 to {KEYS_MAX} keys")
        if any(len(key) < KEY_BYTES_MIN for key in keys):
            raise ValueError(f"a key of the ring has at least {KEY_BYTES_MIN} bytes")
        self._keys = tuple(keys)

    def sign(self, purpose: bytes, body: bytes) -> bytes:
        """A frame: version, HMAC over version, purpose and body, body. The purpose itself does not travel."""
        return bytes((VERSION,)) + _mac(self._keys[0], purpose, body) + body

    def verify(self, purpose: bytes, frame: bytes) -> bytes | Dropped:
        """The body of a frame that was made for this purpose under an accepted key."""
        if len(frame) < _HEAD_BYTES:
            return Dropped.MALFORMED
        if frame[0] != VERSION:
            return Dropped.VERSION
        claimed, body = frame[1:_HEAD_BYTES], frame[_HEAD_BYTES:]
        if not any(hmac.compare_digest(claimed, _mac(key, purpose, body)) for key in self._keys):
            return Dropped.UNAUTHENTICATED
        return body


def _mac(key: bytes, purpose: bytes, body: bytes) -> bytes:
    # The length keeps purpose and body apart: no two pairs of them are the same bytes.
    head = bytes((VERSION,)) + len(purpose).to_bytes(2, "big") + purpose
    return hmac.digest(key, head + body, hashlib.sha256)


class _Window:
    """Which of a sender's last numbers have been seen."""

    __slots__ = ("_newest", "_seen")

    def __init__(self) -> None:
        self._newest = -1
        self._seen = 0

    def admit(self, sequence: int) -> bool:
        ahead = sequence - self._newest
        if ahead > 0:
            # A leap empties the window: a shift by its length has the same result as one by trillions.
            self._seen = ((self._seen << min(ahead, WINDOW)) | 1) & ((1 << WINDOW) - 1)
            self._newest = sequence
            return True
        if ahead <= -WINDOW or self._seen >> -ahead & 1:
            return False
        self._seen |= 1 << -ahead
        return True


class Seal:
    """Closes what this incarnation sends, opens what it receives."""

    def __init__(self, keyring: Keyring, incarnation: str) -> None:
        self.keyring = keyring
        self.incarnation = incarnation
        self._sequence = 0
        self._windows: OrderedDict[str, _Window] = OrderedDict()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(_Body)

    def close(self, receiver: str, messages: SequenceOf[bytes]) -> bytes:
        """A datagram for this incarnation."""
        self._sequence += 1
        raw = [msgspec.Raw(message) for message in messages]
        return self.keyring.sign(
            b"datagram", self._encoder.encode(_Body(receiver, self.incarnation, self._sequence, raw))
        )

    def open(self, datagram: bytes) -> Opened | Dropped:
        """What it says, or why it does not count."""
        if len(datagram) > DATAGRAM_BYTES_MAX:
            return Dropped.OVERSIZED
        verified = self.keyring.verify(b"datagram", datagram)
        if isinstance(verified, Dropped):
            return verified
        try:
            body = self._decoder.decode(verified)
        except MALFORMED:
            return Dropped.MALFORMED
        if len(body.messages) > MESSAGES_MAX:
            return Dropped.OVERSIZED
        if body.receiver != self.incarnation:
            return Dropped.MISADDRESSED
        if not self._admit(body.sender, body.sequence):
            return Dropped.REPLAYED
        return Opened(body.sender, body.messages)

    def _admit(self, sender: str, sequence: int) -> bool:
        window = self._windows.get(sender)
        if window is None:
            # Only who has the key gets here, so strangers cannot push out those who are remembered.
            window = self._windows[sender] = _Window()
            if len(self._windows) > SENDERS_MAX:
                self._windows.popitem(last=False)
        self._windows.move_to_end(sender)
        return window.admit(sequence)
