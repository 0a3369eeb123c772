"""What is sealed opens only under its key and context, and files with secrets are nobody else's."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.access import secret_files, vault
from tasktick.access.vault import SealBroken, Vault
from tasktick.errors import ConfigError

KEY = bytes(range(32))


@given(st.text(), st.text())
def test_what_is_sealed_opens(text: str, context: str) -> None:
    safe = text.encode(errors="ignore").decode()
    name = context.encode(errors="ignore").decode()
    keeper = Vault(KEY)

    assert keeper.open(keeper.seal(safe, name), name) == safe


def test_sealing_twice_differs() -> None:
    keeper = Vault(KEY)

    assert keeper.seal("a", "c") != keeper.seal("a", "c")
    assert keeper.key_id in keeper.seal("a", "c")


def test_elsewhere_it_does_not_open() -> None:
    keeper = Vault(KEY)
    sealed = keeper.seal("secret", vault.header_context("acme", "Authorization"))

    assert keeper.open(sealed, vault.header_context("acme", "AUTHORIZATION")) == "secret"
    with pytest.raises(SealBroken, match="belongs elsewhere"):
        keeper.open(sealed, vault.header_context("other", "Authorization"))
    with pytest.raises(SealBroken, match="Put the old file back"):
        Vault(bytes(32)).open(sealed, "c")
    for broken in (sealed[:-2], sealed[:-1] + "!", sealed + "AAAA", "v1." + keeper.key_id + ".", "v2.x.y", "", "plain"):
        with pytest.raises(SealBroken):
            keeper.open(broken, vault.header_context("acme", "Authorization"))


def test_masks() -> None:
    keeper = Vault(KEY)

    assert vault.masked("Bearer abcdef") == "***cdef"
    assert vault.masked("elevenchars") == "***"
    assert keeper.open_masked(keeper.seal("twelve-chars", "c"), "c") == "***hars"
    assert keeper.open_masked("v1.gone.x", "c") == "***"
    assert vault.is_masked("***hars")
    assert not vault.is_masked("Bearer x")


def test_headers_open_for_sending() -> None:
    keeper = Vault(KEY)
    sealed = {"Cookie": keeper.seal("a=b", vault.header_context("acme", "Cookie"))}

    assert vault.open_headers(keeper, "acme", sealed) == {"Cookie": "a=b"}


def test_the_key_is_made_once(tmp_path: Path) -> None:
    file = tmp_path / "data" / "vault.key"
    first = vault.load_or_make(file)

    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert vault.load_or_make(file).key_id == first.key_id
    assert [one.name for one in file.parent.iterdir()] == ["vault.key"]


def test_no_key_is_made_in_place_of_one_that_is_missed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Put it back"):
        vault.load_or_make(tmp_path / "vault.key", may_make=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["x", "ttvault_", "ttvault_zz", "ttvault_" + "0" * 63])
def test_a_file_that_is_no_key(tmp_path: Path, text: str) -> None:
    file = tmp_path / "vault.key"
    secret_files.create(file, text)

    with pytest.raises(ConfigError, match=r"vault\.key is no vault key"):
        vault.load_or_make(file)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key"
    secret_files.create(file, "secret")
    file.chmod(0o640)

    with pytest.raises(ConfigError, match="chmod 600"):
        secret_files.read(file)
    assert secret_files.read(file, strict=False) == "secret"


def test_files_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    file = tmp_path / "key"
    assert secret_files.read(file) is None
    secret_files.create(file, "secret")
    with pytest.raises(ConfigError, match="is there already"):
        secret_files.create(file, "other")
    assert secret_files.read(file) == "secret"
    for content in (b"", b"\xff\xfe", b"x" * 5_000):
        file.write_bytes(content)
        with pytest.raises(ConfigError):
            secret_files.read(file)
    with pytest.raises(ConfigError, match="regular file"):
        secret_files.read(tmp_path)
    assert not list(tmp_path.glob(".key*"))
