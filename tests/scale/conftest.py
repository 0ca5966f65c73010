"""Fixtures: the programs around a server that runs in several processes."""

from types import SimpleNamespace

import pytest

from scale.services import Nginx, RedisServer, Worker


@pytest.fixture
def redis_server(tmp_path):
    server = RedisServer(tmp_path)
    try:
        yield server.start()
    finally:
        server.end()


@pytest.fixture
def site(redis_server, tmp_path):
    """Two processes of a server, with Redis between them and nginx in front."""
    workers = {name: Worker(name, tmp_path, redis_server.url) for name in ("a", "b")}
    nginx = Nginx(tmp_path, workers.values())
    try:
        for each in (*workers.values(), nginx):
            each.start()
        yield SimpleNamespace(redis=redis_server, nginx=nginx, url=f"{nginx.url}/mcp", **workers)
    finally:
        for each in (nginx, *workers.values()):
            each.end()
