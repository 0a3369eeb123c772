"""The URL of a PostgreSQL: what is shown of it, and that no part of a password is, however it was written."""

import pytest

from tasktick.errors import ConfigError
from tasktick.settings import StoreConfig
from tasktick.store.opening import place_of
from tasktick.store.postgres_links import PostgresAddress

WRONG = [
    "postgresql://user:se/cret@host/db",
    "postgresql://user:123/cret@host/db",
    "postgresql://user:se#cret@host/db",
    "postgresql://user:123#cret@host/db",
    "postgresql://user:se?cret@host/db",
    "postgresql://user:123?cret@host/db",
    "postgresql://user:se[cret@host/db",
    "postgresql://user:cret@host:port/db",
    "postgresql://user:se@cret@host/db",
    "postgresql://user@cloud:cret@host/db",
    "postgresql://user@cloud:12/cret@host/db",
    "postgresql://user:123?host=cret@host/db",
    "postgresql://user:123?search_path=cret@host/db",
]
RIGHT = {
    "postgresql://user:se%2Fcret@host:5432/db": "postgresql://user@host:5432/db",
    "postgres://user:se%40cret@host/db?sslmode=require": "postgresql://user@host/db?sslmode=require",
    "postgresql://user:cret@[::1]:5432/db": "postgresql://user@[::1]:5432/db",
    "postgresql://user:cret@a:1,[fe80::1%25eth0]:2,c/db": "postgresql://user@a:1,[fe80::1%25eth0]:2,c/db",
    "postgresql://:cret@host/db": "postgresql://host/db",
    "postgresql://me%40cloud:cret:cret@host/db": "postgresql://me%40cloud@host/db",
    "postgresql:///db?host=/run/postgresql&password=cret&port=7": "postgresql:///db?host=/run/postgresql&port=7",
    "postgresql://user@/db?password=cret&host=%2Frun&search_path=one": "postgresql://user@/db?host=%2Frun&search_path=one",
    "postgresql://user@host/db?sslpassword=cret&passfile=cret&other=cret&cret=1": "postgresql://user@host/db",
    "postgresql://host/db?user=me@cloud": "postgresql://host/db?user=me@cloud",
    "postgresql:///db": "postgresql:///db",
    "postgresql://": "postgresql://",
}


@pytest.mark.parametrize("url", WRONG)
def test_one_that_does_not_fall_apart_as_it_was_meant_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        place_of(StoreConfig(url=url))
    assert "cret" not in str(refused.value)
    assert "%2F" in str(refused.value)


@pytest.mark.parametrize("url", RIGHT)
def test_what_is_shown_has_no_password(url: str) -> None:
    place = place_of(StoreConfig(url=url))
    assert isinstance(place, PostgresAddress)
    assert place.shown == RIGHT[url]
    assert "cret" not in place.shown
    again = place_of(StoreConfig(url=place.shown))
    assert isinstance(again, PostgresAddress), "what is shown can be pasted"
    assert again.shown == place.shown
