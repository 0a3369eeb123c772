"""The words of the tree: documents tell the truth, and nothing speaks of what does not belong here."""

import importlib
from collections.abc import Iterator

import msgspec
import pytest

from tests.style import prose, tree
from tests.style.verdict import accept

# These spell out what they look for.
SELF = frozenset({"tests/style/prose.py", "tests/style/test_checkers.py"})


def _settings(section: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(section):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _settings(field.type, f"{prefix}{field.encode_name}.")
        else:
            yield prefix + field.encode_name


def test_nothing_speaks_of_what_does_not_belong() -> None:
    accept(prose.unspoken(source for source in tree.texts() if source.path not in SELF))


def test_documents_name_targets_that_exist() -> None:
    makefile = tree.file("Makefile")
    assert makefile is not None
    accept(prose.missing_targets(tree.documents(), makefile))


def test_targets_say_what_they_do() -> None:
    makefile = tree.file("Makefile")
    assert makefile is not None
    accept(prose.silent_targets(makefile))


def test_the_example_shows_every_setting() -> None:
    example = tree.file("tasktick.toml.example")
    if example is None or tree.file("tasktick/settings.py") is None:
        pytest.skip("there are no settings yet")
    config = importlib.import_module("tasktick.settings").Config
    accept(prose.differing_settings(example, set(_settings(config))))


def test_settings_are_read_from_nested_sections() -> None:
    class Api(msgspec.Struct):
        listen: str = "127.0.0.1:8080"
        idle_ms: int = 75_000

    class Config(msgspec.Struct):
        api: Api
        node: str | None = None

    assert set(_settings(Config)) == {"api.listen", "api.idle_ms", "node"}
