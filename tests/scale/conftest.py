"""Fixtures: the programs around a server that runs in several processes."""

import pytest

from scale.services import RedisServer


@pytest.fixture
def redis_server(tmp_path):
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.end()
