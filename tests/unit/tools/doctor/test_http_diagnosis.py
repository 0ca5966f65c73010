"""What the doctor finds out about URLs. Each server is real, on loopback, and wrong in one way."""

import asyncio
import io
import json
import socket

import msgspec
import pytest

from twopipes._tools.doctor.diagnose_http import diagnose_http
from twopipes._tools.doctor.display_http import HttpReport
from twopipes._tools.doctor.examination import DoctorTimeouts
from twopipes._tools.doctor.http_client import failure_of
from twopipes._tools.doctor.http_examination import HttpExamination
from twopipes._tools.terminal import Terminal
from unit.tools.doctor.http_peers import (
    LEGACY_RESULT,
    MODERN_RESULT,
    NET,
    SILENCE,
    STREAM,
    Peer,
    certificate,
    error,
    healthy,
    response,
    result,
)

pytestmark = pytest.mark.slow  # real sockets

PATIENT = DoctorTimeouts(answer=NET, total=60, quick=True)
SHORT = DoctorTimeouts(answer=0.3, total=60, quick=True)


class Examined:
    """The outcome of one examination."""

    def __init__(self, seen, text, peer):
        self.seen = seen
        self.found = diagnose_http(seen)
        self.text = text
        self.peer = peer

    @property
    def codes(self):
        return {each.code for each in self.found}

    @property
    def only(self):
        (only,) = self.found
        return only


def examine(respond, *, path="/mcp", scheme="http", tls=None, timeouts=PATIENT, headers=(), host="127.0.0.1"):
    """Examine a server that responds in this way."""

    async def main():
        async with Peer(respond, tls=tls) as peer:
            written = io.StringIO()
            url = f"{scheme}://{host}:{peer.port}{path}"
            examination = HttpExamination(url, timeouts, dict(headers), HttpReport(Terminal(written)))
            return Examined(await examination.run(), written.getvalue(), peer)

    return asyncio.run(main())


def always(data):
    return lambda _head, _message: data


def test_a_healthy_server_has_no_problem():
    examined = examine(healthy)
    assert examined.codes == set()
    for word in ("stateless", "handshake", "tools", "events"):
        assert f"✓ {word}" in examined.text
    head = examined.peer.heads[0].lower()
    assert "mcp-protocol-version: 2026-07-28\r\n" in head
    assert "mcp-method: server/discover\r\n" in head


def test_a_legacy_server_with_a_session_has_no_problem():
    def respond(head, message):
        if head.startswith("DELETE"):
            return response(b"", status="204 No Content", kind="")
        if head.startswith("GET"):
            return STREAM
        if message["method"] == "server/discover":
            return response(b"Bad Request: missing session id", status="400 Bad Request", kind="text/plain")
        if message["method"] == "initialize":
            return response({"jsonrpc": "2.0", "id": 1, "result": LEGACY_RESULT}, "Mcp-Session-Id: s3ssion")
        assert "mcp-session-id: s3ssion" in head.lower()
        assert "mcp-protocol-version: 2025-11-25" in head.lower()
        return healthy(head, message)

    examined = examine(respond, timeouts=DoctorTimeouts(answer=NET, total=60))
    assert examined.codes == set()
    assert any(head.startswith("DELETE") for head in examined.peer.heads)
    assert "s3ssion" not in msgspec.json.encode(examined.seen).decode()


def test_a_legacy_server_that_refuses_the_probe_with_an_id_of_its_own():
    def respond(head, message):
        if message.get("method") == "server/discover":
            refused = {"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "Missing session ID"}}
            return response(refused, status="400 Bad Request")
        return healthy(head, message)

    examined = examine(respond)
    assert examined.codes == set()
    assert "· stateless     2026-07-28: refused" in examined.text


def test_a_host_that_does_not_exist():
    examined = examine(healthy, host="no-such-host.invalid")
    assert examined.only.code == "host-not-found"
    assert "no-such-host.invalid" in examined.only.cause


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_that_nothing_listens_on(host):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://{host}:{taken.getsockname()[1]}/mcp"
        seen = asyncio.run(HttpExamination(url, PATIENT, {}).run())
    assert [each.code for each in diagnose_http(seen)] == ["connection-refused"]
    assert seen.replies[0].failure.detail == "Connection refused"


def test_several_addresses_that_refuse():
    several = OSError(
        "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 111] Connect call failed ('127.0.0.1', 1)"
    )
    assert failure_of(several).kind == "refused"
    assert failure_of(OSError(113, "x")).kind == "unreachable"


# TLS


def test_a_certificate_that_has_expired(tmp_path, monkeypatch):
    tls, path = certificate(tmp_path, days=(-2, -1))
    monkeypatch.setenv("SSL_CERT_FILE", path)
    assert examine(healthy, scheme="https", tls=tls).only.code == "certificate-expired"


def test_a_certificate_that_is_self_signed(tmp_path):
    tls, _ = certificate(tmp_path)
    assert examine(healthy, scheme="https", tls=tls).only.code == "certificate-not-trusted"


def test_a_certificate_of_another_host(tmp_path, monkeypatch):
    tls, path = certificate(tmp_path, name="other.example")
    monkeypatch.setenv("SSL_CERT_FILE", path)
    assert examine(healthy, scheme="https", tls=tls).only.code == "certificate-of-another-host"


def test_a_certificate_of_a_private_authority_that_is_named(tmp_path, monkeypatch):
    tls, path = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", path)
    assert examine(healthy, scheme="https", tls=tls).codes == set()


def test_https_on_a_port_for_http():
    assert examine(healthy, scheme="https").only.code == "plain-http-port"


def test_http_on_a_port_for_https(tmp_path):
    tls, _ = certificate(tmp_path)
    assert examine(healthy, tls=tls).only.code == "tls-port"


# HTTP


def test_another_protocol():
    assert examine(always(b"SSH-2.0-OpenSSH_9\r\n\r\n")).only.code == "not-http"
    assert examine(always(None)).only.code == "not-http"


def test_a_server_that_does_not_respond():
    assert examine(always(SILENCE), timeouts=SHORT).only.code == "no-http-response"


def test_a_token_is_required():
    metadata = {"resource": "x", "authorization_servers": ["https://auth.example"], "scopes_supported": ["read"]}

    def respond(head, message):
        if head.startswith("GET /.well-known/oauth-protected-resource/mcp "):
            assert "authorization" not in head.lower()
            return response(metadata)
        return response(b"", 'WWW-Authenticate: Bearer scope="read"', status="401 Unauthorized", kind="")

    examined = examine(respond)
    assert examined.only.code == "token-required"
    assert examined.only.evidence == (
        'WWW-Authenticate: Bearer scope="read"',
        "tokens are issued by https://auth.example",
        "scopes: read",
    )
    refused = examine(respond, headers={"Authorization": "Bearer s3cret"})
    assert refused.only.code == "token-refused"
    assert "s3cret" not in msgspec.json.encode(refused.seen).decode() + refused.text
    assert "Authorization: Bearer s3cret" in refused.peer.heads[0]


def test_the_metadata_is_read_from_the_url_of_the_challenge():
    def respond(head, message):
        if head.startswith("GET /own-metadata "):
            return response({"authorization_servers": ["https://auth.example"]})
        port = next(line.rpartition(":")[2] for line in head.split("\r\n") if line.startswith("Host:"))
        challenge = f'WWW-Authenticate: Bearer resource_metadata="http://127.0.0.1:{port}/own-metadata"'
        return response(b"", challenge, status="401 Unauthorized", kind="")

    assert "tokens are issued by https://auth.example" in examine(respond).only.evidence


@pytest.mark.parametrize(("status", "code"), [("401 Unauthorized", "token-required"), ("404 Not Found", "no-endpoint")])
def test_an_http_error_with_a_message_in_its_body(status, code):
    examined = examine(
        lambda _head, message: error(message, -32600, "no", status=status) if message else response(b"", status=status)
    )
    assert examined.only.code == code


def test_a_refused_request():
    forbidden = response(b"invalid Host header", status="403 Forbidden", kind="text/plain")
    assert examine(always(forbidden)).only.code == "forbidden"


def test_a_wrong_path():
    def respond(head, message):
        return healthy(head, message) if " /mcp " in head else response(b"Not Found", status="404 Not Found", kind="text/plain")

    examined = examine(respond, path="/")
    assert examined.only.code == "no-endpoint"
    assert f"http://127.0.0.1:{examined.peer.port}/mcp" in examined.only.fix
    assert examine(always(response(b"", status="404 Not Found", kind=""))).only.code == "no-endpoint"


def test_a_path_without_post():
    assert examine(always(response(b"", status="405 Method Not Allowed", kind=""))).only.code == "post-not-allowed"


def test_the_transport_of_2024():
    def respond(head, message):
        if head.startswith("GET"):
            return STREAM + b"event: endpoint\ndata: /messages?id=1\n\n"
        return response(b"", status="405 Method Not Allowed", kind="")

    assert examine(respond, path="/sse").only.code == "old-sse-transport"


def test_a_web_page():
    page = b"<!doctype html><html><head><title>Sign in &amp; more</title></head></html>"
    examined = examine(always(response(page, kind="text/html; charset=utf-8")))
    assert examined.only.code == "html-instead-of-mcp"
    assert examined.only.evidence == ("Sign in & more",)


def test_a_redirect():
    examined = examine(always(response(b"", "Location: /mcp/", status="307 Temporary Redirect", kind="")))
    assert examined.only.code == "redirected"
    assert examined.only.fix == f"use http://127.0.0.1:{examined.peer.port}/mcp/ as the URL"


def test_a_wrong_content_type():
    message = {"jsonrpc": "2.0", "id": 1, "result": LEGACY_RESULT}
    assert examine(always(response(message, kind="text/plain"))).only.code == "wrong-content-type"
    assert examine(always(response(message, kind=""))).only.code == "wrong-content-type"


def test_another_api():
    assert examine(always(response({"detail": "hello"}))).only.code == "not-mcp"


def test_a_proxy_without_its_server():
    examined = examine(always(response(b"<h1>502</h1>", "Server: nginx/1.2", status="502 Bad Gateway", kind="text/html")))
    assert examined.only.code == "gateway-error"
    assert "nginx/1.2" in examined.only.what


def test_a_server_that_fails():
    assert examine(always(response(b"oops", status="500 Internal Server Error", kind="text/plain"))).only.code == "http-error"


def test_a_proxy_that_buffers():
    def respond(head, message):
        return STREAM if message.get("method") == "subscriptions/listen" else healthy(head, message)

    examined = examine(respond, timeouts=SHORT)
    assert examined.only.code == "stream-buffered"
    assert "! events" in examined.text


# The protocol


def test_a_server_of_the_modern_era_only():
    def respond(head, message):
        if message.get("method") == "initialize":
            return error(message, -32601, "Method not found", status="404 Not Found")
        return healthy(head, message)

    assert examine(respond).only.code == "modern-only"


def test_a_server_that_refuses_every_revision():
    examined = examine(lambda _head, message: error(message, -32602, "no", status="400 Bad Request"))
    assert examined.only.code == "no-common-revision"


def test_a_revision_that_does_not_exist():
    def respond(head, message):
        if message.get("method") == "initialize":
            return result(message, {**LEGACY_RESULT, "protocolVersion": "1.0"})
        return error(message, -32601, "no") if "id" in message else healthy(head, message)

    assert examine(respond).only.code == "strange-revision"


def test_an_invalid_result():
    def respond(head, message):
        if message.get("method") == "initialize":
            return result(message, {"capabilities": {}})
        return error(message, -32601, "no") if "id" in message else healthy(head, message)

    assert examine(respond).only.code == "bad-answer"


def test_a_probe_that_fails():
    def respond(head, message):
        if message.get("method") == "server/discover":
            return response(b"oops", status="500 Internal Server Error", kind="text/plain")
        return healthy(head, message)

    assert examine(respond).only.code == "probe-fails"


def test_a_list_that_fails():
    def respond(head, message):
        return error(message, -32603, "broken") if message.get("method") == "tools/list" else healthy(head, message)

    assert examine(respond).codes == {"list-failed"}


def test_responses_as_streams():
    def respond(head, message):
        if message.get("method") == "server/discover":
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": MODERN_RESULT}, indent=1).encode()
            return STREAM + b": hello\n\ndata: " + body.replace(b"\n", b"\ndata: ") + b"\n\n"
        return healthy(head, message)

    assert examine(respond).codes == set()


def test_the_time_is_bounded():
    timeouts = DoctorTimeouts(answer=0.2, total=0.0, quick=True)
    assert examine(healthy, timeouts=timeouts).only.code == "out-of-time"
