"""HTTP servers with one fault each: the front end of ``http_reference.py`` with one method that is wrong."""

import json

from check.http_reference import Reference, ReferenceTarget, error
from check.mutation import raw_mutant
from twopipes._protocol.revisions import MODERN


def mutant(rule, *, revision=None):
    """Register a subclass of the front end."""

    def enter(front):
        def target():
            return ReferenceTarget(front)

        target.__name__, target.__module__ = front.__name__, front.__module__
        raw_mutant(rule, revision=revision)(target)
        return front

    return enter


# Who may connect


@mutant("HT-02")
@mutant("HT-02", revision="2025-03-26")
class AcceptsAnyOrigin(Reference):
    def is_allowed(self, request):
        return request.header("Host").startswith("127.0.0.1")


@mutant("HT-02")
class RejectsOriginsWith400(Reference):
    async def handle(self, request, reply):
        if self.is_allowed(request):
            await super().handle(request, reply)
        else:
            reply.empty(400)


@mutant("HT-02", revision="2025-11-25")
class ChecksTheOriginOfPostsOnly(Reference):
    def is_allowed(self, request):
        return request.method == "GET" or super().is_allowed(request)


@mutant("HT-03")
class AcceptsAnyHost(Reference):
    def is_allowed(self, request):
        return request.header("Origin") is None


# POST


@mutant("HT-10")
@mutant("HT-10", revision="2025-11-25")
class AcceptsWith200(Reference):
    def accept(self, reply):
        reply.empty(200)


@mutant("HT-10")
class AcceptsWithABody(Reference):
    def accept(self, reply):
        reply.json(b"{}", 202)


@mutant("HT-11")
@mutant("HT-11", revision="2025-11-25")
class AcceptsAnyObject(Reference):
    def reject(self, reply):
        reply.empty(202)


@mutant("HT-12")
class SendsPlainText(Reference):
    def respond(self, request, reply, line):
        reply.whole(200, {"Content-Type": "text/plain"}, line)
        return True


@mutant("HT-12")
class SendsNoResponse(Reference):
    def respond(self, request, reply, line):
        if b'"listChanged"' in line:  # a conversation can be opened
            return super().respond(request, reply, line)
        reply.json(b"")
        return True


@mutant("HT-14")
class AnswersMalformedBodies(Reference):
    def reject_body(self, reply, message):
        reply.json(error(None, -32700, "Parse error"), 200)


@mutant("HT-14")
class BreaksAfterMalformedBodies(Reference):
    broken = False

    def reject_body(self, reply, message):
        self.broken = True
        super().reject_body(reply, message)

    async def converse(self, request, reply, message):
        if self.broken:
            reply.empty(500)
        else:
            await super().converse(request, reply, message)


# Streams


@mutant("HT-15")
@mutant("HT-15", revision="2025-11-25")
class KeepsStreamsOpen(Reference):
    def ends_streams(self):
        return False


@mutant("HT-15")
class EndsStreamsWithoutTheResponse(Reference):
    def respond(self, request, reply, line):
        if not reply.is_started:
            return super().respond(request, reply, line)
        reply.end()
        return True


def progress(token):
    params = {"progressToken": token, "progress": 1}
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).encode()


class SendsSomethingElse(Reference):
    extra = b""

    def respond(self, request, reply, line):
        if reply.is_started:
            reply.event(self.extra)
        return super().respond(request, reply, line)


@mutant("HT-16")
class SendsProgressOfAnotherCall(SendsSomethingElse):
    extra = progress("another")


@mutant("HT-16")
class SendsChangesOnAnyStream(SendsSomethingElse):
    extra = b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}'


@mutant("HT-16", revision="2025-11-25")
class SendsProgressOfAnotherLegacyCall(Reference):
    def finish(self, session, stream):
        stream.send(progress("another"))
        super().finish(session, stream)


@mutant("HT-17")
class AllowsBuffering(Reference):
    def stream_headers(self):
        return {"X-Accel-Buffering": "yes"}


@mutant("HT-19")
class SendsTextInAStream(SendsSomethingElse):
    extra = b"almost done"


@mutant("HT-22")
class CancelsWhenAConnectionIsLost(Reference):
    async def post_is_gone(self, session, stream, *, gone):
        if gone:
            params = {"requestId": stream.request_id}
            line = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).encode()
            session.channel.write(line + b"\n")
            session.posts.remove(stream)
            self.finish(session, stream)


# GET


@mutant("HT-25")
class HasNoGet(Reference):
    async def get(self, request, reply):
        reply.empty(404)


@mutant("HT-25")
class AnswersGetWithAPage(Reference):
    async def get(self, request, reply):
        reply.whole(200, {"Content-Type": "text/html"}, b"<p>It works!</p>")


@mutant("HT-26")
class SendsResponsesOnGet(Reference):
    def finish(self, session, stream):
        session.get.send(b'{"jsonrpc": "2.0", "id": 1, "result": {}}')
        super().finish(session, stream)


@mutant("HT-27")
class SendsProgressOnGet(Reference):
    def deliver(self, session, stream, line, message):
        super().deliver(session, session.get if message.get("method") == "notifications/progress" else stream, line, message)


@mutant("HT-28")
class BroadcastsChanges(Reference):
    def __init__(self, server):
        super().__init__(server)
        self.replies = []

    async def get(self, request, reply):
        self.replies.append(reply)
        await super().get(request, reply)

    def deliver(self, session, stream, line, message):
        if stream is session.get:
            for reply in self.replies:
                reply.event(line)
        else:
            super().deliver(session, stream, line, message)


# Resumption


@mutant("HT-29")
class CountsEventsOfEachStream(Reference):
    def event_id(self, stream, position):
        return str(position)


@mutant("HT-31")
class ReplaysAllStreams(Reference):
    async def resume(self, session, last, reply):
        reply.stream()
        for stream in self.streams_of(session):
            for event_id, data in stream.events:
                reply.event(data, event_id=event_id)
        reply.end()


@mutant("HT-32")
class StartsStreamsWithAMessage(Reference):
    def primes(self):
        return False


# Sessions


@mutant("HT-36")
class HasOneSessionId(Reference):
    def session_id(self):
        return "the-only-session-of-this-server"


@mutant("HT-36")
class CountsSessions(Reference):
    numbers = iter(range(1, 1000))

    def session_id(self):
        return str(next(self.numbers))


@mutant("HT-37")
class HasSpacesInSessionIds(Reference):
    def session_id(self):
        return super().session_id() + " \xe9"


@mutant("HT-40")
class NeedsNoSessionId(Reference):
    def session_status(self, request):
        if request.header("Mcp-Session-Id") is None and self.sessions:
            request.headers.append(("Mcp-Session-Id", next(iter(self.sessions))))
        return super().session_status(request)


@mutant("HT-41")
class ServesAnySessionId(Reference):
    def session_status(self, request):
        session_id = request.header("Mcp-Session-Id")
        if session_id is not None and session_id not in self.sessions and self.sessions:
            self.sessions[session_id] = next(iter(self.sessions.values()))
        return super().session_status(request)


@mutant("HT-41")
class KeepsEndedSessions(Reference):
    async def delete(self, request, reply):
        reply.empty(204)


@mutant("HT-41")
class ForgetsSessionsWith400(Reference):
    def session_status(self, request):
        return super().session_status(request) and 400


@mutant("HT-44")
class DoesNotKnowDelete(Reference):
    async def delete(self, request, reply):
        reply.empty(501)


# Both eras


@mutant("HT-47")
class HasAPageForGet(Reference):
    speaks = MODERN

    async def handle(self, request, reply):
        if request.method == "POST":
            await super().handle(request, reply)
        else:
            reply.empty(404)


@mutant("HT-48")
class NeedsASessionInModernRequests(Reference):
    async def converse(self, request, reply, message):
        if request.header("Mcp-Session-Id") is not None:
            reply.empty(404)
        else:
            await super().converse(request, reply, message)


@mutant("HT-48")
class SendsSessionIdsToEverybody(Reference):
    def modern_headers(self):
        return {"Mcp-Session-Id": self.session_id()}


@mutant("HT-49")
class ResumesModernStreams(Reference):
    async def converse(self, request, reply, message):
        if request.header("Last-Event-ID") is not None:
            reply.empty(404)
        else:
            await super().converse(request, reply, message)
