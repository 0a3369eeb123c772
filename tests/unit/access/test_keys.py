"""API keys: their shape, their checksum, what is kept of them; and roles."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.access import keys
from tasktick.access.roles import PERMISSIONS, Permission, Role, least, may

RANDOM = bytes(range(keys.RANDOM_BYTES))


def test_a_key_has_its_prefix_in_the_open() -> None:
    key = keys.make(RANDOM)

    assert key.startswith("tt_")
    assert keys.prefix_of(key) == key.split("_")[1]
    assert keys.matches(key, keys.digest(key))
    assert not keys.matches(key + "x", keys.digest(key))
    assert key.split("_")[2] not in keys.digest(key)


@given(st.binary(min_size=keys.RANDOM_BYTES, max_size=keys.RANDOM_BYTES), st.data())
def test_one_wrong_character_is_no_key(random_bytes: bytes, data: st.DataObject) -> None:
    key = keys.make(random_bytes)
    at = data.draw(st.integers(0, len(key) - 1))
    other = data.draw(st.sampled_from([one for one in "abcdefghijklmnopqrstuvwxyz0123456789_" if one != key[at]]))

    assert keys.prefix_of(key) is not None
    assert keys.prefix_of(key[:at] + other + key[at + 1 :]) is None


@given(st.text(max_size=200))
def test_any_text_is_judged_without_fault(text: str) -> None:
    assert keys.prefix_of(text) is None


def test_a_key_takes_all_its_random_bytes() -> None:
    with pytest.raises(ValueError, match="37"):
        keys.make(RANDOM[:-1])


def test_each_role_may_what_the_one_below_may() -> None:
    sets = [PERMISSIONS[role] for role in Role]

    assert all(small < large for small, large in pairwise(sets))
    assert sets[-1] == frozenset(Permission)


@pytest.mark.parametrize("permission", list(Permission))
def test_the_least_role_that_may(permission: Permission) -> None:
    roles = list(Role)
    at = roles.index(least(permission))

    assert [may(role, permission) for role in roles] == [index >= at for index in range(len(roles))]
