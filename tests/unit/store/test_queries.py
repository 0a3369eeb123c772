"""The parser of named statements."""

from pathlib import Path

import pytest

from tasktick.store import queries
from tasktick.store.queries import fragments_of, load, parse, split


def test_names_bodies_and_the_text_above_them() -> None:
    text = "-- About this file.\n\n-- name: one\nSELECT 1;\n\n-- What two does.\n-- name: two\nSELECT 2;\n"
    assert parse(text) == {"one": ("SELECT 1",), "two": ("SELECT 2",)}


def test_a_name_may_hold_several_statements() -> None:
    assert parse("-- name: both\nDELETE FROM a;\nDELETE FROM b;  \n") == {"both": ("DELETE FROM a", "DELETE FROM b")}


def test_a_semicolon_within_a_line_ends_nothing() -> None:
    assert split("SELECT ';' AS x, 1;\nSELECT 2;") == ("SELECT ';' AS x, 1", "SELECT 2")


def test_fragments_stand_where_they_are_included() -> None:
    text = "-- fragment: columns\n    a, b\n\n-- name: one\nSELECT\n    -- include: columns\nFROM t;\n"
    assert parse(text) == {"one": ("SELECT\n    a, b\nFROM t",)}


def test_fragments_may_include_others() -> None:
    fragments = "-- fragment: a\n    a\n\n-- fragment: both\n-- include: a\n    , b\n\n"
    text = f"{fragments}-- name: one\nSELECT\n-- include: both\n;\n"
    assert parse(text) == {"one": ("SELECT\n    a\n    , b",)}


def test_fragments_of_another_file_are_named_with_it() -> None:
    others = fragments_of("-- fragment: a\n    a\n\n-- fragment: both\n-- include: a\n    , b\n\n", "claims.")
    text = "-- fragment: a\n    c\n\n-- name: one\nSELECT\n-- include: claims.both\n,\n-- include: a\n;\n"
    assert parse(text, others) == {"one": ("SELECT\n    a\n    , b\n,\n    c",)}


def test_a_fragment_may_include_one_of_another_file() -> None:
    others = fragments_of("-- fragment: a\n    a\n\n-- fragment: b\n-- include: a\n\n", "tasks.")
    others |= fragments_of(
        "-- fragment: a\n    c\n\n-- fragment: both\n-- include: tasks.b\n,\n-- include: a\n\n", "claims."
    )
    text = "-- name: one\nSELECT\n-- include: claims.both\n;\n"
    assert parse(text, others) == {"one": ("SELECT\n    a\n,\n    c",)}


def test_comments_within_a_statement_fall_away() -> None:
    assert parse("-- name: one\nSELECT 1\n    -- which is: not two\n;\n") == {"one": ("SELECT 1",)}


def test_a_fragment_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="columns"):
        parse("-- name: one\nSELECT\n-- include: columns\n;\n")


def test_a_name_that_stands_twice_in_a_file_is_refused() -> None:
    with pytest.raises(ValueError, match="one"):
        parse("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;\n")


def test_a_name_that_stands_in_two_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sql" / "other"
    folder.mkdir(parents=True)
    for name in ("a.sql", "b.sql"):
        (folder / name).write_text("-- name: one\nSELECT 1;\n")
    monkeypatch.setattr(queries, "files", lambda _: tmp_path)
    with pytest.raises(ValueError, match=r"other/b\.sql defines the statement 'one' a second time"):
        load.__wrapped__("other")


def test_ours_are_loaded_once_and_none_is_empty() -> None:
    found = load("sqlite")
    assert found is load("sqlite")
    assert "task_claim" in found
    assert all(found.values())


def test_parameters_are_numbered_by_name() -> None:
    found = queries.positional("SELECT ':no', a::text, '''' || :b::text, :a_1 FROM t WHERE x = :b -- 'it")
    assert found.text == "SELECT ':no', a::text, '''' || $1::text, $2 FROM t WHERE x = $1 -- 'it"
    assert found.names == ("b", "a_1")
