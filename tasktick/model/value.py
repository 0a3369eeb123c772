"""What values of compiled modules are: frozen, and of plain things, so that the collector need not look at them.

There a class can have this from a base alone: what stands beside the bases, such as `frozen=True`, is for who checks
types, and is lost.
"""

import msgspec


class Value(msgspec.Struct, frozen=True, gc=False):
    """It never changes, and holds nothing that could lead back to it."""
