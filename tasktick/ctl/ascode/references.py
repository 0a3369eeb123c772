"""Secrets that a file names and does not hold: `${ENV:NAME}` and `${FILE:path}` in the headers of a call."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MASK = "***"
SECRET_BYTES_MAX = 8_192
_REFERENCE = re.compile(r"\$\{(ENV|FILE):([^{}]+)\}")
MASKED = (
    "This is a secret as it is shown, not the secret itself: write ${ENV:NAME} or ${FILE:path}, which is looked up "
    "when the file is applied."
)


class Unresolved(ValueError):
    """What is named is not there."""


def resolved(text: str, environment: Mapping[str, str], folder: Path) -> str:
    """The text with what its references stand for; paths are relative to the folder of the file."""

    def value(found: re.Match[str]) -> str:
        kind, name = found[1], found[2]
        if kind == "ENV":
            if name not in environment:
                raise Unresolved(f"The environment has no {name}: set it, and run this again.")
            return environment[name]
        try:
            data = (folder / name).read_bytes()[: SECRET_BYTES_MAX + 1]
        except OSError as error:
            raise Unresolved(f"The file {name} cannot be read: {error.strerror}.") from None
        if len(data) > SECRET_BYTES_MAX:
            raise Unresolved(f"The file {name} has over {SECRET_BYTES_MAX} bytes.")
        try:
            return data.decode().strip()
        except UnicodeDecodeError:
            raise Unresolved(f"What the file {name} holds is no text.") from None

    return _REFERENCE.sub(value, text)


def has_mask(reading: Mapping[str, Any]) -> bool:
    """Whether a schedule, as a server shows it, has a header that is a secret."""
    headers = ((reading.get("task") or {}).get("target") or {}).get("headers") or {}
    return any(str(value).startswith(MASK) for value in headers.values())


def headers_of(
    target: dict[str, Any], environment: Mapping[str, str], folder: Path
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The target with its references resolved, and what is wrong with its headers, by name.

    A header that holds one is a secret, whatever its name: it is named so to the server.
    """
    headers = target.get("headers")
    if not isinstance(headers, dict):
        return target, []
    made: dict[str, Any] = {}
    secret: list[str] = []
    faults: list[tuple[str, str]] = []
    for name, value in headers.items():
        made[name] = value
        if not isinstance(value, str):
            continue
        if value.startswith(MASK):
            faults.append((name, MASKED))
        elif _REFERENCE.search(value):
            secret.append(name)
            try:
                made[name] = resolved(value, environment, folder)
            except Unresolved as error:
                faults.append((name, str(error)))
    named = target.get("sensitive_headers")
    if secret and (named is None or isinstance(named, list)):
        return {**target, "headers": made, "sensitive_headers": [*(named or ()), *secret]}, faults
    return {**target, "headers": made}, faults
