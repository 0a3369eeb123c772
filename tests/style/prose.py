"""Checkers of words: what must not be spoken of, and documents that promise what is there."""

import re
from collections.abc import Iterable, Mapping

from tests.style.tree import Source

# Where and by whom the code was written is nobody's business; where packages come from is a setting
# of the machine that installs them.
UNSPOKEN: Mapping[str, re.Pattern[str]] = {
    "speaks of how it was written": re.compile(
        r"\bwork ?places?\b|\bworking plan\b|\bsub-?agents?\b|\bLLMs?\b"
        r"|\b(?:AI|coding|language) (?:assistant|model|agent)s?\b"
        r"|\bhelper sessions?\b|\b(?:coding|work|earlier|previous|later) sessions?\b"
        r"|\bco-authored-by\b|\bgenerated (?:with|by) (?:an? )?(?:AI|LLM)\b",
        re.IGNORECASE,
    ),
    "names a folder of one machine": re.compile(r"(?<![\w.])/(?:work|home|root|Users)/\w|\.\./shared\b"),
    "names the host of a package index": re.compile(
        r"\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|yarnpkg\.com|crates\.io|docker\.io|ghcr\.io|quay\.io"
        r"|conda\.anaconda\.org)\b|--(?:extra-)?index-url\b|--find-links\b",
        re.IGNORECASE,
    ),
}
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
MAKE_IN_FENCE = re.compile(r"^(?:\$ )?make ([a-z][\w-]*)", re.MULTILINE)
MAKE_IN_LINE = re.compile(r"`(?:\$ )?make ([a-z][\w-]*)")
TARGET = re.compile(r"^([a-z][\w-]*):(?!=)", re.MULTILINE)
SECTION_LINE = re.compile(r"^#?\s?\[(?P<section>[a-z0-9_.]+)\]\s*(?:#.*)?$")
SETTING_LINE = re.compile(r"^#?\s?(?P<name>[a-z][a-z0-9_]*)\s*=")


def unspoken(sources: Iterable[Source]) -> list[str]:
    """Nothing in the tree speaks of what does not belong in it."""
    return [
        f"{source.path}:{number}: {why}: {found.group()!r}"
        for source in sources
        for number, line in enumerate(source.text.splitlines(), start=1)
        for why, pattern in UNSPOKEN.items()
        if (found := pattern.search(line))
    ]


def missing_targets(documents: Iterable[Source], makefile: Source) -> list[str]:
    """A document names only make targets that exist."""
    targets = set(TARGET.findall(makefile.text))
    return [
        f"{document.path}: there is no `make {name}`"
        for document in documents
        for name in sorted(_make_calls(document.text) - targets)
    ]


def _make_calls(text: str) -> set[str]:
    fenced = {name for fence in FENCE.findall(text) for name in MAKE_IN_FENCE.findall(fence)}
    return fenced | set(MAKE_IN_LINE.findall(FENCE.sub("", text)))


def silent_targets(makefile: Source) -> list[str]:
    """Every target says in a sentence what it does, since `make` alone lists them."""
    return [
        f"{makefile.path}: {line.partition(':')[0]} has no sentence"
        for line in makefile.text.splitlines()
        if TARGET.match(line) and "## " not in line
    ]


def settings_of(example: str) -> set[str]:
    """The settings that a TOML example names, live or behind a `#`, as section.name."""
    section = ""
    found = set()
    for line in example.splitlines():
        if header := SECTION_LINE.match(line):
            section = header["section"] + "."
        elif setting := SETTING_LINE.match(line):
            found.add(section + setting["name"])
    return found


def differing_settings(example: Source, settings: set[str]) -> list[str]:
    """The example has every setting that there is, and none that there is not."""
    shown = settings_of(example.text)
    return [f"{example.path}: does not show {name}" for name in sorted(settings - shown)] + [
        f"{example.path}: shows {name}, which is no setting" for name in sorted(shown - settings)
    ]
