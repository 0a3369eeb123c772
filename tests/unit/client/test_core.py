"""Requests and answers, without a server."""

import msgspec
import pytest

from tasktick.client import core
from tasktick.client.core import Answer, BadRequest, Problem


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
        ("https://tasks.example/inner/", "https://tasks.example:443/inner"),
        ("HTTP://Tasks.Example", "http://tasks.example:80"),
    ],
)
def test_servers(url: str, normal: str) -> None:
    assert core.parse_server(url).url == normal


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8080",
        "ftp://x",
        "http://",
        "http://u:p@x",
        "http://x?y",
        "http://x#y",
        "http://x:y",
        "http://x\r\ny",
    ],
)
def test_what_is_no_server(url: str) -> None:
    with pytest.raises(BadRequest):
        core.parse_server(url)


def test_paths_cannot_be_left() -> None:
    assert core.get_task("key:a.b-c_1").path == "/v1/tasks/key:a.b-c_1"
    assert core.get_task("../../v1/keys?x#y").path == "/v1/tasks/..%2F..%2Fv1%2Fkeys%3Fx%23y"
    for name in ("", ".", ".."):
        with pytest.raises(BadRequest, match="is no id"):
            core.act_on_task(name, "cancel")


def test_queries() -> None:
    asked: core.Filters = {
        "state": ("dead", "expired"),
        "tag": "team:a b",
        "sla_met": False,
        "limit": 10,
        "queue": None,
    }
    assert core.list_tasks(asked).path == "/v1/tasks?state=dead&state=expired&tag=team:a+b&sla_met=false&limit=10"
    assert core.list_tasks().path == "/v1/tasks"
    assert core.secrets().path == "/v1/secrets"
    assert core.secrets(reveal=True).path == "/v1/secrets?reveal=1"


def test_the_page_that_follows() -> None:
    first = core.list_tasks({"queue": "mail", "limit": 2})
    second = core.after(first, "a+b/=")
    assert second.path == "/v1/tasks?queue=mail&limit=2&cursor=a%2Bb%2F%3D"
    assert core.after(second, "c").path == "/v1/tasks?queue=mail&limit=2&cursor=c"
    assert core.after(core.list_tasks(), "c").path == "/v1/tasks?cursor=c"


def test_only_what_does_no_harm_is_repeatable() -> None:
    assert core.stats().repeatable
    assert core.create_task({}, "key-1").repeatable
    assert not core.create_task({}).repeatable
    assert not core.delete_task("tsk_1").repeatable


def test_headers() -> None:
    headers = core.headers_of(core.create_task({"a": msgspec.Raw(b"1.0")}, "key-1"), "tk_secret", "acme")
    assert headers["Authorization"] == "Bearer tk_secret"
    assert headers["TaskTick-Tenant"] == "acme"
    assert headers["Content-Type"] == "application/json"
    assert headers["Idempotency-Key"] == "key-1"
    assert "Content-Type" not in core.headers_of(core.stats(), None)


def test_a_body_goes_as_it_was_written() -> None:
    assert core.create_task({"body": msgspec.Raw(b'{"n": 1.00}')}).body == b'{"body":{"n": 1.00}}'
    assert core.replay_dead_letter("dlq_1").body is None
    assert core.replay_dead_letter("dlq_1", {"url": "http://x"}).body == b'{"target":{"url":"http://x"}}'


def test_a_problem_says_everything() -> None:
    body = (
        b'{"type":"t","title":"T","status":422,"detail":"No.","code":"validation_failed","request_id":"r",'
        b'"errors":[{"pointer":"/target/url","detail":"is missing"}],"new_field":1}'
    )
    with pytest.raises(Problem, match=r"No\.") as caught:
        core.accepted(Answer(422, body, {"retry-after": "3"}))
    problem = caught.value
    assert (problem.status, problem.code, problem.request_id, problem.retry_after) == (
        422,
        "validation_failed",
        "r",
        "3",
    )
    assert [(fault.pointer, fault.detail) for fault in problem.faults] == [("/target/url", "is missing")]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(502, b"<html>bad gateway</html>", {"x-request-id": "r"}), "not as TaskTick does"),
        (Answer(301, b"", {"location": "https://elsewhere.example/"}), "points to https://elsewhere.example/"),
        (Answer(500, b"\xff\xfe"), "answered 500"),
        (Answer(404, b"[]"), "answered 404"),
        (Answer(404, b"{}"), "answered 404"),
    ],
)
def test_an_answer_of_somebody_else(answer: Answer, said: str) -> None:
    with pytest.raises(Problem, match=said):
        core.accepted(answer)


def test_an_answer_that_is_no_json() -> None:
    with pytest.raises(Problem, match="not as TaskTick does"):
        Answer(200, b"<html>").json()
    assert Answer(204, b"").json() is None
