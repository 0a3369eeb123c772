"""How much of an answer is taken, however it is sent and whatever reads it."""

BODY_BYTES_MAX = 16_384
"""So much of a body is kept; a connection that has carried more is not used again."""

HEAD_BYTES_MAX = 65_536
"""The headers, and the interim answers before them."""

ANSWER_BYTES_MAX = 1_048_576
"""All of it, with what chunks add to a body."""

HEADER_LINES_MAX = 256
INTERIM_MAX = 10

KEPT_HEADERS_MAX = 64
KEPT_HEADER_CHARS_MAX = 16_384

SLICE_BYTES = 4_096
"""Bytes given to a parser at once until the headers are complete."""

RECEIVED_AHEAD_BYTES = 65_536
"""What the kernel takes in ahead of us. Left to itself it takes megabytes from a receiver that floods, and the loop
reads them in one turn."""

# Statuses whose answers have no body, whatever their headers promise.
BODILESS = frozenset({204, 304})
