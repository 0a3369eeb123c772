"""Rumours that wait to be passed on: one for each member, each sent a bounded number of times, fresh ones first."""

import msgspec


class _Rumour(msgspec.Struct):
    subject: str
    encoded: bytes
    order: int
    sent: int = 0


class RumourQueue:
    """What is to be piggy-backed. A newer rumour about a member replaces the older one."""

    def __init__(self, rumours_max: int) -> None:
        self._rumours_max = rumours_max
        self._by_subject: dict[str, _Rumour] = {}
        self._order = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._by_subject)

    def add(self, subject: str, encoded: bytes) -> None:
        """Pass this on; where there is no room, what has been sent most gives way."""
        self._order += 1
        self._by_subject.pop(subject, None)
        if len(self._by_subject) >= self._rumours_max:
            stalest = max(self._by_subject.values(), key=lambda rumour: (rumour.sent, -rumour.order))
            del self._by_subject[stalest.subject]
            self.dropped += 1
        self._by_subject[subject] = _Rumour(subject, encoded, self._order)

    def forget(self, subject: str) -> None:
        """Pass on nothing about this one any more."""
        self._by_subject.pop(subject, None)

    def take(self, room_bytes: int, transmits_max: int, without: str | None = None) -> list[bytes]:
        """What fits, the least sent and newest first; each taken one has been sent once more.

        `without` names a subject about which this datagram already says something.
        """
        taken: list[bytes] = []
        for rumour in sorted(self._by_subject.values(), key=lambda rumour: (rumour.sent, -rumour.order)):
            if len(rumour.encoded) > room_bytes or rumour.subject == without:
                continue
            room_bytes -= len(rumour.encoded)
            taken.append(rumour.encoded)
            rumour.sent += 1
            if rumour.sent >= transmits_max:
                del self._by_subject[rumour.subject]
        return taken
