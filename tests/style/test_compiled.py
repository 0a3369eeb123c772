"""What is compiled says only what comes through, and lies beside nothing that was compiled before.

mypyc takes types at their word and drops what stands beside the bases of a class. What that would change without a word
is refused here.
"""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.style import tree
from tests.style.verdict import accept

# What a class may say beside its bases: that of this base is true without it.
SAID_BY = {"Value": {"frozen"}}


def compiled() -> list[Path]:
    """The modules that `make compiled` compiles."""
    project = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())
    hook = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]
    return [tree.ROOT / name.removeprefix("/") for name in hook["include"]]


def lost(source: str) -> Iterator[str]:
    """What would be another thing once it is compiled."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ClassDef():
                said = {keyword.arg for keyword in node.keywords}
                kept = set().union(*(SAID_BY.get(ast.unparse(base), set()) for base in node.bases))
                if said - kept:
                    yield f"line {node.lineno}: class {node.name} says {', '.join(map(str, said - kept))} for itself"
            case ast.Assign(targets=[ast.Tuple()], value=ast.Await(ast.Call(func=f))) if "gather" in ast.unparse(f):
                yield f"line {node.lineno}: gather returns a list, and its types say a tuple"


def test_nothing_is_lost_when_it_is_compiled() -> None:
    accept([f"{path.relative_to(tree.ROOT)}: {fault}" for path in compiled() for fault in lost(path.read_text())])


@pytest.mark.parametrize(
    ("source", "is_lost"),
    [
        ("class A(Struct, gc=False): ...", True),
        ("class A(Value, gc=False): ...", True),
        ("class A(Value, frozen=True): ...", False),
        ("one, two = await asyncio.gather(a, b)", True),
        ("one, two = await gather(*(a, b))", True),
        ("await asyncio.gather(*many)", False),
    ],
)
def test_what_would_be_lost_is_seen(source: str, is_lost: bool) -> None:
    assert bool(list(lost(source))) == is_lost


def test_nothing_compiled_lies_among_the_sources() -> None:
    found = [*tree.ROOT.glob("*.so"), *(tree.ROOT / "tasktick").rglob("*.so")]
    accept([f"{path.relative_to(tree.ROOT)}: it would run in place of its source; remove it" for path in found])
