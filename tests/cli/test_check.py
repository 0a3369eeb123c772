"""What `store check` finds in sound and damaged stores."""

from pathlib import Path

import pytest

from tasktick.errors import StoreError
from tasktick.store.check import Report, check
from tasktick.store.connect import raw_connection
from tasktick.store.sqlite import WRITER_PRAGMAS
from tests.cli.stores import damage, make_store

PAGE_BYTES = 4_096


def _broken(report: Report) -> dict[str, str]:
    return {one.name: one.detail for one in report.checks if not one.ok}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a folder?#%41" / "tasktick.db"


@pytest.mark.parametrize("full", [False, True])
def test_a_sound_store(path: Path, full: bool) -> None:
    make_store(path)
    report = check(path, full=full)
    assert report.ok
    assert not _broken(report)
    assert len(report.checks) == 22


def test_it_reads_beside_a_writer_and_changes_nothing(path: Path) -> None:
    make_store(path)
    writer = raw_connection(path, WRITER_PRAGMAS)
    try:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM counts")
        assert check(path).ok  # what is not committed is not there
        writer.execute("ROLLBACK")
    finally:
        writer.close()
    before = path.read_bytes()
    assert check(path).ok
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "statement", "said"),
    [
        ("counts", "UPDATE counts SET tasks = tasks + 1 WHERE state = 2", "kept 5, there are 4"),
        ("counts", "DELETE FROM counts WHERE state % 256 = 11", "kept 0, there are 1"),
        ("details", "DELETE FROM task_details WHERE id = '{waiting}'", "1 without details, such as {waiting}"),
        ("payloads", "UPDATE task_details SET payload = NULL WHERE id = '{running}'", "such as {running}"),
        ("payloads", "UPDATE tasks SET payload_version = 2 WHERE id = '{dead}'", "such as {dead}"),
        ("payloads", "UPDATE task_details SET payload = '{{' WHERE id = '{dead}'", "such as {dead}"),
        ("running", "UPDATE tasks SET lease_until = NULL WHERE state = 4", "such as {running}"),
        ("running", "DELETE FROM nodes", "such as {running}"),
        ("finished", "UPDATE tasks SET completed_at = NULL WHERE id = '{succeeded}'", "such as {succeeded}"),
        ("dead letters", "DELETE FROM dead_letters", "such as {dead}"),
        ("orphans", "UPDATE attempts SET task_id = 'nobody' WHERE task_id = '{dead}'", "such as nobody"),
        ("keys", "UPDATE names SET object_id = '{cancelled}'", "such as invoice-1"),
        ("states", "UPDATE tasks SET state = 9 WHERE id = '{waiting}'", "such as {waiting}"),
        ("events", "UPDATE events SET items = '{{' WHERE sequence = 2", "such as 2"),
        ("events", "UPDATE events SET upto = 0 WHERE sequence = 3", "such as 3"),
        ("partitions", "DELETE FROM leases WHERE partition_id = 3", "1 missing"),
        ("structure", "DROP INDEX tasks_waiting_by_slot", "index tasks_waiting_by_slot"),
        ("schema", "UPDATE schema_history SET checksum = 'x'", "was changed after it was released"),
        ("schema", "DELETE FROM schema_history", "no TaskTick store"),
    ],
)
def test_a_fault_is_named(path: Path, name: str, statement: str, said: str) -> None:
    ids = make_store(path)
    damage(path, statement.format(**ids))
    report = check(path)
    assert not report.ok
    assert said.format(**ids) in _broken(report)[name]


def test_a_torn_page(path: Path) -> None:
    make_store(path, waiting=300)
    with path.open("r+b") as file:
        file.seek(0, 2)
        file.seek((file.tell() // PAGE_BYTES // 2) * PAGE_BYTES)
        file.write(b"\x5a" * (3 * PAGE_BYTES))
    assert "pages" in _broken(check(path))


@pytest.mark.parametrize("text", [b"", b"hello\n" * 1_000])
def test_another_file(path: Path, text: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(text)
    assert not check(path).ok


def test_no_store(path: Path) -> None:
    with pytest.raises(StoreError, match="There is no store at"):
        check(path)
