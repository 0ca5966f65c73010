"""Which Host and Origin headers a server accepts against DNS rebinding (HT-02, HT-03), and CORS."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._http.origin import AccessList, cors_headers, is_loopback, parse_authority, parse_origin, preflight_headers

LOOPBACK = "127.0.0.1"
PUBLIC = "203.0.113.7"


def status(access, host=None, origin=None, local=LOOPBACK):
    headers = {"host": host, "origin": origin}
    refusal = access.check({name: value for name, value in headers.items() if value is not None}, local=local)
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8000",
        "LOCALHOST:8000",
        "localhost.",
        "127.0.0.1:8000",
        "127.8.9.10",
        "[::1]",
        "[::1]:8000",
        "[0:0::1]:80",
    ],
)
def test_loopback_names_are_valid_hosts(host):
    assert status(AccessList(), host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",  # DNS rebinding: the name resolves to 127.0.0.1, and the browser still reports it
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "xn--lcalhost-13a",
        "0.0.0.0:8000",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "[::ffff:203.0.113.9]",
        "[::1%25lo]",
        "[::1",
        "[::1]x",
        "::1",
        "localhost:",
        "localhost:0x50",
        "localhost:99999",
        "localhost:80:80",
        "user@localhost",
        "localhost/path",
        "localhost, evil.example",  # the header was sent twice
        "localhost evil.example",
        "loc\u00e4lhost",
        "\u0661\u0662\u0667.0.0.1",
        "localhost:\u0668\u0660",
        "-",
        "",
        None,
    ],
)
def test_other_hosts_are_refused(host):
    assert status(AccessList(), host) == 403


def test_the_address_that_the_client_connected_to_is_a_valid_host():
    assert status(AccessList(), f"{PUBLIC}:8000", local=PUBLIC) == 200
    assert status(AccessList(), f"{PUBLIC}:8000", local=f"::ffff:{PUBLIC}") == 200
    assert status(AccessList(), "[fe80::1]:8000", local="fe80::1%eth0") == 200
    assert status(AccessList(), "203.0.113.8", local=PUBLIC) == 403
    assert status(AccessList(), "run.sock", local="run.sock") == 403  # a Unix socket has a path, not an address
    assert status(AccessList(), "localhost", local=None) == 200


def test_listed_hosts_are_accepted_with_their_port_or_any():
    access = AccessList(hosts=["MCP.example.com", "other.example.com:8443", "*.corp.example", "b\u00fccher.example"])
    for host in ("mcp.example.com", "mcp.example.com:1", "other.example.com:8443", "a.corp.example", "a.b.corp.example:9"):
        assert status(access, host) == 200
    assert status(access, "xn--bcher-kva.example") == 200
    assert status(access, "localhost:8000") == 200
    for host in (
        "example.com",
        "other.example.com",
        "other.example.com:8444",
        "corp.example",
        "evilcorp.example",
        "x.mcp.example.com",
    ):
        assert status(access, host) == 403


def test_a_star_accepts_every_host_and_still_no_origin():
    access = AccessList(hosts=["*"])
    assert status(access, "evil.example") == status(access) == status(access, "a b") == 200
    assert status(access, "evil.example", "http://evil.example") == 403


@pytest.mark.parametrize(
    "origin", ["http://localhost:6274", "https://127.0.0.1", "http://[::1]:3000", "HTTP://LOCALHOST", "http://127.9.9.9"]
)
def test_pages_on_loopback_may_use_a_server_on_loopback(origin):
    assert status(AccessList(), "localhost:8000", origin) == 200
    assert status(AccessList(), "[::1]:8000", origin, local="::1") == 200


@pytest.mark.parametrize("origin", ["http://localhost:6274", "http://127.0.0.1"])
def test_pages_on_loopback_are_not_trusted_by_a_public_server(origin):
    assert status(AccessList(), f"{PUBLIC}:80", origin, local=PUBLIC) == 403
    # Behind a proxy on the same machine the socket is loopback and the name is not.
    assert status(AccessList(hosts=["mcp.example.com"]), "mcp.example.com", origin) == 403
    assert status(AccessList(hosts=["*"]), "a b", origin) == 403
    assert status(AccessList(), "localhost", origin, local=None) == 403


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost.evil.example",
        "http://evil.example#localhost",
        "http://localhost@evil.example",
        "http://localhost/",
        "http://localhost:6274, http://evil.example",  # the header was sent twice
        "file://",
        "tauri://localhost",
        "localhost",
        "null",
        "http://",
        "://localhost",
        "",
    ],
)
def test_other_origins_are_refused(origin):
    assert status(AccessList(), "localhost:8000", origin) == 403


def test_listed_origins_are_compared_in_their_normal_form():
    access = AccessList(
        origins=["https://App.Example.com:443", "http://b\u00fccher.example", "vscode-webview://abc", "http://[::2]:80"]
    )
    for origin in ("https://app.example.com", "http://xn--bcher-kva.example", "vscode-webview://abc", "http://[::2]"):
        assert status(access, "localhost", origin) == 200
    for origin in ("http://app.example.com", "https://app.example.com:8443", "https://example.com", "https://x.app.example.com"):
        assert status(access, "localhost", origin) == 403


def test_a_star_accepts_every_origin():
    access = AccessList(origins=["*"])
    assert status(access, "localhost", "null") == status(access, "localhost", "http://evil.example") == 200
    assert status(access, "evil.example", "http://evil.example") == 403


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hosts": ["https://mcp.example.com"]}, "hosts must contain names"),
        ({"hosts": ["mcp.example.com/mcp"]}, "hosts must contain names"),
        ({"hosts": ["stra\u00dfe.example"]}, "hosts must contain names"),
        ({"hosts": ["*."]}, "a domain after"),
        ({"hosts": "mcp.example.com"}, "write ('mcp.example.com',)"),
        ({"origins": ["app.example.com"]}, "origins must contain origins"),
        ({"origins": ["https://app.example.com/"]}, "without a path"),
        ({"origins": ["null"]}, "every website"),
    ],
)
def test_wrong_entries_are_refused_with_an_example(options, words):
    with pytest.raises(ValueError) as caught:
        AccessList(**options)
    assert words in str(caught.value)


def test_a_refusal_names_the_option_and_repeats_no_raw_header():
    access = AccessList()
    assert "HttpOptions(hosts=...)" in access.check({"host": "Evil.Example"}, local=LOOPBACK).message
    refusal = access.check({"host": "localhost", "origin": "https://Evil.Example:443"}, local=LOOPBACK)
    assert refusal.message.startswith("Origin https://evil.example is not allowed")
    assert "\x1b" not in access.check({"host": "\x1b[2Jevil"}, local=LOOPBACK).message


def test_what_is_remembered_is_bounded():
    access = AccessList()
    for port in range(1, 2000):
        assert status(access, f"localhost:{port}") == 200
        assert status(access, f"evil.example:{port}") == 403
    assert len(access._accepted) <= 256
    assert status(access, "localhost:1999") == 200


# Host and origin as text


@given(st.text())
def test_no_text_is_taken_for_loopback_by_accident(text):
    try:
        host, port = parse_authority(text)
    except ValueError:
        return
    assert host.isascii()
    assert port is None or 0 <= port <= 0xFFFF
    if is_loopback(host):
        assert host in {"localhost", "::1"} or host.startswith(("127.", "::ffff:7f"))


@given(st.text())
def test_an_origin_is_parsed_or_refused(text):
    try:
        origin = parse_origin(text)
    except ValueError:
        return
    assert "://" in text
    assert origin.scheme == text.partition("://")[0].lower()


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("::1", True), ("::ffff:127.0.0.1", True), ("::2", False), ("10.0.0.1", False), ("x", False)],
)
def test_what_is_loopback(host, expected):
    assert is_loopback(host) is expected


# CORS


def test_an_accepted_page_may_read_the_response_and_no_other():
    assert dict(cors_headers({"origin": "https://app.example.com"})) == {
        b"access-control-allow-origin": b"https://app.example.com",
        b"access-control-expose-headers": b"mcp-session-id, www-authenticate",
        b"vary": b"Origin",
    }
    assert cors_headers({"host": "localhost"}) == ()


def test_a_preflight_allows_the_headers_of_the_protocol():
    headers = dict(
        preflight_headers(
            {
                "origin": "https://app.example.com",
                "access-control-request-method": "POST",
                "access-control-request-headers": "content-type, Mcp-Param-Region ,mcp-param-a,x-other, mcp-param-",
            }
        )
    )
    assert headers[b"access-control-allow-origin"] == b"https://app.example.com"
    assert headers[b"access-control-allow-methods"] == b"GET, POST, DELETE"
    assert headers[b"access-control-allow-headers"] == (
        b"accept, authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, "
        b"mcp-param-region, mcp-param-a"
    )
    assert b"access-control-allow-credentials" not in headers


def test_a_preflight_repeats_a_bounded_number_of_headers():
    requested = ",".join(f"mcp-param-{number}" for number in range(5000))
    headers = dict(
        preflight_headers({"origin": "null", "access-control-request-method": "POST", "access-control-request-headers": requested})
    )
    assert headers[b"access-control-allow-headers"].count(b"mcp-param-") == 100


def test_options_from_a_program_gets_the_methods():
    assert preflight_headers({"host": "localhost"}) == ((b"allow", b"GET, POST, DELETE, OPTIONS"),)
    assert preflight_headers({"origin": "https://app.example.com"}) == ((b"allow", b"GET, POST, DELETE, OPTIONS"),)
