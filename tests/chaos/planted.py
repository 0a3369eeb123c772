"""Runs tests with a bug planted: `python -m tests.chaos.planted NAME TEST…`. The answer is pytest's: 1 is caught."""

import sys

import pytest

from tests.chaos.plants import PLANTS


def main() -> int:
    """Plant it, then run."""
    name, *tests = sys.argv[1:]
    if name != "nothing":
        PLANTS[name]()
    return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--no-header", *tests]))


if __name__ == "__main__":
    raise SystemExit(main())
