"""The parser of addresses: ``unix:/path`` and ``tcp://host:port``."""

from pathlib import Path

import pytest

from twopipes._channels.address import TcpAddress, UnixAddress, parse_address, parse_host_port
from twopipes.errors import LocalProtocolError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/x.sock", UnixAddress("/run/x.sock")),
        ("unix:///run/x.sock", UnixAddress("/run/x.sock")),
        ("unix:relative.sock", UnixAddress("relative.sock")),
        ("unix:~/x.sock", UnixAddress(f"{Path.home()}/x.sock")),
        ("tcp://127.0.0.1:9000", TcpAddress("127.0.0.1", 9000)),
        ("tcp://localhost:9000/", TcpAddress("localhost", 9000)),
        ("tcp://[::1]:9000", TcpAddress("::1", 9000)),
    ],
)
def test_an_address_is_parsed(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["unix:/run/x.sock", "tcp://127.0.0.1:9000", "tcp://[::1]:9000"])
def test_an_address_as_text_is_what_was_parsed(text):
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unix:", "'unix:' has no path; write unix:/path/to/socket"),
        ("unix://", "'unix://' has no path; write unix:/path/to/socket"),
        ("tcp://localhost", "'tcp://localhost' has no port; write tcp://127.0.0.1:9000"),
        ("tcp://:9000", "'tcp://:9000' has no port; write tcp://127.0.0.1:9000"),
        ("tcp://localhost:http", "'tcp://localhost:http' has no port; write tcp://127.0.0.1:9000"),
    ],
)
def test_an_invalid_address_is_refused(text, message):
    with pytest.raises(LocalProtocolError) as caught:
        parse_address(text)
    assert str(caught.value) == message


def test_a_missing_host_gets_the_default():
    assert parse_host_port(":9000", default_host="127.0.0.1") == ("127.0.0.1", 9000)
    assert parse_host_port("[::1]:9000", default_host="127.0.0.1") == ("::1", 9000)
    with pytest.raises(ValueError, match="not HOST:PORT"):
        parse_host_port("9000", default_host="127.0.0.1")
