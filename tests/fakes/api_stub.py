"""A real HTTP server that answers as it is told and remembers what it was asked."""

import json
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float = 0.0

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Told:
    """An answer to give; `drop` closes the connection without one."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    drop: bool = False


def told(document: Any, status: int = 200, **headers: str) -> Told:
    return Told(status, json.dumps(document).encode(), {name.replace("_", "-"): text for name, text in headers.items()})


def refused(status: int, code: str, detail: str, **more: Any) -> Told:
    document = {"status": status, "code": code, "detail": detail, "title": "Refused", "request_id": "req-7", **more}
    return Told(status, json.dumps(document).encode(), {"Content-Type": "application/problem+json"})


class ApiStub:
    """Gives the answers that are queued, in order."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.asked: list[Asked] = []
        self.answers: deque[Told] = deque()

    def tell(self, *answers: Told) -> None:
        self.answers.extend(answers)


@contextmanager
def api_stub() -> Iterator[ApiStub]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): text for name, text in self.headers.items()}
            stub.asked.append(Asked(self.command, self.path, headers, body, time.time()))
            answer = stub.answers.popleft() if stub.answers else Told(599, b"no answer was queued")
            if answer.drop:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, text in answer.headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 - the names that http.server looks for

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stub = ApiStub(server.server_port)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
