"""What stands in the way of a move is told, and costs nothing: the same command goes on once it is gone."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import pytest

from tasktick.errors import StoreError, StoreLocked, StoreMoved, StoreUnavailable
from tasktick.store.connect import raw_connection
from tasktick.store.moving import Mover, Tools
from tasktick.store.moving_ends import End
from tasktick.store.moving_tables import TABLES
from tests import postgres
from tests.store.moving import KillAt, Killed, end_of, fill, holds, may_be_served, move, served

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(180)]


async def test_what_is_in_use_is_left_alone(newest_server: str, rich_file: Path, tmp_path: Path) -> None:
    async with served(rich_file, tmp_path):
        said = r"is in use by another TaskTick \(process \d+\)\. Stop that one first\. Or add --online"
        with pytest.raises(StoreLocked, match=said):
            await move(rich_file, newest_server)
    other = tmp_path / "other.db"
    async with served(other, tmp_path):
        with pytest.raises(StoreLocked):
            await move(rich_file, other)


async def test_wrong_places_are_refused(newest_server: str, rich_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    async with served(other, tmp_path) as database:
        await fill(database)
    with pytest.raises(StoreError, match="is not empty"):
        await move(rich_file, other)
    with pytest.raises(StoreError, match="is not empty"):
        await move(rich_file, other, replace=True)
    copy = tmp_path / "copy.db"
    shutil.copy(rich_file, copy)
    with pytest.raises(StoreError, match="or a copy of it"):
        await move(rich_file, copy)
    with pytest.raises(StoreError, match="There is no"):
        await move(tmp_path / "nothing.db", newest_server)
    with pytest.raises(Killed):
        await move(other, newest_server, at=KillAt(point="copy tasks"))
    with pytest.raises(StoreMoved, match=r"is being filled from sqlite:///.*other\.db"):
        await move(rich_file, newest_server)
    with pytest.raises(StoreMoved, match="is itself being filled"):
        await move(newest_server, tmp_path / "third.db")
    await move(rich_file, newest_server, replace=True)
    with pytest.raises(StoreMoved, match="has moved to"):
        await move(rich_file, tmp_path / "third.db")
    with pytest.raises(StoreMoved, match="Add --replace"):
        await move(newest_server, rich_file)
    assert (await move(newest_server, rich_file, replace=True)).tables == await holds(rich_file)
    assert await may_be_served(rich_file, tmp_path)


async def test_a_place_that_is_in_use_by_others_is_left_as_it_is(
    newest_server: str, rich_file: Path, tmp_path: Path
) -> None:
    connection = await asyncpg.connect(newest_server)
    await connection.execute("CREATE TABLE invoices (id integer)")
    query = "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema()"
    foreign = tmp_path / "foreign.db"
    raw = raw_connection(foreign)
    raw.execute("CREATE TABLE invoices (id integer)")
    raw.close()
    text = tmp_path / "notes.txt"
    text.write_text("hello\n" * 1_000)
    for place in (newest_server, foreign):
        with pytest.raises(StoreError, match="is not empty: it holds invoices"):
            await move(rich_file, place)
        with pytest.raises(StoreError, match="There is no TaskTick store at"):
            await move(place, tmp_path / "new.db")
    for source, target in ((rich_file, text), (text, newest_server)):
        with pytest.raises(StoreError, match=r"notes\.txt is no SQLite database"):
            await move(source, target)
    with pytest.raises(StoreError, match=r"There is no folder .*missing"):
        await move(rich_file, tmp_path / "missing" / "deep" / "new.db")
    assert not (tmp_path / "missing").exists()
    assert await connection.fetchval(query) == 1
    await connection.execute("DROP TABLE invoices")
    await connection.close()
    await move(rich_file, newest_server)


async def test_a_place_that_was_given_up_for_another_is_to_be_removed(
    newest_server: str, rich_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        await move(rich_file, newest_server, at=KillAt(point="copy tasks"))
    await move(rich_file, tmp_path / "second.db")
    assert not await may_be_served(newest_server, tmp_path)
    with pytest.raises(StoreMoved, match=r"has moved to .*second\.db\. .* given up for that one: remove it"):
        await move(rich_file, newest_server)


async def test_one_place_named_twice(newest_server: str, rich_file: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked.db"
    linked.symlink_to(rich_file)
    for pair in ((rich_file, linked), (newest_server, newest_server)):
        for online in (False, True):
            with pytest.raises(StoreError, match=r"--from and --to are the same place, .*Name another with --to"):
                await move(*pair, online=online)


async def test_a_move_that_was_cut_off_can_be_given_up(newest_server: str, rich_file: Path, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        await move(rich_file, newest_server, at=KillAt(point="left"))
    assert not await may_be_served(rich_file, tmp_path)
    await _forget(rich_file, newest_server)
    assert await may_be_served(rich_file, tmp_path)
    assert not await may_be_served(newest_server, tmp_path)
    await move(rich_file, newest_server)
    with pytest.raises(StoreError, match="was not cut off"):
        await _forget(rich_file, newest_server)


async def test_who_slept_while_the_move_was_given_up_opens_nothing(
    newest_server: str, rich_file: Path, tmp_path: Path
) -> None:
    """A server knows of no lock that a run holds: it may wake up when the source is served again."""
    await move(rich_file, newest_server)
    async with postgres.cluster(max(postgres.installed())).new_schema() as other:
        for has_target in (True, False):
            ends = end_of(newest_server, may_make=False), end_of(other)

            async def give_up(has_target: bool = has_target) -> None:
                hands = end_of(newest_server), end_of(other)
                await Mover(*hands, Tools(_Clock(), "third")).forget(has_target=has_target)
                for end in hands:
                    await end.close()

            def asleep(point: str) -> None:
                if point == "checked":
                    thread = threading.Thread(target=lambda: asyncio.run(give_up()))
                    thread.start()
                    thread.join()

            with pytest.raises(StoreError, match=r"has taken over|was given up"):
                await Mover(*ends, Tools(_Clock(), "second", at=asleep)).move()
            for end in ends:
                await end.close()
            assert await may_be_served(newest_server, tmp_path)
            assert not await may_be_served(other, tmp_path)


async def _forget(source: Path, target: str) -> None:
    ends = end_of(source), end_of(target)
    try:
        await Mover(*ends, Tools(_Clock(), "run")).forget(has_target=True)
    finally:
        for end in ends:
            await end.close()


class _Clock:
    def now_ms(self) -> int:
        return 1

    def monotonic_ms(self) -> float:
        return 1.0

    async def sleep_ms(self, duration_ms: float) -> None:
        raise AssertionError("there is nothing to wait for")


async def test_a_second_mover_takes_over_and_the_first_writes_nothing_more(newest_server: str, rich_file: Path) -> None:
    first = end_of(rich_file, may_make=False), end_of(newest_server)
    mover = Mover(*first, Tools(_Clock(), "first"))
    try:
        await first[1].hold()
        await first[0].hold()
        source = await first[0].whereabouts()
        await first[1].begin("there", source.store_id, "first", clear=False)
        second = end_of(newest_server)
        await second.hold()
        await second.go_on(source.store_id, "second")
        await second.close()
        await _columns(first)
        with pytest.raises(StoreError, match="has taken over"):
            await mover._pass("copy")
    finally:
        for end in first:
            await end.close()


async def _columns(ends: Sequence[End]) -> None:
    for end in ends:
        for table in TABLES:
            await end.columns(table)


async def test_a_connection_that_is_lost_is_no_loss(newest_server: str, rich_file: Path) -> None:
    lost: list[str] = []

    def cut(point: str) -> None:
        if point == "copy tasks" and not lost:
            lost.append(point)
            end._raw.terminate()  # type: ignore[attr-defined] # as a network would

    end = end_of(newest_server)
    source = end_of(rich_file, may_make=False)
    try:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await Mover(source, end, Tools(_Clock(), "first", at=cut)).move()
    finally:
        await source.close()
        await end.close()
    assert lost
    assert (await move(rich_file, newest_server)).tables == await holds(newest_server)


async def test_a_full_disk_is_told_and_outlived(newest_server: str, rich_file: Path, tmp_path: Path) -> None:
    await move(rich_file, newest_server)
    target = tmp_path / "small.db"
    ends = end_of(newest_server), end_of(target)
    small = KillAt()

    def tighten(point: str) -> None:
        small(point)
        if point == "begun":
            raw: sqlite3.Connection = ends[1]._connection  # type: ignore[attr-defined] # as a small disk would
            pages = raw.execute("PRAGMA page_count").fetchone()[0]
            raw.execute(f"PRAGMA max_page_count = {pages + 5}")

    try:
        with pytest.raises(StoreUnavailable, match="is full"):
            await Mover(*ends, Tools(_Clock(), "first", at=tighten)).move()
    finally:
        for end in ends:
            await end.close()
    assert (await move(newest_server, target)).tables == await holds(target)


@pytest.mark.parametrize(
    ("table", "change"),
    [("attempts", "error_detail = 'a' || char(0)"), ("tasks", "priority = 3000000000")],
)
async def test_what_a_server_cannot_hold_is_told_with_its_table(
    newest_server: str, rich_file: Path, table: str, change: str
) -> None:
    """No request brings such a row; a hand or another program may."""
    raw = sqlite3.connect(rich_file)
    raw.execute(f"UPDATE {table} SET {change}")
    raw.commit()
    raw.close()
    with pytest.raises(StoreError, match=rf"refused a part of the move \(table {table}.*store check"):
        await move(rich_file, newest_server)
