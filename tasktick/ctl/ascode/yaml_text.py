"""YAML as JSON means it: read and written by the rules of YAML 1.2, without what surprises in the older ones.

`on`, `yes`, `12:30`, `0777`, `1_000` and dates are texts. A key that stands twice, a tag, a reference to itself and
what grows beyond a bound by its aliases are refused. The parser is PyYAML's, of which only the safe part is used.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tasktick.ctl.ascode.document import DEPTH_MAX, Unreadable
from tasktick.ctl.ascode.lines import Place, finder

if TYPE_CHECKING:
    import yaml

MISSING = "Files in YAML need PyYAML: pip install '/path/to/checkout[yaml]'. TOML and JSON need nothing."
NODES_MAX = 100_000
MERGE = "<<"
_STR = "tag:yaml.org,2002:str"
_SEQ = "tag:yaml.org,2002:seq"
_MAP = "tag:yaml.org,2002:map"
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)


def resolved(text: str) -> Any:
    """What a plain scalar says."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def load(text: str) -> tuple[Any, Callable[[Place], int]]:
    """The one document of a text, and the lines of its parts."""
    nodes = _nodes(text)
    if len(nodes) > 1:
        raise Unreadable("This has several documents: a file has one.", nodes[1].start_mark.line + 1)
    if not nodes:
        return None, lambda _: 0
    lines: dict[Place, int] = {}
    return _value(nodes[0], (), lines), finder(lines)


def load_all(text: str) -> list[Any]:
    """Every document of a text."""
    return [_value(node, (), {}) for node in _nodes(text)]


def _nodes(text: str) -> "list[yaml.Node]":
    """The documents, bounded, before anything is made of them."""
    yaml = _pyyaml()

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined] # yaml has no types
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - the parser reads it of the class

    try:
        nodes = list(yaml.compose_all(text, Loader=Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = error.problem or error.context
        raise Unreadable(f"This is no YAML: {said}.", 0 if mark is None else mark.line + 1) from None
    except yaml.YAMLError as error:
        raise Unreadable(f"This is no YAML: {error}.") from None
    except RecursionError:
        raise Unreadable("This is nested too deep.") from None
    for node in nodes:
        _bound(node, {}, set())
    return nodes


def _pyyaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise Unreadable(MISSING) from None
    return yaml


def _bound(node: "yaml.Node", sizes: dict[int, int], under: set[int]) -> int:
    """How many nodes it is once its aliases are written out; refused beyond the bound, before that is done."""
    if id(node) in under:
        raise Unreadable("An alias stands within what it refers to.", node.start_mark.line + 1)
    if len(under) > 4 * DEPTH_MAX:
        raise Unreadable(f"This is nested deeper than {DEPTH_MAX} levels.", node.start_mark.line + 1)
    if id(node) not in sizes:
        under.add(id(node))
        parts = node.value if isinstance(node.value, list) else []
        flat = [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]
        sizes[id(node)] = 1 + sum(_bound(one, sizes, under) for one in flat)
        under.discard(id(node))
    if sizes[id(node)] > NODES_MAX:
        raise Unreadable(f"With its aliases written out this has over {NODES_MAX:,} parts.", node.start_mark.line + 1)
    return sizes[id(node)]


def _value(node: "yaml.Node", place: Place, lines: dict[Place, int]) -> Any:
    lines.setdefault(place, node.start_mark.line + 1)
    if node.tag == _MAP:
        return _mapping(node, place, lines)
    if node.tag == _SEQ:
        return [_value(one, (*place, number), lines) for number, one in enumerate(node.value)]
    if node.tag != _STR:
        raise Unreadable(f"The tag {node.tag} is not taken: write the value as it is.", node.start_mark.line + 1)
    return resolved(node.value) if node.style is None else node.value


def _mapping(node: "yaml.Node", place: Place, lines: dict[Place, int]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    for name, content in node.value:
        line = name.start_mark.line + 1
        if name.tag != _STR:
            raise Unreadable("A key is a text.", line)
        if name.value == MERGE and name.style is None:
            for one in reversed(_merged(content, place, lines)):
                merged |= one
            continue
        if name.value in made:
            raise Unreadable(f"The key {name.value[:128]!r} stands here twice.", line)
        lines[(*place, name.value)] = line
        made[name.value] = _value(content, (*place, name.value), lines)
    return {**merged, **made}


def _merged(node: "yaml.Node", place: Place, lines: dict[Place, int]) -> list[dict[str, Any]]:
    found = _value(node, (*place, MERGE), lines)
    several = found if isinstance(found, list) else [found]
    if not all(isinstance(one, dict) for one in several):
        raise Unreadable("`<<` takes a mapping, or several.", node.start_mark.line + 1)
    return several


def dump(document: Any) -> str:
    """A document as YAML that every reader reads alike."""
    yaml = _pyyaml()

    class Dumper(yaml.SafeDumper):  # type: ignore[misc, name-defined] # yaml has no types
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def written(dumper: Any, text: str) -> Any:
        is_plain = isinstance(resolved(text), str)
        return dumper.represent_scalar(_STR, text, style=None if is_plain else '"')

    Dumper.add_representer(str, written)
    text: str = yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text
