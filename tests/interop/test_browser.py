"""A page in Chromium uses our server from another origin: an origin on the list may, and any other may not (CORS)."""

import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from interop.harness import EXAMPLES, NET, browser, serving

pytestmark = pytest.mark.interop

SERVE = """
import sys
sys.path.insert(0, sys.argv[1])
from everything import server
from twopipes.http import HttpOptions
server.run(http=int(sys.argv[3]), http_options=HttpOptions(origins=(sys.argv[2],)))
"""
# A client as a page would have one: fetch alone, in each era.
PAGE = """
<!doctype html><title>client</title><script>
const VERSION = '2026-07-28';
const accept = 'application/json, text/event-stream';
async function messagesOf(response) {
  const text = await response.text();
  if (response.headers.get('content-type') !== 'text/event-stream') return [JSON.parse(text)];
  const data = text.split('\\n').filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trim());
  return data.filter((each) => each).map((each) => JSON.parse(each));
}
async function modern(url, name, args, meta) {
  const params = { name, arguments: args, _meta: {
    'io.modelcontextprotocol/protocolVersion': VERSION, 'io.modelcontextprotocol/clientCapabilities': {}, ...meta } };
  const headers = {
    'Content-Type': 'application/json', Accept: accept, Authorization: 'Bearer x',
    'MCP-Protocol-Version': VERSION, 'Mcp-Method': 'tools/call', 'Mcp-Name': name, 'Mcp-Param-Region': 'eu' };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
  return messagesOf(await fetch(url, { method: 'POST', headers, body }));
}
async function legacy(url, name, args) {
  const headers = { 'Content-Type': 'application/json', Accept: accept };
  const post = (message) => fetch(url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }) });
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'page', version: '1' } };
  const opened = await post({ id: 1, method: 'initialize', params });
  await messagesOf(opened);
  headers['Mcp-Session-Id'] = opened.headers.get('mcp-session-id');
  headers['MCP-Protocol-Version'] = '2025-11-25';
  const noted = await post({ method: 'notifications/initialized' });
  const called = await messagesOf(await post({ id: 2, method: 'tools/call', params: { name, arguments: args } }));
  const ended = await fetch(url, { method: 'DELETE', headers });
  return { noted: noted.status, called, ended: ended.status };
}
async function outcome(promise) {
  try { return await promise; } catch (error) { return `${error}`; }
}
</script>
"""


class Pages(BaseHTTPRequestHandler):
    """Serves the page at every path."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *arguments):
        pass


@contextmanager
def website():
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def chromium():
    with browser("--host-resolver-rules=MAP *.example 127.0.0.1") as found:
        yield found


@pytest.fixture
def visit(chromium, tmp_path):
    """Serve everything to the pages of app.example, and open a page of a host name in Chromium."""
    with website() as port:
        allowed = f"http://app.example:{port}"
        with serving([sys.executable, "-c", SERVE, str(EXAMPLES), allowed], tmp_path) as url:

            def open_page(host):
                context = chromium.new_context()
                context.set_default_timeout(NET * 1000)
                page = context.new_page()
                page.goto(f"http://{host}:{port}/")
                return page, url

            yield open_page


def test_a_page_of_an_allowed_origin_calls_tools_in_the_modern_era(visit):
    page, url = visit("app.example")
    (message,) = page.evaluate("url => modern(url, 'echo', {text: 'hello'})", url)
    assert message["result"]["content"] == [{"type": "text", "text": "hello"}]
    *progress, last = page.evaluate("url => modern(url, 'slow', {steps: 3}, {progressToken: 'p'})", url)
    assert [each["params"]["progress"] for each in progress] == [1, 2, 3]
    assert last["result"]["content"][0]["text"] == "3 steps"


def test_a_page_of_an_allowed_origin_has_a_legacy_session(visit):
    page, url = visit("app.example")
    found = page.evaluate("url => legacy(url, 'echo', {text: 'hello'})", url)
    assert found["called"][-1]["result"]["content"] == [{"type": "text", "text": "hello"}]
    assert (found["noted"], found["ended"]) == (202, 204)


@pytest.mark.parametrize("call", ["modern", "legacy"])
def test_a_page_of_another_origin_is_refused(visit, call):
    page, url = visit("evil.example")
    assert page.evaluate(f"url => outcome({call}(url, 'echo', {{text: 'hello'}}))", url) == "TypeError: Failed to fetch"
