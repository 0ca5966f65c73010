import socket

import pytest

from systems import WINDOWS
from twopipes._http.options import HttpOptions
from twopipes._server.http.listen import HttpAddress, open_socket, parse_http_address, url_of
from twopipes.errors import ListenFailed, LocalProtocolError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (8000, ("127.0.0.1", 8000)),
        ("8000", ("127.0.0.1", 8000)),
        ("localhost:80", ("localhost", 80)),
        ("[::1]:8000", ("::1", 8000)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("MCP.example.com:8443", ("mcp.example.com", 8443)),
    ],
)
def test_an_address_is_a_port_or_a_host_with_a_port(given, expected):
    assert parse_http_address(given) == expected


@pytest.mark.parametrize(
    "given", ["", "localhost", ":", "a:b", "127.0.0.1:70000", "http://127.0.0.1:80", "::1:8000", -1, 1.5, None]
)
def test_anything_else_is_refused(given):
    with pytest.raises(LocalProtocolError, match=r"http= must be a port or HOST:PORT, such as 8000"):
        parse_http_address(given)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.9"])
def test_loopback_needs_no_auth(host):
    address = HttpAddress(host, 0)
    with open_socket(address, HttpOptions(), has_auth=False) as sock:
        assert not sock.getblocking()
        port = sock.getsockname()[1]
        assert url_of(sock, address, HttpOptions(path="/x")) == f"http://{host}:{port}/x"


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_public_address_needs_auth_or_the_word_public(host):
    # HT-04, HT-05
    address = HttpAddress(host, 0)
    with pytest.raises(LocalProtocolError, match=r"without auth=: everyone .*=HttpOptions\(public=True\)"):
        open_socket(address, HttpOptions(), has_auth=False)
    for options, has_auth in ((HttpOptions(public=True), False), (HttpOptions(), True)):
        with open_socket(address, options, has_auth=has_auth) as sock:
            assert url_of(sock, address, options).startswith("http://127.0.0.1:")


def test_a_port_in_use_is_named():
    reason = "" if WINDOWS else "Address already in use"
    with open_socket(HttpAddress("127.0.0.1", 0), HttpOptions(), has_auth=False) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(ListenFailed, match=f"cannot listen on 127.0.0.1:{port}: {reason}"):
            open_socket(HttpAddress("127.0.0.1", port), HttpOptions(), has_auth=False)


def test_an_unknown_name_is_an_error():
    with pytest.raises(ListenFailed, match=r"cannot listen on nosuch\.invalid:80: "):
        open_socket(HttpAddress("nosuch.invalid", 80), HttpOptions(public=True), has_auth=False)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux only")
def test_the_kernel_drops_a_client_that_does_not_read():
    with open_socket(HttpAddress("127.0.0.1", 0), HttpOptions(write_timeout=2.5), has_auth=False) as sock:
        sock.setblocking(True)
        with socket.create_connection(sock.getsockname()) as client:
            accepted, _ = sock.accept()
            with accepted, client:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 2500


def test_what_it_accepts_does_not_delay_small_writes():
    with open_socket(HttpAddress("127.0.0.1", 0), HttpOptions(), has_auth=False) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # asyncio turns the delay off only if it knows that this is TCP
