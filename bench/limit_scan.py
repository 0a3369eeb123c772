"""Limit of `boot`: what waits is read in the order of its index, and forgotten."""

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from tasktick.store.connect import raw_connection
from tasktick.store.database import FILE_NAME

PAGE_ROWS = 5_000
SCAN = "SELECT wake_at, id FROM tasks WHERE state IN (2, 5) ORDER BY wake_at >> 10, id"


def measure(file: Path) -> dict[str, float]:
    """Read all of it."""
    raw: Any = raw_connection(file, read_only=True)
    try:
        began, rows = time.perf_counter(), 0
        cursor = raw.execute(SCAN)
        while page := cursor.fetchmany(PAGE_ROWS):
            rows += len(page)
        return {"rows": rows, "seconds": time.perf_counter() - began}
    finally:
        raw.close()


async def measure_server(url: str) -> dict[str, float]:
    """The same off a server's index."""
    raw = await asyncpg.connect(url)
    try:
        async with raw.transaction(readonly=True):
            began, rows = time.perf_counter(), 0
            cursor = await raw.cursor(SCAN)
            while page := await cursor.fetch(PAGE_ROWS):
                rows += len(page)
            return {"rows": rows, "seconds": time.perf_counter() - began}
    finally:
        await raw.close()


def main() -> None:
    """Measure once and say it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--folder", type=Path, required=True)
    arguments.add_argument("--store", help="URL of a server's database")
    given = arguments.parse_args()
    said = asyncio.run(measure_server(given.store)) if given.store else measure(given.folder / FILE_NAME)
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")


if __name__ == "__main__":
    main()
