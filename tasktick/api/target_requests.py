"""The target and the retry policy of a task, from a request's words to the model's. No I/O: names are not resolved."""

import re
from base64 import b64decode
from binascii import Error as MalformedBase64
from functools import lru_cache

import msgspec
from msgspec import UNSET

from tasktick.access.vault import Vault, header_context, is_masked
from tasktick.api import faults as checks
from tasktick.api.decoding import pointer_of
from tasktick.api.faults import Faults
from tasktick.api.schemas import RetryRequest, TargetRequest
from tasktick.dispatch.guard import AddressPolicy, TargetRefused, judge_url
from tasktick.dispatch.request_headers import header_faults, is_sensitive, method_fault
from tasktick.model.retry import DELAY_LIMIT_MS, MAX_ATTEMPTS_LIMIT, RetryPolicy
from tasktick.model.task import DEFAULT_TIMEOUT_MS, TIMEOUT_LIMIT_MS, BodyKind, Target

SUCCESS_MAX = 20
SENSITIVE_MAX = 50
DELAYS_MAX = 100
FACTOR_MAX = 1_000.0
# Targets that are known to be permitted: most tasks call what others call. A new policy forgets them.
JUDGED_MAX = 2_048
DEFAULT_SUCCESS: tuple[str, ...] = ("2xx",)
DEFAULT_RETRY = RetryPolicy()

_SUCCESS = re.compile(r"[2-5]xx|[2-5]\d\d|([2-5]\d\d)-([2-5]\d\d)", re.ASCII)


class Aim(msgspec.Struct, frozen=True, gc=False):
    """A target, and the lane (host and port) in which it waits."""

    target: Target
    lane: str


class Sealing(msgspec.Struct, frozen=True):
    """What seals a tenant's sensitive headers, and which targets it may have."""

    tenant: str
    vault: Vault
    policy: AddressPolicy


def aim_of(faults: Faults, request: TargetRequest, sealing: Sealing, at: str = "/target") -> Aim:
    """The target that a request asks for."""
    lane = ""
    try:
        lane = _lane_of(request.url, sealing.policy)
    except TargetRefused as refused:
        faults.add(f"{at}/url", refused.detail, refused.code)
    method = "POST"
    if request.method is not None:
        method = request.method
        fault = method_fault(method, f"{at}/method")
        if fault is not None:
            faults.add(*fault)
    kind, body = _body_of(faults, request, at)
    plain, sealed = _headers_of(faults, request, sealing, at) if request.headers else ({}, {})
    timeout_ms, success = DEFAULT_TIMEOUT_MS, DEFAULT_SUCCESS
    if request.timeout is not None:
        timeout_ms = checks.duration(faults, f"{at}/timeout", request.timeout, 0, TIMEOUT_LIMIT_MS, least_ms=1)
    if request.success is not None:
        success = _success_of(faults, request.success, f"{at}/success")
    return Aim(Target(request.url, method, plain, sealed, kind, body, timeout_ms, success), lane)


@lru_cache(maxsize=JUDGED_MAX)
def _lane_of(url: str, policy: AddressPolicy) -> str:
    """The lane of a target that may be called; raises `TargetRefused`."""
    parsed = judge_url(url, policy)
    return f"{parsed.host}:{parsed.port}"


def _body_of(faults: Faults, request: TargetRequest, at: str) -> tuple[BodyKind | None, str]:
    """What is sent, and how it is kept. JSON stays as it was written."""
    raw = b"" if request.body is UNSET else bytes(request.body)
    has_json = raw not in (b"", b"null")
    if has_json + (request.body_text is not None) + (request.body_base64 is not None) > 1:
        bodies = {"body": has_json or None, "body_text": request.body_text, "body_base64": request.body_base64}
        given = [name for name, there in bodies.items() if there is not None]
        faults.add(f"{at}/{given[1]}", f"A target has one body, not {' and '.join(given)}.")
        return None, ""
    if request.body_text is not None:
        if "\0" in request.body_text:
            faults.add(f"{at}/body_text", "A text does not contain NUL; send it as body_base64.")
        return "text", request.body_text
    if request.body_base64 is not None:
        try:
            b64decode(request.body_base64, validate=True)
        except (MalformedBase64, ValueError):
            faults.add(f"{at}/body_base64", "This is no base64.")
        return "base64", request.body_base64
    return ("json", raw.decode()) if has_json else (None, "")


def _headers_of(
    faults: Faults, request: TargetRequest, sealing: Sealing, at: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Headers in the clear and sealed ones."""
    headers = request.headers or {}
    sensitive = request.sensitive_headers or ()
    if len(sensitive) > SENSITIVE_MAX:
        faults.add(f"{at}/sensitive_headers", f"At most {SENSITIVE_MAX} headers can be named.")
        return {}, {}
    faults.extend(header_faults(headers, f"{at}/headers"))
    plain: dict[str, str] = {}
    sealed: dict[str, str] = {}
    for name, value in headers.items():
        if is_masked(value):
            # Whatever the header's name: which ones a task named as secret is not shown, so it is not sent back.
            detail = "This is a secret as we show it, not the secret itself. Send the secret, or leave the target out."
            faults.add(f"{at}/headers{pointer_of(name)}", detail)
        elif not is_sensitive(name, sensitive):
            plain[name] = value
        else:
            sealed[name] = sealing.vault.seal(value, header_context(sealing.tenant, name))
    return plain, sealed


def _success_of(faults: Faults, entries: list[str | int], at: str) -> tuple[str, ...]:
    if not 0 < len(entries) <= SUCCESS_MAX:
        faults.add(at, f"There are 1 to {SUCCESS_MAX} entries.")
    for index, entry in enumerate(entries):
        match = _SUCCESS.fullmatch(str(entry))
        if match is None or (match[1] and match[1] > match[2]):
            faults.add(f"{at}/{index}", "An entry is a status from 200 to 599, a range such as 200-204, or 2xx.")
    return tuple(str(entry) for entry in entries)


def retry_of(faults: Faults, request: RetryRequest | None, at: str = "/retry") -> RetryPolicy:
    """The retry policy that a request asks for."""
    if request is None:
        return DEFAULT_RETRY
    plain = DEFAULT_RETRY
    strategy = request.strategy or ("list" if request.delays else plain.strategy)
    delays = _delays_of(faults, request, strategy, at)
    initial_ms = checks.duration(faults, f"{at}/initial", request.initial, plain.initial_ms, DELAY_LIMIT_MS)
    # A delay that was asked for must not be cut short by a default.
    longest_ms = max(plain.max_delay_ms, initial_ms, *delays)
    return RetryPolicy(
        max_attempts=checks.number(
            faults, f"{at}/max_attempts", request.max_attempts, plain.max_attempts, 1, MAX_ATTEMPTS_LIMIT
        ),
        strategy=strategy,
        initial_ms=initial_ms,
        factor=checks.fraction(faults, f"{at}/factor", request.factor, plain.factor, 1.0, FACTOR_MAX),
        max_delay_ms=checks.duration(faults, f"{at}/max_delay", request.max_delay, longest_ms, DELAY_LIMIT_MS),
        jitter=checks.fraction(faults, f"{at}/jitter", request.jitter, plain.jitter, 0.0, 1.0),
        delays_ms=delays,
    )


def _delays_of(faults: Faults, request: RetryRequest, strategy: str, at: str) -> tuple[int, ...]:
    if request.delays is None:
        if strategy == "list":
            faults.add(f"{at}/delays", 'The strategy "list" needs delays.')
        return ()
    if strategy != "list":
        faults.add(f"{at}/delays", 'Delays go with the strategy "list".')
        return ()
    if not 0 < len(request.delays) <= DELAYS_MAX:
        faults.add(f"{at}/delays", f"There are 1 to {DELAYS_MAX} delays.")
        return ()
    return tuple(
        checks.duration(faults, f"{at}/delays/{index}", delay, 0, DELAY_LIMIT_MS)
        for index, delay in enumerate(request.delays)
    )
