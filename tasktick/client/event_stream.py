"""Takes server-sent events apart, line by line, as the WHATWG's standard says; pure."""

import msgspec


class ServerEvent(msgspec.Struct, frozen=True):
    """An event: its type, the id to go on from, and what it says."""

    type: str
    id: str
    data: str


class EventReader:
    """Puts lines together into events. `last_id` is what to show when the stream is opened again."""

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self.retry_ms: int | None = None
        self._type = ""
        self._data: list[str] = []

    def line(self, raw: bytes) -> ServerEvent | None:
        """Take in a line; the event that it completes, if it does."""
        text = raw.decode(errors="replace").rstrip("\r\n")
        if text:
            self._field(*text.partition(":"))
            return None
        event = ServerEvent(self._type or "message", self.last_id, "\n".join(self._data)) if self._data else None
        self.forget()
        return event

    def _field(self, name: str, _: str, value: str) -> None:
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._type = value
        elif name == "id" and value.isascii() and value.isprintable():
            self.last_id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_ms = int(value[:9])

    def forget(self) -> None:
        """What is not complete is not said: the stream broke off in its middle, or a new event begins."""
        self._type = ""
        self._data.clear()
