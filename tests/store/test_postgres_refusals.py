"""What is wrong with a URL or a role is said in a sentence, as a wrong setting is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tasktick.errors import ConfigError, StoreError
from tasktick.settings import StoreConfig
from tasktick.store import postgres_check
from tasktick.store.opening import place_of
from tasktick.store.postgres_links import PostgresAddress
from tests import postgres
from tests.store.moving import move, served

pytestmark = pytest.mark.postgres
NEWEST = max(postgres.installed(), default="none")


@pytest.fixture
async def poor_role() -> AsyncIterator[str]:
    """The URL of one who may make no table there."""
    server = postgres.cluster(NEWEST)
    async with server.new_schema() as url:
        await server.run("CREATE ROLE poor LOGIN")
        try:
            yield url.replace("postgres@", "poor@")
        finally:
            await server.run("DROP OWNED BY poor; DROP ROLE poor")


async def test_a_role_that_may_make_no_tables(poor_role: str, tmp_path: Path) -> None:
    schema = poor_role.rpartition("=")[2]
    await postgres.cluster(NEWEST).run(f"GRANT USAGE ON SCHEMA {schema} TO poor")
    said = r"may not do what it must at .*permission denied for schema .*createdb --owner.*GRANT USAGE, CREATE"
    source = tmp_path / "source.db"
    async with served(source, tmp_path):
        pass
    with pytest.raises(ConfigError, match=said):
        await postgres_check.steps(PostgresAddress(poor_role, "tests"), only_check=False)
    with pytest.raises(ConfigError, match=said):
        async with served(poor_role, tmp_path):
            pass
    with pytest.raises(ConfigError, match=said):
        await move(source, poor_role)


async def test_a_parameter_that_the_server_does_not_know(newest_server: str) -> None:
    address = PostgresAddress(newest_server.replace("search_path", "serach_path"), "tests")
    with pytest.raises(ConfigError, match=r'"serach_path"\. Correct serach_path in the URL\.$'):
        await postgres_check.check(address)


@pytest.mark.parametrize(
    ("url", "kind", "said"),
    [
        (
            "postgresql://127.0.0.1:9/db?sslmode=verify-full",
            ConfigError,
            r"root certificate .* accessed\. Name it with sslrootcert=FILE in the URL\.$",
        ),
        ("postgresql://127.0.0.1:9/db?sslmode=sure", ConfigError, "`sslmode` parameter must be one of"),
        ("postgresql://nowhere.invalid/db", StoreError, r"its host cannot be resolved \(.*\)\. Check the name"),
    ],
)
async def test_a_connection_that_cannot_be_made(
    url: str, kind: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(kind, match=said) as refused:
        await postgres_check.check(PostgresAddress(url, "tests"))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("url", ["postgresql://host:5573x/db", "postgresql:///db?host=/run&port=5573x"])
def test_a_port_that_is_no_number(url: str) -> None:
    with pytest.raises(ConfigError, match="Its port is a number"):
        place_of(StoreConfig(url=url))
