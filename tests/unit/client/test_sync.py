"""Requests over real sockets, to servers that do what servers do."""

import socket
from collections.abc import Iterator
from threading import Thread

import pytest

from tasktick.client import core, sync
from tasktick.client.core import Problem, Unreachable
from tasktick.client.sync import Client
from tests.fakes.api_stub import ApiStub, Told, api_stub, refused, told


@pytest.fixture
def stub() -> Iterator[ApiStub]:
    with api_stub() as running:
        yield running


@pytest.fixture
def client(stub: ApiStub) -> Iterator[Client]:
    with Client(stub.url, "tk_secret", timeout_ms=5_000) as opened:
        yield opened


def test_a_call(stub: ApiStub, client: Client) -> None:
    stub.tell(told({"id": "tsk_1"}, 201))
    assert client.call(core.create_task({"target": {"url": "http://x"}}, "key-1")) == {"id": "tsk_1"}
    asked = stub.asked[0]
    assert (asked.method, asked.path) == ("POST", "/v1/tasks")
    assert asked.document == {"target": {"url": "http://x"}}
    assert asked.headers["authorization"] == "Bearer tk_secret"


def test_a_refusal(stub: ApiStub, client: Client) -> None:
    stub.tell(refused(409, "state_conflict", "It is running."))
    with pytest.raises(Problem, match="It is running") as caught:
        client.call(core.act_on_task("tsk_1", "pause"))
    assert caught.value.code == "state_conflict"


def test_a_redirect_does_not_get_the_key(stub: ApiStub, client: Client) -> None:
    stub.tell(Told(307, b"", {"Location": stub.url + "/elsewhere"}))
    with pytest.raises(Problem, match="points to"):
        client.call(core.stats())
    assert len(stub.asked) == 1


def test_no_proxy_is_taken_from_the_environment(stub: ApiStub, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    stub.tell(told({}))
    assert client.call(core.stats()) == {}


def test_a_dropped_connection_is_tried_once_more_if_that_does_no_harm(stub: ApiStub, client: Client) -> None:
    stub.tell(told({}), Told(drop=True), told({"id": "tsk_1"}))
    client.call(core.stats())
    assert client.call(core.create_task({}, "key-1")) == {"id": "tsk_1"}
    keys = [asked.headers.get("idempotency-key") for asked in stub.asked]
    assert keys == [None, "key-1", "key-1"]
    stub.tell(Told(drop=True))
    with pytest.raises(Unreachable, match="closed the connection without an answer"):
        client.call(core.delete_task("tsk_1"))
    stub.tell(Told(drop=True), Told(drop=True), told({}))
    with pytest.raises(Unreachable):
        client.call(core.stats())


def test_pages(stub: ApiStub, client: Client) -> None:
    stub.tell(told({"data": [1], "next_cursor": "c"}), told({"data": [2], "next_cursor": None}))
    assert [answer.json()["data"] for answer in client.pages(core.list_tasks({"limit": 1}))] == [[1], [2]]
    assert [asked.path for asked in stub.asked] == ["/v1/tasks?limit=1", "/v1/tasks?limit=1&cursor=c"]


def test_an_answer_without_end_is_cut(stub: ApiStub, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "ANSWER_MAX_BYTES", 10)
    stub.tell(told({"data": "x" * 20}), told({}))
    with pytest.raises(Problem, match="longer than 10 bytes"):
        client.call(core.stats())
    assert client.call(core.stats()) == {}


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with (
            Client(f"http://127.0.0.1:{taken.getsockname()[1]}") as client,
            pytest.raises(Unreachable, match="refused"),
        ):
            client.call(core.stats())


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH\r\n", b"\x00\xff" * 100 + b"\n"])
def test_something_else_listens(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(said)

        thread = Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with Client(url) as client, pytest.raises(Unreachable, match="does not speak HTTP"):
            client.call(core.stats())
        thread.join()


def test_silence_has_a_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with Client(url, timeout_ms=50) as client, pytest.raises(Unreachable, match="does not answer in time"):
            client.call(core.stats())


def test_a_host_that_is_no_name() -> None:
    with Client("http://" + "a" * 70 + ".example") as client, pytest.raises(Unreachable):
        client.call(core.stats())
