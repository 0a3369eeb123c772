"""What an exception of the HTTP client means, in our words.

Details are our own sentences with a system's error text at most: an exception's own text may quote the
URL, a header, an internal address, or whatever the receiver sent.
"""

import os
import socket
import ssl

from aiohttp import (
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientOSError,
    ClientPayloadError,
    ClientResponseError,
    ClientSSLError,
    ConnectionTimeoutError,
    InvalidURL,
    ServerDisconnectedError,
    ServerTimeoutError,
)

from tasktick.dispatch.guard import AddressPolicy, ForbiddenAddress, TargetRefused, judge_url
from tasktick.dispatch.outcome import (
    BAD_RESPONSE,
    BAD_TARGET,
    CONNECT_FAILED,
    CONNECT_TIMEOUT,
    DNS_FAILED,
    FORBIDDEN_ADDRESS,
    INTERNAL,
    RESET,
    TIMEOUT,
    TLS_FAILED,
    Failure,
)

CAUSE_CHARS_MAX = 200


def failure_of(error: Exception) -> Failure:
    """Why a request failed."""
    if isinstance(error, ClientSSLError):
        return _with(TLS_FAILED, _tls_cause(error))
    if isinstance(error, ClientConnectorError):
        if isinstance(error.os_error, ForbiddenAddress):
            return FORBIDDEN_ADDRESS
        if isinstance(error, ClientConnectorDNSError):
            return _with(DNS_FAILED, _dns_cause(error.os_error))
        if _is_cut_handshake(error.os_error):
            return _with(TLS_FAILED, "the receiver closed the connection during the handshake")
        return _with(CONNECT_FAILED, _os_cause(error.os_error))
    for kind, failure in _BY_KIND:
        if isinstance(error, kind):
            return failure
    return _with(INTERNAL, type(error).__name__)


def refused_target(url: str, policy: AddressPolicy, failure: Failure) -> Failure:
    """The failure, or what the guard says of a URL that cannot be called."""
    if failure is not BAD_TARGET:
        return failure
    try:
        judge_url(url, policy)
    except TargetRefused as refused:
        return FORBIDDEN_ADDRESS if refused.code == "target_forbidden" else BAD_TARGET
    return failure


# In this order: a later kind may be the parent of an earlier one.
_BY_KIND: tuple[tuple[type[Exception], Failure], ...] = (
    (ConnectionTimeoutError, CONNECT_TIMEOUT),
    (ServerTimeoutError, TIMEOUT),
    (ClientResponseError, BAD_RESPONSE),
    (ClientPayloadError, BAD_RESPONSE),
    (ServerDisconnectedError, RESET),
    (ClientOSError, RESET),
    (ConnectionError, RESET),
    (InvalidURL, BAD_TARGET),
)


def _is_cut_handshake(error: OSError) -> bool:
    """Whether there was a connection that ended before it was made: without TLS it is made at once."""
    return isinstance(error, ConnectionResetError | ConnectionAbortedError)


def _with(failure: Failure, cause: str) -> Failure:
    if not cause:
        return failure
    detail = f"{failure.detail[:-1]}: {cause[:CAUSE_CHARS_MAX].rstrip('.')}."
    return Failure(failure.code, failure.error_class, detail)


def _os_cause(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno is not None else ""


def _dns_cause(error: OSError) -> str:
    return str(error.strerror) if isinstance(error, socket.gaierror) and error.strerror else ""


def _tls_cause(error: ClientSSLError) -> str:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return str(cause.verify_message)
    # One that Python code raised has no reason of OpenSSL's.
    reason = getattr(cause, "reason", None) if isinstance(cause, ssl.SSLError) else None
    return str(reason).lower().replace("_", " ") if reason else ""
