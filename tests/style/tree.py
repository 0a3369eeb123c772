"""What there is in the repository, read once, as values that the checkers take."""

import ast
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
CODE_FOLDERS = ("tasktick", "tests", "bench")
TEXT_FOLDERS = (*CODE_FOLDERS, "docs", "config", ".ci")
# The licence is not ours to word, a worktree's .git is git's, and lock or data files are not prose.
TEXT_SUFFIXES = frozenset(
    {"", ".cfg", ".css", ".html", ".ini", ".js", ".json", ".md", ".mjs", ".py", ".service", ".sh", ".sql"}
    | {".example", ".toml", ".ts", ".txt", ".yaml", ".yml"}
)
NOT_READ = frozenset({"LICENSE", ".git"})
GENERATED = frozenset({"__pycache__", "node_modules", "results"})


@dataclass(frozen=True)
class Source:
    """A file: its path from the root of the repository, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def parts(self) -> tuple[str, ...]:
        return PurePosixPath(self.path).parts

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def module(self) -> str:
        """The dotted name under which the file is imported; a package goes by its folder."""
        dotted = PurePosixPath(self.path).with_suffix("")
        parts = dotted.parts[:-1] if dotted.name == "__init__" else dotted.parts
        return ".".join(parts)


def _read(path: Path) -> Source:
    return Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def _files(folder: str, pattern: str) -> list[Path]:
    found = (path for path in (ROOT / folder).rglob(pattern) if path.is_file())
    return sorted(path for path in found if not GENERATED.intersection(path.parts))


@lru_cache
def python(*folders: str) -> tuple[Source, ...]:
    """Every Python file of these folders; of all of them if none is named."""
    return tuple(_read(path) for folder in folders or CODE_FOLDERS for path in _files(folder, "*.py"))


@lru_cache
def sql() -> tuple[Source, ...]:
    """Every SQL file of the store."""
    return tuple(_read(path) for path in _files("tasktick/store/sql", "*.sql"))


@lru_cache
def texts() -> tuple[Source, ...]:
    """Every file that a person wrote and a person may read."""
    top = sorted(path for path in ROOT.iterdir() if path.is_file())
    below = [path for folder in TEXT_FOLDERS for path in _files(folder, "*")]
    return tuple(_read(path) for path in (*top, *below) if path.suffix in TEXT_SUFFIXES and path.name not in NOT_READ)


@lru_cache
def documents() -> tuple[Source, ...]:
    """The prose: what stands at the top and in docs/."""
    return tuple(source for source in texts() if source.path.endswith(".md"))


def file(path: str) -> Source | None:
    """One file, if it is there."""
    return _read(ROOT / path) if (ROOT / path).is_file() else None
