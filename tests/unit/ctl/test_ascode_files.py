"""Files of schedules: read, with the line of what is wrong, and written so that reading gives the same."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasktick.ctl.ascode import document, references, toml_text, yaml_text
from tasktick.ctl.ascode.document import Faulty, Unreadable

TOML = """owner = "billing"
[schedules.daily]
cron = "0 9 * * *"
start_at = 2026-12-01T09:00:00+01:00
[schedules.daily.task.target]
url = "https://app.example/"
headers.Authorization = "x"
[schedules."a.b"]
every = 1
task.target.url = "z"
"""
JSON = """{"owner": "a",
 "schedules": {"x": {"every": 1,
   "spec": [{"cron": "1"},
     {"cron": 2}],
   "task": {"target":
      {"url": "x:{"}}}}}"""
YAML = """owner: billing
schedules:
  daily:
    cron: 0 9 * * *
    spec:
    - cron: a
    - cron: b
    task:
      target: {url: z}
"""


def read(text: str, name: str = "a.toml") -> document.Declared:
    return document.read(name, text.encode())


def faults(text: str, name: str = "a.toml") -> str:
    with pytest.raises(Faulty) as found:
        read(text, name)
    return str(found.value)


def test_every_format_says_the_same_and_knows_its_lines() -> None:
    toml = read(TOML)
    assert (toml.owner, list(toml.schedules)) == ("billing", ["daily", "a.b"])
    assert toml.schedules["daily"]["start_at"] == "2026-12-01T09:00:00+01:00"
    places: list[tuple[str, ...]] = [
        ("daily",),
        ("daily", "cron"),
        ("daily", "task", "target", "headers", "Authorization"),
    ]
    assert [toml.line_of(("schedules", *place)) for place in places] == [2, 3, 7]
    assert toml.line_of(("schedules", "a.b", "task", "target", "url")) == 10
    assert toml.line_of(("schedules", "a.b", "unknown")) == 8
    made = read(JSON, "a.json")
    assert [
        made.line_of(("schedules", "x", *place)) for place in (("every",), ("spec", 1, "cron"), ("task", "target"))
    ] == [2, 4, 5]
    yaml = read(YAML, "a.yaml")
    assert [yaml.line_of(("schedules", "daily", *place)) for place in ((), ("spec", 1, "cron"), ("task", "x"))] == [
        3,
        7,
        8,
    ]
    assert str(yaml.fault(("schedules", "daily", "cron"), "no")) == "a.yaml:4: schedules.daily.cron: no"


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("owner = 1", "a.toml", "a.toml:1: owner: Say who owns this"),
        ("", "a.toml", "Say who owns this"),
        ("owner = 'a b'", "a.toml", "Say who owns this"),
        ("owner = 'a'\nthings = 1\n", "a.toml", "a.toml:2: things: There is no such part"),
        ("owner = 'a'\n[queues.x]\n", "a.toml", "Queues are not declared"),
        ("owner = 'a'\nschedules = 1\n", "a.toml", "schedules: This is a table by key"),
        ("owner = 'a'\nschedules.x = 1\n", "a.toml", "a.toml:2: schedules.x: This must be a table"),
        ("owner = 'a'\n[schedules.'a b']\n", "a.toml", "A key is 1 to 128"),
        ("owner = 'a'\n[schedules.x]\n[schedules.x]\n", "a.toml", "a.toml:3: This is no TOML"),
        ("owner = 'a'\n[schedules.x]\nn = inf\n", "a.toml", "finite"),
        ('{"owner": "a", "owner": "b"}', "a.json", "'owner' stands twice"),
        ("{", "a.json", "a.json:1: This is no JSON"),
        ("[" * 100_000, "a.json", "nested too deep"),
        ("[]", "a.json", "must have an owner"),
        ("owner: a\nowner: b\n", "a.yaml", "a.yaml:2: The key 'owner' stands here twice"),
        ("owner: a\nschedules: {x: &x {y: *x}}\n", "a.yaml", "stands within"),
        ("owner: !!python/name:os.system a\n", "a.yaml", "is not taken"),
        ("owner: !!int 1\n", "a.yaml", "is not taken"),
        ("owner: a\n---\nowner: b\n", "a.yaml", "several documents"),
        ("owner: a\n  x: [", "a.yaml", "a.yaml:2: This is no YAML"),
        ("? [a]\n: b\n", "a.yaml", "A key is a text"),
        ("x: " + "[" * 5_000, "a.yaml", "deep"),
        ("owner: a", "a.txt", "format is not known"),
        ("\xff", "a.toml", ""),
    ],
)
def test_what_is_no_such_file(text: str, name: str, said: str) -> None:
    assert said in faults(text, name)


def test_a_file_has_bounds() -> None:
    with pytest.raises(Faulty, match="over 4 MiB"):
        document.read("a.toml", b"#" * (4 * 2**20 + 1))
    with pytest.raises(Faulty, match="not UTF-8"):
        document.read("a.toml", b"\xff")
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(Unreadable, match="over 100,000 parts"):
        yaml_text.load("\n".join(lines))


def test_plain_words_of_yaml_are_what_they_look_like() -> None:
    text = "{a: on, b: no, c: 12:30, d: 0777, e: 1_000, f: 2026-01-01, g: 1e3, h: -7, "
    text += "i: ~, j: true, k: 'true', l: 1.5, m: .5}"
    assert yaml_text.load(text)[0] == {
        "a": "on",
        "b": "no",
        "c": "12:30",
        "d": "0777",
        "e": "1_000",
        "f": "2026-01-01",
        "g": 1_000.0,
        "h": -7,
        "i": None,
        "j": True,
        "k": "true",
        "l": 1.5,
        "m": 0.5,
    }
    merged = "base: &b {x: 1, y: 1}\nmade: {<<: *b, y: 2}\nboth: {<<: [{z: 3}, *b]}\n"
    assert yaml_text.load(merged)[0]["made"] == {"x": 1, "y": 2}
    assert yaml_text.load(merged)[0]["both"] == {"z": 3, "x": 1, "y": 1}


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x85\u2028\u2029\ufeff"), max_size=12)
words = st.sampled_from(
    ("on", "12:30", "1e3", "null", "~", "0777", "true", "", " x ", "a: b", "# c", '"', "'", "\n", "é")
)
leaves = (
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | texts | words
)
values = st.recursive(
    leaves, lambda one: st.lists(one, max_size=3) | st.dictionaries(texts | words, one, max_size=3), max_leaves=8
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.dictionaries(texts | words, values, max_size=4))
def test_what_is_written_is_read_back(made: dict[str, Any]) -> None:
    import tomllib

    assert tomllib.loads(toml_text.dump(made)) == made
    assert tomllib.loads(toml_text.dump({"t": made}, frozenset({"t"}))) == {"t": made}


printable = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12) | words


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        leaves.filter(lambda one: not isinstance(one, str)) | printable,
        lambda one: st.lists(one, max_size=3) | st.dictionaries(printable, one, max_size=3),
        max_leaves=8,
    )
)
def test_yaml_is_read_back(made: Any) -> None:
    assert yaml_text.load(yaml_text.dump({"a": made}))[0] == {"a": made}


def test_toml_knows_no_null() -> None:
    assert not toml_text.can_say({"a": [1, {"b": None}]})
    assert not toml_text.can_say(2**63)
    assert toml_text.can_say({"a": [1, "x", 1.5, True]})


def test_references_are_looked_up_and_make_a_header_secret(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cr3t\n")
    headers = {"X-A": "Bearer ${ENV:A}", "X-B": "${FILE:token}", "X-C": "plain", "X-D": "${OTHER:x}"}
    made, faults = references.headers_of({"url": "u", "headers": headers}, {"A": "abc"}, tmp_path)
    assert faults == []
    assert made["headers"] == {"X-A": "Bearer abc", "X-B": "s3cr3t", "X-C": "plain", "X-D": "${OTHER:x}"}
    assert made["sensitive_headers"] == ["X-A", "X-B"]
    wrong = {"X-A": "${ENV:GONE}", "X-B": "${FILE:gone}", "X-C": "***abcd"}
    _, faults = references.headers_of({"headers": wrong}, {}, tmp_path)
    assert [name for name, _ in faults] == ["X-A", "X-B", "X-C"]
    assert "has no GONE" in faults[0][1]
