"""What tests of the program on a PostgreSQL start for themselves."""

from collections.abc import Iterator

import pytest

from tests import postgres


@pytest.fixture(params=sorted(postgres.installed()))
def server(request: pytest.FixtureRequest) -> Iterator[postgres.Cluster]:
    """A server of its own, which a test may break."""
    with postgres.own_cluster(request.param) as server:
        yield server
