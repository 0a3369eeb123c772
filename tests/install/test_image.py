"""The Dockerfile, read rather than built: what it copies is there, and it runs as nobody of note."""

import re
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def test_what_it_copies_is_there_and_is_sent_to_the_build() -> None:
    sent = [line[1:].rstrip("/") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [rest.split()[:-1] for name, rest in instructions() if name == "COPY" and not rest.startswith("--from")]
    for source in (source for sources in copied for source in sources):
        assert (ROOT / source).exists()
        assert any(fnmatch(source, pattern) for pattern in sent), f".dockerignore keeps {source} back"


def test_what_runs_is_nobody_of_note_and_its_data_outlive_it() -> None:
    last = instructions()
    last = last[max(number for number, (name, _) in enumerate(last) if name == "FROM") :]
    found = dict(last)
    assert int(found["USER"]) > 1_000
    names = [name for name, _ in last]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert found["VOLUME"] in found["CMD"]
    assert "/healthz" in found["HEALTHCHECK"]
    assert found["STOPSIGNAL"] == "SIGTERM"
