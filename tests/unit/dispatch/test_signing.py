"""Signatures, with the reference implementation of Standard Webhooks as the oracle."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from tasktick.dispatch.signing import InvalidSecret, new_secret, parse_secret, sign

SECRET = new_secret(bytes(range(32)))


def now_s() -> int:
    """The reference takes nothing that is five minutes old, and a run of all tests may take longer."""
    return int(datetime.now(UTC).timestamp())


def headers(signature: str, timestamp_s: int, message_id: str = "tsk_1") -> dict[str, str]:
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": signature,
    }


@given(st.dictionaries(st.text(), st.text() | st.integers()), st.binary(min_size=24, max_size=64))
def test_the_reference_implementation_verifies_it(document: dict[str, object], key: bytes) -> None:
    body, at_s = json.dumps(document), now_s()
    signature = sign([key], "tsk_1", at_s, body.encode())
    assert Webhook(new_secret(key)).verify(body, headers(signature, at_s)) == document


def test_the_example_of_the_specification() -> None:
    key = parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = sign([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_old_and_new_secret_both_verify() -> None:
    other, at_s = new_secret(bytes(24)), now_s()
    signature = sign([parse_secret(SECRET), parse_secret(other)], "tsk_1", at_s, b"{}")
    assert len(signature.split(" ")) == 2
    for secret in (SECRET, other):
        Webhook(secret).verify("{}", headers(signature, at_s))


@pytest.mark.parametrize("change", ["body", "id", "timestamp", "secret"])
def test_nothing_else_verifies(change: str) -> None:
    at_s = now_s()
    signature = sign([parse_secret(SECRET)], "tsk_1", at_s, b"{}")
    webhook = Webhook(new_secret(bytes(32)) if change == "secret" else SECRET)
    message_id = "tsk_2" if change == "id" else "tsk_1"
    timestamp_s = at_s + 1 if change == "timestamp" else at_s
    with pytest.raises(WebhookVerificationError):
        webhook.verify("[]" if change == "body" else "{}", headers(signature, timestamp_s, message_id))


@given(st.binary(min_size=24, max_size=64))
def test_a_secret_is_read_back(key: bytes) -> None:
    assert parse_secret(new_secret(key)) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_AAAA",
        "whsec_!!!",
        "whsec_ä",
        "whsec_" + "A" * 100,
    ],
)
def test_what_is_no_secret_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(InvalidSecret) as refused:
        parse_secret(text)
    assert len(text) < 7 or text.removeprefix("whsec_") not in str(refused.value)


def test_nothing_is_signed_with_nothing() -> None:
    with pytest.raises(InvalidSecret, match="nothing is sent unsigned"):
        sign([], "tsk_1", 1, b"{}")
