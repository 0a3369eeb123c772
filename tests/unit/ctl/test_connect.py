"""Where the server and the key come from."""

from pathlib import Path

import click
import pytest

from tasktick.ctl.connect import Asked, Place, locate, why_default
from tests.fakes.api_stub import ApiStub, refused, told
from tests.unit.ctl.conftest import Ctl

FOLDER_KEY = "tk_folder"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tasktick-data"
    folder.mkdir()
    (folder / "operator.key").write_text(FOLDER_KEY + "\n")
    return folder


def test_flags_win_over_the_environment_and_that_over_the_folder(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "flag.key"
    file.write_text("tk_flag")
    environment = {"TASKTICK_URL": "http://env:1", "TASKTICK_KEY": "tk_env"}
    flags = Asked(url="http://flag:1", key_file=str(file))
    assert locate(flags, environment, [folder]) == Place("http://flag:1", "tk_flag", str(file))
    assert locate(Asked(), environment, [folder]) == Place("http://env:1", "tk_env", "TASKTICK_KEY")
    key_file = {"TASKTICK_KEY_FILE": str(file)}
    assert locate(Asked(), key_file, [folder]) == Place("http://127.0.0.1:8080", "tk_flag", str(file))
    found = locate(Asked(), {}, [tmp_path / "nothing", folder])
    assert found == Place("http://127.0.0.1:8080", FOLDER_KEY, str(folder / "operator.key"))
    assert locate(Asked(data=str(folder)), {}, []).key == FOLDER_KEY


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:9001\n", "http://127.0.0.1:9001"),
        ("127.0.0.1:9001", "http://127.0.0.1:9001"),
        ("http://[::1]:9001", "http://[::1]:9001"),
        ("http://0.0.0.0:9001", "http://127.0.0.1:9001"),
        ("http://[::]:9001", "http://[::1]:9001"),
        ("http://10.0.0.7:9001", "http://10.0.0.7:9001"),
        ("http://evil.example:9001", "http://127.0.0.1:8080"),
        ("", "http://127.0.0.1:8080"),
    ],
)
def test_the_daemon_says_where_it_listens(folder: Path, text: str, url: str) -> None:
    (folder / "address").write_text(text)
    assert locate(Asked(), {}, [folder]).url == url


def test_a_key_from_elsewhere_does_not_follow_a_folder_off_this_machine(folder: Path) -> None:
    (folder / "address").write_text("http://10.0.0.7:9001")
    assert locate(Asked(), {"TASKTICK_KEY": "tk_env"}, [folder]).url == "http://127.0.0.1:8080"


def test_a_key_that_was_found_stays_on_this_machine(folder: Path) -> None:
    (folder / "address").write_text("http://10.0.0.7:9001")
    for url in ("http://127.0.0.1:9001", "http://localhost:1", "http://[::1]:1", "http://10.0.0.7:9001"):
        assert locate(Asked(url=url), {}, [folder]).key == FOLDER_KEY
        assert locate(Asked(), {"TASKTICK_URL": url}, [folder]).key == FOLDER_KEY
    for url in ("http://10.0.0.8:9001", "https://10.0.0.7:9001", "https://tasktick.example", "http://127.evil.example"):
        with pytest.raises(click.UsageError, match="Name the key for that server"):
            locate(Asked(url=url), {}, [folder])
        assert locate(Asked(url=url, data=str(folder)), {}, []).key == FOLDER_KEY
        assert locate(Asked(url=url, key_file=str(folder / "operator.key")), {}, [folder]).key == FOLDER_KEY


@pytest.mark.parametrize("content", [b"", b"two\nlines", b"\xff\xfe", b"k\x1b[31m"])
def test_what_is_no_key(folder: Path, content: bytes) -> None:
    (folder / "operator.key").write_bytes(content)
    with pytest.raises(click.UsageError, match="is no API key"):
        locate(Asked(), {}, [folder])


def test_a_key_that_is_not_there(folder: Path) -> None:
    with pytest.raises(click.UsageError, match="cannot be read: No such file"):
        locate(Asked(key_file="nowhere"), {}, [folder])
    with pytest.raises(click.UsageError, match=r"Start `tasktick serve` .* with --data"):
        locate(Asked(), {}, [])


def test_a_folder_without_a_key_may_be_that_of_a_further_node(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=r"No such file or directory\..* of the node that was first.*--key-file"):
        locate(Asked(data=str(tmp_path)), {}, [])
    with pytest.raises(click.UsageError, match=r"No such file or directory\.$"):
        locate(Asked(data=str(tmp_path / "nowhere")), {}, [])


def test_a_command_sends_the_key_it_found(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told({"counts": {}}))
    assert ctl("stats").exit_code == 0
    assert stub.asked[0].headers["authorization"] == "Bearer tk_environment"


def test_flags_of_a_command_win_over_those_of_the_group(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    (tmp_path / "a.key").write_text("tk_group")
    (tmp_path / "b.key").write_text("tk_command")
    stub.tell(told({"a": 1}), told({"a": 1}))
    assert ctl("--key-file", "a.key", "-o", "json", "stats").stdout == '{"a": 1}\n'
    ctl("--key-file", "a.key", "stats", "--key-file", "b.key")
    assert [asked.headers["authorization"] for asked in stub.asked] == ["Bearer tk_group", "Bearer tk_command"]


def test_a_refused_key_says_where_it_came_from(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(refused(401, "unauthenticated", "This key is not known."), refused(401, "unauthenticated", "No."))
    for command in (("stats",), ("task", "list")):
        result = ctl(*command)
        assert result.exit_code == 1
        assert "The key came from TASKTICK_KEY." in result.stderr


def test_unreachable(ctl: Ctl) -> None:
    result = ctl("stats", "--url", "http://127.0.0.1:9")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert "http://127.0.0.1:9 cannot be reached: Connection refused." in result.stderr
    assert "tasktick serve" in result.stderr


def test_a_folder_whose_daemon_has_stopped_is_told_of(tmp_path: Path) -> None:
    """Its address went with it: what is tried is the default, which may be another daemon's."""
    (tmp_path / "operator.key").write_text("tk_1")
    said = why_default(Asked(), {}, [tmp_path])
    assert said is not None
    assert str(tmp_path) in said
    assert why_default(Asked(url="http://127.0.0.1:9"), {}, [tmp_path]) is None
    assert why_default(Asked(), {"TASKTICK_URL": "http://127.0.0.1:9"}, [tmp_path]) is None
    assert why_default(Asked(), {}, [tmp_path / "none"]) is None
    (tmp_path / "address").write_text("http://127.0.0.1:9\n")
    assert why_default(Asked(), {}, [tmp_path]) is None


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "http://user:word@127.0.0.1", "\x1b[31m"])
def test_a_url_that_is_none(ctl: Ctl, url: str) -> None:
    result = ctl("stats", "--url", url)
    assert result.exit_code == 2
    assert "is no server" in result.stderr
    assert "\x1b" not in result.stderr
