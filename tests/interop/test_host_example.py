"""``examples/host.py`` with the published servers of its configuration file."""

import sys

import pytest

from host_example import check_output, run_host
from interop.harness import NET, python_of
from interop.test_published_servers import on_npm

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks for processes in /proc"),
]


def test_the_host_uses_published_servers_and_leaves_none_behind(tmp_path):
    time = [python_of("published"), "-m", "mcp_server_time"]
    check_output(run_host(tmp_path, npx=on_npm("server-everything", "stdio"), uvx=time, seconds=2 * NET))
