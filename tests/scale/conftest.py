"""Fixtures: the programs around a server that runs in several processes."""

import sqlite3
from contextlib import closing, suppress

import pytest

from scale.services import Nginx, RedisServer, Worker


@pytest.fixture
def redis_server(tmp_path):
    server = RedisServer(tmp_path)
    try:
        yield server.start()
    finally:
        server.end()


class Site:
    """Two processes of a server, with Redis between them and nginx in front."""

    def __init__(self, folder):
        self.folder = folder
        self.redis = RedisServer(folder)
        self.a, self.b = (Worker(name, folder, self.redis.url) for name in ("a", "b"))
        self.nginx = Nginx(folder, (self.a, self.b))
        self.url = f"{self.nginx.url}/mcp"

    def restore(self):
        """Start what does not run. nginx starts again, because it remembers which process failed."""
        self.nginx.end()
        self.nginx.configure()
        for each in (self.redis, self.a, self.b):
            if not each.is_running:
                each.start()
        for each in (self.a, self.b):
            each.until(each.is_ready)
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(self.folder / "notes.db")) as database, database:
            database.execute("delete from lines")  # the table does not exist before the first note
        self.nginx.start()

    def end(self):
        for each in (self.nginx, self.a, self.b, self.redis):
            each.end()


@pytest.fixture(scope="session")
def all_day_site(tmp_path_factory):
    site = Site(tmp_path_factory.mktemp("site"))
    try:
        yield site
    finally:
        site.end()


@pytest.fixture
def site(all_day_site):
    """The site in order, whatever the last test did to it: starting every program for every test takes too long."""
    all_day_site.restore()
    return all_day_site
