"""What a person is told when a PostgreSQL cannot be opened: one sentence of what is wrong, and what to do about it."""

import re
import socket
from urllib.parse import parse_qsl, urlsplit

from tasktick.errors import ConfigError, StoreError, StoreUnavailable
from tasktick.store.postgres import known
from tasktick.store.postgres_links import PostgresAddress

# Undefined object, invalid value, one that cannot be changed, one that this role may not change.
SETTING_STATES = frozenset({"42704", "22023", "55P02", "42501"})
ABOUT_THE_CONNECTION = frozenset({"host", "port", "user", "password", "database", "dbname"})
NOT_ALLOWED = "42501"


def raise_as_ours(address: PostgresAddress, error: BaseException) -> None:
    """Raise what a person can do something about, if this is about the store."""
    raise_misset(address, error)
    ours = known(error)
    if isinstance(error, ValueError) and ours is error:
        advice = " Name it with sslrootcert=FILE in the URL." if "root certificate" in str(error) else ""
        raise ConfigError(f"store.url: {address.shown} cannot be opened: {_first_line(error)}.{advice}") from error
    if isinstance(ours, StoreUnavailable):
        reason = _first_line(ours).removeprefix("The store cannot be reached: ")
        advice = "Check that the server runs, the URL, and who may log in."
        if isinstance(error, socket.gaierror):
            reason, advice = f"its host cannot be resolved ({error.strerror})", "Check the name in the URL."
        raise StoreError(f"The store {address.shown} cannot be opened: {reason}. {advice}") from error
    if ours is not error:
        raise ours from error


def raise_misset(address: PostgresAddress, error: BaseException) -> None:
    """Raise if the URL sets what the server does not know, or names a role that may not make tables there."""
    state = getattr(error, "sqlstate", None)
    if state not in SETTING_STATES:
        return
    reason = _first_line(error)
    parts = urlsplit(address.url)
    names = [name for name, _ in parse_qsl(parts.query) if re.search(rf"\b{re.escape(name)}\b", reason)]
    names = [name for name in names if name not in ABOUT_THE_CONNECTION]
    if names:
        raise ConfigError(
            f"store.url: {address.shown} cannot be opened: {reason}. Correct {names[0]} in the URL."
        ) from error
    if state == NOT_ALLOWED:
        raise ConfigError(
            f"store.url: the role may not do what it must at {address.shown}: {reason}. Make the database its own "
            "(createdb --owner=ROLE DATABASE), or let it make tables there (GRANT USAGE, CREATE ON SCHEMA … TO ROLE)."
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).partition("\n")[0] or type(error).__name__).rstrip(".")
