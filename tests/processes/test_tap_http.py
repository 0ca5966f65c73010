"""``twopipes tap URL`` as a process: between a real HTTP client and a real HTTP server."""

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from processes.launching import ENDINGS, INITIALIZE, NET, python
from processes.tapping import wait_until
from twopipes.trace import Event, Line, read


class Handler(BaseHTTPRequestHandler):
    """Answers every request with an empty result."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"host": self.headers["Host"]}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def url():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/mcp"
    server.shutdown()
    thread.join(NET)
    server.server_close()


def tapped(launch, url, *options):
    """Start a tap and return it with its port."""
    child = launch(python("-m", "twopipes", "tap", *map(str, options), url))
    address = child.err.until("connect to ").partition("connect to ")[2].partition(" instead of ")
    assert address[2].strip() == url
    return child, int(address[0].rpartition(":")[2].partition("/")[0])


def post(port, message):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=NET)
    try:
        connection.request(
            "POST", "/mcp", json.dumps(message), {"Content-Type": "application/json", "Authorization": "Bearer s3cret"}
        )
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_tap_records_until_it_is_ended(launch, url, tmp_path, ending):
    file = tmp_path / "http.jsonl"
    child, port = tapped(launch, url, "-o", file, "--redact", "name")
    host = url.split("/")[2]
    assert post(port, INITIALIZE) == (200, {"jsonrpc": "2.0", "id": 0, "result": {"host": host}})
    wait_until(lambda: file.read_bytes().count(b"\n") > 2)  # the header and two messages
    child.end_by(ending)
    recording = read(file)
    assert recording.header.recorder == "tap"
    assert recording.header.target == url
    kinds = [entry.kind if isinstance(entry, Line) else entry.name for entry in recording if isinstance(entry, Line | Event)]
    assert kinds[:2] == [">", "<"]
    assert b"s3cret" not in file.read_bytes()
    assert b'\\"name\\": \\"[redacted]\\"' in file.read_bytes()


def test_a_recording_over_http_can_be_viewed(launch, run, url, tmp_path):
    child, port = tapped(launch, url, "-o", tmp_path / "http.jsonl", "--http", "0")
    post(port, INITIALIZE)
    child.stop()
    shown = run(python("-m", "twopipes", "view", "http.jsonl")).stdout.decode()
    assert shown.startswith(url)
    assert "┌> initialize #0 2025-11-25 test 1" in shown


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--http", "9000"], "--http needs the URL of a server"),
        (["--http", "9000", "--", "cat"], "--http needs the URL of a server"),
        (["--http", "x", "http://127.0.0.1:1/mcp"], "--http needs a port, such as 9000, not 'x'"),
        (["--http", "0.0.0.0:9000", "http://127.0.0.1:1/mcp"], "listens on this machine only"),
        (["http://"], "is not a URL such as http://127.0.0.1:8000/mcp"),
        (["http://127.0.0.1:1/mcp", "more"], "unknown argument more"),
        (["-o", "missing/x.jsonl", "--", "http://127.0.0.1:1/mcp"], "cannot record: "),
    ],
)
def test_mistakes_on_the_command_line(run, words, why):
    done = run(python("-m", "twopipes", "tap", *words))
    assert (done.returncode, done.stdout) == (2, b"")
    assert why in done.stderr.decode()


def test_a_port_that_is_taken(launch, run, url, tmp_path):
    child, port = tapped(launch, url)
    done = run(python("-m", "twopipes", "tap", "--http", str(port), url))
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr.decode()
    child.stop()
