"""HTTP clients with one fault each: our client behind a proxy that is wrong."""

import json
import re

from check.http_proxy import Proxy, through
from check.mutation import raw_mutant
from twopipes._http.headers import decode_value
from twopipes._tools.check.http.wire import HttpExchange
from twopipes._tools.check.messages import members


def mutant(rule, *, revision=None):
    """Register a subclass of the proxy."""

    def enter(proxy):
        def driver():
            return through(proxy)

        driver.__name__, driver.__module__ = proxy.__name__, proxy.__module__
        raw_mutant(rule, revision=revision)(driver)
        return proxy

    return enter


def method_of(request):
    return members(request.message).get("method")


def name_of(request):
    return members(members(request.message).get("params")).get("name")


def replace(request, name, change):
    """Change the value of a header; ``None`` removes it."""
    found = [(each, change(value) if each.lower() == name.lower() else value) for each, value in request.headers]
    request.headers = [(each, value) for each, value in found if value is not None]


def is_session(request):
    return request.header("Mcp-Session-Id") is not None


# Requests


@mutant("HT-06")
class PostsToAnotherPath(Proxy):
    def to_server(self, request):
        if method_of(request) == "prompts/list":
            request.target = "/mcp/messages"


@mutant("HT-06")
class SendsMessagesByPut(Proxy):
    def to_server(self, request):
        if method_of(request) == "prompts/list":
            request.method = "PUT"


@mutant("HT-07")
class AcceptsJsonOnly(Proxy):
    def to_server(self, request):
        replace(request, "Accept", lambda _value: "application/json")


@mutant("HT-07")
class AcceptsStreamsOnly(Proxy):
    def to_server(self, request):
        replace(request, "Accept", lambda _value: "text/event-stream")


@mutant("HT-08")
@mutant("HT-08", revision="2025-11-25")
class SendsArrays(Proxy):
    def to_server(self, request):
        if method_of(request) == "prompts/list":
            request.body = b"[" + request.body + b"]"


@mutant("HT-08")
class SendsResponses(Proxy):
    async def handle(self, request, reply):
        if method_of(request) == "prompts/list":
            response = HttpExchange(self.address, "POST", dict(request.headers), b'{"jsonrpc": "2.0", "id": 1, "result": {}}')
            response._head = [line for line in response._head if not line.lower().startswith(b"content-length")]
            response._head.append(b"Content-Length: 41")
            await response.send(within=5)
            await response.read_all()
            response.close()
        await super().handle(request, reply)


@mutant("HT-09")
class SendsPlainText(Proxy):
    def to_server(self, request):
        replace(request, "Content-Type", lambda _value: "text/plain")


@mutant("HT-24")
class DoesNotAcceptStreamsOfGet(Proxy):
    def to_server(self, request):
        if request.method == "GET":
            replace(request, "Accept", lambda _value: "*/*")


# Responses


@mutant("HT-13")
@mutant("HT-13", revision="2025-11-25")
class CannotReadStreams(Proxy):
    def to_client(self, request, exchange):
        if exchange.is_stream and method_of(request) != "tools/call":
            exchange.status = 500


@mutant("HT-13")
class CannotReadJsonOfSeveralLines(Proxy):
    def body_to_client(self, request, body):
        return body.partition(b"\n")[0]


@mutant("HT-18")
class ReadsComments(Proxy):
    def body_to_client(self, request, body):
        return b"data: {}\n\n" if b": keep-alive" in body else body


@mutant("HT-19")
class DoesNotKnowCarriageReturns(Proxy):
    def body_to_client(self, request, body):
        return b":\n\n" if b"\r\r" in body else body


@mutant("HT-19")
class NeedsASpaceAfterTheColon(Proxy):
    def body_to_client(self, request, body):
        return b":\n\n" if b"data:{" in body else body


@mutant("HT-19")
class KnowsOneLineOfData(Proxy):
    def body_to_client(self, request, body):
        return re.sub(rb",\ntwopipes: unknown\ndata: [^\n]*", b"", body)


@mutant("HT-65")
class ReadsOneCaseOfHeaders(Proxy):
    def to_client(self, request, exchange):
        exchange.headers = [(name, value) for name, value in exchange.headers if not name.isupper()]


# Cancellation and resumption


@mutant("HT-21")
class SendsCancellations(Proxy):
    async def client_is_gone(self, request):
        if name_of(request) == "stuck":
            params = {"requestId": request.message["id"]}
            body = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).encode()
            names = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            version = {"MCP-Protocol-Version": request.header("MCP-Protocol-Version"), "Mcp-Method": "notifications/cancelled"}
            exchange = HttpExchange(self.address, "POST", {**names, **version}, body)
            await exchange.send(within=5)
            await exchange.read_all()
            exchange.close()


@mutant("HT-23")
class SendsNoCancellations(Proxy):
    def to_server(self, request):
        return 202 if method_of(request) == "notifications/cancelled" else None


@mutant("HT-34")
class DoesNotWait(Proxy):
    def body_to_client(self, request, body):
        return re.sub(rb"retry: \d+\n", b"retry: 1\n", body)


@mutant("HT-35")
class DoesNotResume(Proxy):
    def to_server(self, request):
        return 405 if request.header("Last-Event-ID") is not None else None


@mutant("HT-35")
class ForgetsTheEvent(Proxy):
    def to_server(self, request):
        replace(request, "Last-Event-ID", lambda _value: None)


# Sessions and versions


@mutant("HT-38")
class ForgetsTheSession(Proxy):
    def to_server(self, request):
        if method_of(request) == "prompts/list":
            replace(request, "Mcp-Session-Id", lambda _value: None)


@mutant("HT-42")
class GivesUpAfter404(Proxy):
    def to_client(self, request, exchange):
        if exchange.status == 404 and is_session(request):
            exchange.status = 500


@mutant("HT-42")
class KeepsTheIdOfTheSession(Proxy):
    old = None

    def to_server(self, request):
        self.old = self.old or request.header("Mcp-Session-Id")
        if method_of(request) == "initialize" and self.old:
            request.headers.append(("Mcp-Session-Id", self.old))


@mutant("HT-43")
class DoesNotEndSessions(Proxy):
    def to_server(self, request):
        return 204 if request.method == "DELETE" else None


@mutant("HT-45")
class DoesNotReadErrors(Proxy):
    def body_to_client(self, request, body):
        return b"" if b"-32020" in body else body


@mutant("HT-46")
class DoesNotFallBack(Proxy):
    is_rejected = False

    def to_client(self, request, exchange):
        self.is_rejected |= exchange.status == 400 and exchange.header("Content-Length") == "0"

    def to_server(self, request):
        return 500 if self.is_rejected and method_of(request) == "initialize" else None


@mutant("HT-50")
@mutant("HT-50", revision="2025-06-18")
class ForgetsTheVersion(Proxy):
    def to_server(self, request):
        if method_of(request) == "prompts/list":
            replace(request, "MCP-Protocol-Version", lambda _value: None)


@mutant("HT-51")
@mutant("HT-51", revision="2025-06-18")
class SendsAnotherVersion(Proxy):
    def to_server(self, request):
        if method_of(request) == "prompts/list":
            replace(request, "MCP-Protocol-Version", lambda _value: "2025-11-25")


# Method, name and arguments


@mutant("HT-59")
class SendsNoMethod(Proxy):
    def to_server(self, request):
        replace(request, "Mcp-Method", lambda _value: None)


@mutant("HT-59")
class SendsTheMethodInUpperCase(Proxy):
    def to_server(self, request):
        replace(request, "Mcp-Method", str.upper)


@mutant("HT-60")
class SendsNoName(Proxy):
    def to_server(self, request):
        if method_of(request) == "resources/read":
            replace(request, "Mcp-Name", lambda _value: None)


def decoded(value):
    return decode_value(value).encode("utf-8").decode("latin-1").replace("\n", " ")


@mutant("HT-61")
class SendsNamesAsTheyAre(Proxy):
    def to_server(self, request):
        replace(request, "Mcp-Name", decoded)


@mutant("HT-61")
class SendsArgumentsAsTheyAre(Proxy):
    def to_server(self, request):
        replace(request, "Mcp-Param-Greeting", decoded)


@mutant("HT-68")
class SendsNoArguments(Proxy):
    def to_server(self, request):
        request.headers = [(name, value) for name, value in request.headers if not name.lower().startswith("mcp-param-")]


@mutant("HT-68")
class SendsBooleansLikePython(Proxy):
    def to_server(self, request):
        replace(request, "Mcp-Param-Urgent", str.title)


@mutant("HT-69")
class SendsMissingArguments(Proxy):
    def to_server(self, request):
        if name_of(request) == "mirror":
            request.headers.append(("Mcp-Param-Absent", "null"))


@mutant("HT-70")
class KeepsInvalidTools(Proxy):
    def body_to_client(self, request, body):
        return body.replace(b"x-mcp-header", b"x-header")


@mutant("HT-70")
class DropsAllToolsForOne(Proxy):
    def body_to_client(self, request, body):
        return re.sub(rb'"tools":\[\{.*\}\]', b'"tools":[]', body) if b"invalid-" in body else body


@mutant("HT-72")
class DoesNotListAgain(Proxy):
    def body_to_client(self, request, body):
        return body.replace(b"-32020", b"-32603") if method_of(request) == "tools/call" else body
