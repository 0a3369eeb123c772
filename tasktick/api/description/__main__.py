"""Writes the OpenAPI document as it is committed: `python -m tasktick.api.description`."""

import sys

import msgspec

from tasktick.api.call import encode
from tasktick.api.description.document import describe
from tasktick.api.routes import table


def written() -> bytes:
    """The document, for people to compare."""
    return msgspec.json.format(encode(describe(table())), indent=2) + b"\n"


if __name__ == "__main__":
    sys.stdout.buffer.write(written())
