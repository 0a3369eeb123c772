"""Commands that do nothing but call a URL, and those that do more."""

import pytest

from tasktick.ctl.importers.shell import NotACall, call_of

URL = "https://app.example/x"


def target(command: str, stdin: str | None = None, **variables: str) -> dict[str, object]:
    return call_of(command, variables, stdin).target()


def test_curl_is_a_get_until_it_sends_something() -> None:
    assert target(f"curl {URL}") == {"url": URL, "method": "GET"}
    assert target("/usr/bin/curl app.example/x") == {"url": "http://app.example/x", "method": "GET"}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    sent = {"url": URL, "method": "POST", "body_text": "a=1&b=2", "headers": form}
    assert target(f"curl -d a=1 --data b=2 {URL}") == sent
    assert target(f"curl -G -d a=1 -d b=2 '{URL}?c=3'") == {"url": f"{URL}?c=3&a=1&b=2", "method": "GET"}
    assert target(f"curl -I {URL}")["method"] == "HEAD"


def test_curl_with_all_that_a_cron_job_says() -> None:
    command = (
        f"curl -fsS -m 10 --retry 3 -X PUT -H 'X-Team: a b' -H \"Content-Type: application/json\" "
        f"-d '{{\"n\": 1.0}}' -o /dev/null {URL} >> /var/log/x.log 2>&1"
    )
    call = call_of(command, {})
    assert call.attempts == 4
    headers = {"X-Team": "a b", "Content-Type": "application/json"}
    assert call.target() == {
        "url": URL,
        "method": "PUT",
        "body_json": '{"n": 1.0}',
        "headers": headers,
        "timeout": "10s",
    }


def test_what_has_no_counterpart_is_noted() -> None:
    assert len(call_of(f"curl -kL {URL}", {}).notes) == 2
    assert call_of(f"curl -u me:secret {URL}", {}).headers == {"Authorization": "Basic bWU6c2VjcmV0"}
    for command in (f"curl {URL} >> /var/log/x.log 2>&1", f"curl {URL} 1> x", f"wget -q {URL}", f"wget -O '' {URL}"):
        assert [note for note in call_of(command, {}).notes if "stands with" in note], command
    for command in (f"curl {URL} >/dev/null 2> /var/log/x", f"wget -qO /dev/null {URL}", f"wget --spider {URL}"):
        assert call_of(command, {}).notes == [], command


def test_a_user_in_the_url_is_a_header() -> None:
    call = call_of("curl https://me:se%2Fcret@app.example/x?a=me@x", {})
    assert (call.url, call.headers) == (f"{URL}?a=me@x", {"Authorization": "Basic bWU6c2UvY3JldA=="})
    call = call_of("wget -qO- --header 'authorization: mine' https://me@app.example/x", {})
    assert (call.url, call.headers) == (URL, {"authorization": "mine"})


def test_wget() -> None:
    assert target(f"wget -qO- '{URL}?a=1&b=2'") == {"url": f"{URL}?a=1&b=2", "method": "GET"}
    assert target(f"wget -nv --tries=2 -T 5 --spider {URL}") == {"url": URL, "method": "HEAD", "timeout": "5s"}
    assert target(f"wget -q -O /dev/null --post-data='a=1' --header 'Content-Type: text/plain' {URL}") == {
        "url": URL,
        "method": "POST",
        "body_text": "a=1",
        "headers": {"Content-Type": "text/plain"},
    }


def test_variables_that_are_known_and_those_that_only_a_header_can_hold() -> None:
    assert target("curl $HOST/${WHAT}?a=1", HOST="https://app.example", WHAT="x")["url"] == f"{URL}?a=1"
    assert target(f'curl -H "Authorization: Bearer $TOKEN" {URL}')["headers"] == {
        "Authorization": "Bearer ${ENV:TOKEN}"
    }
    assert target(f"curl -d '$5' {URL}")["body_text"] == "$5"
    with pytest.raises(NotACall, match="variable"):
        target("curl https://app.example/$WHERE")
    with pytest.raises(NotACall, match="variable"):
        target(f'curl -d "$BODY" {URL}')


def test_standard_input_is_a_body() -> None:
    assert target(f"curl --data-binary @- {URL}", stdin="a\nb")["body_text"] == "a\nb"
    assert target(f"curl -d @- {URL}", stdin="a\nb")["body_text"] == "ab"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (f"curl {URL} | jq .", "more than one command"),
        (f"curl {URL} && echo done", "more than one command"),
        (f"curl {URL}; curl {URL}", "more than one command"),
        (f"curl -d @file {URL}", "read from a file"),
        (f"curl -o page.html {URL}", "keeps the answer in a file"),
        (f"curl -sSO {URL}", "keeps the answer in a file"),
        (f"wget -qO page.html {URL}", "keeps the answer in a file"),
        ("curl https://$USER@app.example/x", "variable"),
        (f"curl -T file {URL}", "no counterpart"),
        (f"curl -F a=1 {URL}", "no counterpart"),
        (f"curl {URL} {URL}", "several URLs"),
        ("curl https://app.example/[1-3]", "brackets"),
        (f"curl $(cat options) {URL}", "within its words"),
        (f"curl `cat options` {URL}", "within its words"),
        (f"A=1 curl {URL}", "variables of its own"),
        (f"curl '{URL}", "quotes"),
        ("curl ftp://app.example/", "http"),
        ("curl", "no http"),
        (f"curl {URL} -X", "no value"),
        ("/usr/bin/backup", "not curl"),
        (f"sudo curl {URL}", "not curl"),
        (f"curl --retry many {URL}", "number of attempts"),
    ],
)
def test_what_is_more_than_a_call(command: str, why: str) -> None:
    with pytest.raises(NotACall, match=why):
        call_of(command, {})
