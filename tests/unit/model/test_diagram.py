"""The documentation shows the table of states as it is."""

from pathlib import Path

from tasktick.model.state import State, diagram

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "states.md"


def test_the_document_holds_the_diagram() -> None:
    wanted = f"```mermaid\n{diagram()}```\n"
    assert wanted in DOCUMENT.read_text(), f"put this into docs/states.md:\n\n{wanted}"


def test_the_document_explains_every_state() -> None:
    text = DOCUMENT.read_text()
    assert [state.word for state in State if f"| `{state.word}` |" not in text] == []
