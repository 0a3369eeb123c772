"""TLS towards receivers: verified, and bounded in what may come in beside what it carries.

A client must skip some messages of the handshake, and TLS 1.3 has more of them after it. A receiver that
sends nothing else keeps the loop busy until a deadline: ten of them held it up for more than a second. So
each connection counts what comes in against what came out of it.
"""

import ssl
import sys
from functools import cache
from typing import Any, cast

# Bytes of TLS itself on one connection. A chain of certificates, OpenSSL's own bound, has at most 100 KiB.
TLS_BYTES_MAX = 262_144
# And so many for each byte that was carried: a record of one byte is 23.
TLS_BYTES_PER_BYTE = 64


class _Flood(ssl.SSLError):
    reason = "nothing but TLS was received"


class _Bounded(ssl.SSLObject):
    """One connection's TLS, which gives up on a receiver that sends nothing but TLS."""

    incoming: ssl.MemoryBIO
    _taken_bytes = 0
    _carried_bytes = 0
    _left_bytes = 0

    def do_handshake(self) -> None:
        self._count()
        try:
            super().do_handshake()
        finally:
            self._left_bytes = self.incoming.pending

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # the signature is ssl's
        self._count()
        try:
            found: Any = super().read(len, buffer)
            self._carried_bytes += found if isinstance(found, int) else found.__len__()
        finally:
            self._left_bytes = self.incoming.pending
        return found

    def _count(self) -> None:
        self._taken_bytes += self.incoming.pending - self._left_bytes
        if self._taken_bytes > TLS_BYTES_MAX + TLS_BYTES_PER_BYTE * self._carried_bytes:
            raise _Flood


class _BoundedContext(ssl.SSLContext):
    sslobject_class = _Bounded

    def wrap_bio(self, incoming: ssl.MemoryBIO, *others: Any, **options: Any) -> ssl.SSLObject:
        made = cast(_Bounded, super().wrap_bio(incoming, *others, **options))
        made.incoming = incoming
        return made


def client_context(authorities: str | None = None) -> ssl.SSLContext:
    """A context that trusts this file of authorities, or those of the system."""
    context = _BoundedContext(ssl.PROTOCOL_TLS_CLIENT)
    if sys.version_info >= (3, 13):  # as ssl.create_default_context has it
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if authorities is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(authorities)
    return context


@cache
def system_context() -> ssl.SSLContext:
    """The context that trusts the system's authorities, read once."""
    return client_context()
