"""Findings in recordings: for each rule a recording that breaks it, and a similar one that does not."""

import pytest

from twopipes._rules.table import RULES
from twopipes._trace.conversation import Conversation, read_conversation
from twopipes._trace.findings import JUDGED_RULES, Judge, judge
from twopipes._trace.format import Damage, Event, Header, Line
from unit.trace.recordings import (
    CLIENT,
    DISCOVERY,
    INITIALIZED,
    SERVER,
    VERSION,
    call,
    done,
    entries,
    handshake,
    meta,
    modern,
    note,
    played,
    recording,
    transcripts,
)

TAG = "io.modelcontextprotocol/subscriptionId"
LEVEL = "io.modelcontextprotocol/logLevel"
ASK = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}
TEXT = {"type": "text", "text": "hi"}
TOOL = {"name": "echo", "inputSchema": {"type": "object"}}


def error(request_id, code, message="no", **more):
    return {"id": request_id, "error": {"code": code, "message": message, **more}}


def session(*steps, **options):
    return [*handshake(**options), *steps]


def stateless(*steps):
    return [*DISCOVERY, *steps]


def pair(request, answer):
    return [(">", request), ("<", answer)]


def answered(method, result, **options):
    """A session in which one request gets this result."""
    params = {"tools/call": {"name": "echo"}, "resources/read": {"uri": "x:"}, "prompts/get": {"name": "p"}}.get(method, {})
    if method == "completion/complete":
        params = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "b"}}
    everything = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}
    return session(*pair(call(1, method, **params), {"id": 1, "result": result}), server=everything, **options)


def asked(method, params, result, capability):
    """A session in which the server asks this and is answered so."""
    client = {capability: {}}
    return session(("<", call("q", method, **params)), (">", {"id": "q", "result": result}), client=client)


def asking(result, *more, capabilities=None, method="tools/call", **params):
    """A modern call that is answered with questions."""
    own = meta(capabilities=capabilities or {})
    answer = {"id": 1, "result": {"resultType": "input_required", "_meta": done(1)["result"]["_meta"], **result}}
    return stateless(*pair(modern(1, method, _meta=own, name="ask", **params), answer), *more)


def again(request_id=2, **params):
    return (">", modern(request_id, "tools/call", _meta=meta(capabilities={"elicitation": {}}), **{"name": "ask", **params}))


def listening(*more, wanted=None, acknowledged=None):
    wanted = {"toolsListChanged": True} if wanted is None else wanted
    acknowledgement = note(
        "notifications/subscriptions/acknowledged", _meta={TAG: "L"}, notifications=wanted if acknowledged is None else acknowledged
    )
    return stateless((">", modern("L", "subscriptions/listen", notifications=wanted)), ("<", acknowledgement), *more)


def progress(token, value, **more):
    return ("<", note("notifications/progress", progressToken=token, progress=value, **more))


SLOW = (">", call(1, "tools/call", name="slow", _meta={"progressToken": 7}))
SLOW_DONE = ("<", {"id": 1, "result": {"content": []}})
MODERN_SLOW = (">", modern(1, "tools/call", name="slow", _meta=meta(progressToken=7)))
CHANGED = "notifications/tools/list_changed"
LOG = note("notifications/message", level="info", data=1)
PROGRESS_OF_LISTEN = note("notifications/progress", progressToken=1, progress=1, _meta={TAG: "L"})
SAMPLING = {"messages": [], "maxTokens": 1}
COMPLETION = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "b"}}
DISCOVERED = done("d", supportedVersions=[VERSION], capabilities={}, ttlMs=0, cacheScope="public")
FULL = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}
UNSUPPORTED = {"supported": [VERSION], "requested": VERSION}

# By rule: what breaks it, and what is as near to it as can be and does not.
CASES = {
    "FR-01": (session(("<", '{"jsonrpc":"2.0","method":"a"}{"jsonrpc":"2.0","method":"b"}')), session(("<", {"method": "a"}))),
    "FR-02": (
        session(("<", "{"), ("<", '  "jsonrpc": "2.0",'), ("<", '  "method": "a"'), ("<", "}")),
        session(("<", "{"), ("<", '"jsonrpc": "2.0",'), ("<", {"method": "a"}), ("<", '"method": "a"'), ("<", "}")),
    ),
    "FR-03": (session(("<", b'{"jsonrpc":"2.0","method":"\xff"}')), session(("<", '{"jsonrpc":"2.0","method":"ü"}'))),
    "FR-04": (session(("<", "Hello from print()")), session(("!", "Hello from print()"))),
    "FR-05": (session((">", "help")), session((">", b'{"jsonrpc":"2.0","method":"a"}\r'))),
    "FR-15": (session(("<", b'{"jsonrpc":"2.0","method":"a"}\r')), session(("<", b'{"jsonrpc":"2.0","method":"a"}'))),
    "FR-09": (stateless(("<", call("q", "roots/list"))), session(("<", call("q", "roots/list")), client={"roots": {}})),
    "FR-10": (
        stateless(("<", call("q", "ping")), (">", {"id": "q", "result": {}})),
        session(("<", call("q", "ping")), (">", {"id": "q", "result": {}})),
    ),
    "JR-01": (session(("<", '{"jsonrpc":"1.0","method":"a"}')), session(("<", {"method": "a"}))),
    "JR-02": (session((">", call(1.5, "ping"))), session((">", call(1, "ping")))),
    "JR-03": (session((">", call(None, "ping"))), session((">", note("a")))),
    "JR-04": (
        session(*pair(call(1, "ping"), {"id": 1, "result": {}}), (">", call(1, "ping"))),
        session(*pair(call(1, "ping"), {"id": 1, "result": {}}), (">", call("1", "ping"))),
    ),
    "JR-05": (
        stateless((">", modern(1, "tools/list")), (">", modern(1, "tools/list"))),
        stateless(*pair(modern(1, "tools/list"), done(1, tools=[], ttlMs=0, cacheScope="public")), (">", modern(1, "tools/list"))),
    ),
    "JR-06": (
        session(*pair(call(1, "ping"), {"id": "1", "result": {}})),
        session(*pair(call("1", "ping"), {"id": "1", "result": {}})),
    ),
    "JR-07": (
        session(*pair(call(1, "ping"), {"id": 1, "result": {}, "error": None})),
        session(*pair(call(1, "ping"), {"id": 1, "result": {"error": None}})),
    ),
    "JR-08": (
        session(*pair(call(1, "tools/list"), {"id": 1, "error": {"code": "x", "message": ""}})),
        session(*pair(call(1, "tools/list"), error(1, -1))),
    ),
    "JR-09": (
        session((">", call(1, "notifications/roots/list_changed"))),
        session((">", note("notifications/roots/list_changed"))),
    ),
    "JR-11": (
        session((">", {"id": 1, "method": "ping", "params": None})),
        session((">", {"id": 1, "method": "ping", "params": {}})),
    ),
    "JR-14": ([(">", [handshake("2025-03-26")[0][1]])], [(">", handshake("2025-03-26")[0][1])]),
    "JR-15": (
        session((">", [call(1, "ping"), call(2, "ping")])),
        session((">", [call(1, "ping"), call(2, "ping")]), revision="2025-03-26"),
    ),
    "JR-17": (session(("<", error(None, -1))), session((">", "{oops"), ("<", error(None, -32700)))),
    "LC-01": ([(">", call(1, "tools/list"))], [(">", call(1, "ping")), *handshake()]),
    "LC-02": (
        [(">", call(1, "initialize", protocolVersion="2025-11-25", capabilities={}))],
        [(">", call(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=CLIENT))],
    ),
    "LC-03": (
        [handshake()[0], ("<", {"id": "init", "result": {"protocolVersion": "2025-11-25", "capabilities": {}}})],
        handshake(),
    ),
    "LC-04": ([*handshake()[:2], (">", call(1, "tools/list"))], session((">", call(1, "tools/list")))),
    "LC-05": ([handshake()[0], (">", call(1, "tools/list"))], [handshake()[0], (">", call(1, "ping"))]),
    "LC-06": (
        [*handshake(client={"roots": {}})[:2], ("<", call(1, "roots/list"))],
        session(("<", call(1, "roots/list")), client={"roots": {}}),
    ),
    "LC-11": (session((">", call(1, "prompts/list"))), session((">", call(1, "prompts/list")), server={"prompts": {}})),
    "LC-12": (
        [handshake()[0], (">", note("notifications/cancelled", requestId="init"))],
        session((">", call(1, "tools/list")), (">", note("notifications/cancelled", requestId=1))),
    ),
    "VN-01": (stateless((">", call(1, "tools/list"))), stateless((">", modern(1, "tools/list")))),
    "VN-02": (
        stateless(
            *pair(call(1, "tools/call", name="a", _meta={"io.modelcontextprotocol/protocolVersion": VERSION}), done(1, content=[]))
        ),
        stateless(*pair(modern(1, "tools/call", name="a"), done(1, content=[]))),
    ),
    "VN-03": (
        stateless((">", modern(1, "tools/list", _meta={key: value for key, value in meta().items() if "clientInfo" not in key}))),
        stateless((">", modern(1, "tools/list"))),
    ),
    "VN-06": (
        [DISCOVERY[0], ("<", done("d", supportedVersions=VERSION, capabilities={}, ttlMs=0, cacheScope="public"))],
        [DISCOVERY[0], ("<", DISCOVERED)],
    ),
    "VN-08": (
        stateless(*pair(modern(1, "tools/call", name="a"), {"id": 1, "result": {"resultType": "complete", "content": []}})),
        stateless(*pair(modern(1, "tools/call", name="a"), done(1, content=[]))),
    ),
    "VN-09": (
        stateless(*pair(modern(1, "tools/call", name="a"), {"id": 1, "result": {"content": []}})),
        session(*pair(modern(1, "tools/call", name="a"), {"id": 1, "result": {"content": []}})),
    ),
    "VN-12": (stateless(*pair(modern(1, "ping"), done(1))), stateless(*pair(modern(1, "ping"), error(1, -32601)))),
    "PI-01": (session(*pair(call(1, "ping"), error(1, -32601))), session(*pair(call(1, "ping"), {"id": 1, "result": {}}))),
    "PI-04": (stateless((">", modern(1, "ping"))), session((">", call(1, "ping")))),
    "LG-09": (
        stateless((">", modern(1, "logging/setLevel", level="info"))),
        session((">", call(1, "logging/setLevel", level="info")), server={"logging": {}}),
    ),
    "RS-05": (
        stateless((">", modern(1, "resources/subscribe", uri="x:"))),
        session((">", call(1, "resources/subscribe", uri="x:")), server={"resources": {"subscribe": True}}),
    ),
    "ER-06": (
        stateless(*pair(modern(1, "tools/list"), error(1, -32050))),
        session(*pair(call(1, "tools/list"), error(1, -32050))),
    ),
    "ER-07": (stateless(*pair(modern(1, "tools/list"), error(1, -32500))), stateless(*pair(modern(1, "tools/list"), error(1, 1)))),
    "ER-08": (
        stateless(*pair(modern(1, "resources/read", uri="x:"), error(1, -32002))),
        session(*pair(call(1, "resources/read", uri="x:"), error(1, -32002)), server={"resources": {}}),
    ),
    "ER-09": (
        [(">", modern(1, "tools/list")), ("<", error(1, -32022))],
        [(">", modern(1, "tools/list")), ("<", error(1, -32022, data=UNSUPPORTED))],
    ),
    "ER-10": (
        [(">", modern(1, "tools/list")), ("<", error(1, -32021, data={"requiredCapabilities": ["roots"]}))],
        [(">", modern(1, "tools/list")), ("<", error(1, -32021, data={"requiredCapabilities": {"roots": {}}}))],
    ),
    "CP-01": (
        session(*pair(call(1, "prompts/list"), {"id": 1, "result": {"prompts": [{"name": "p"}]}}), revision="2024-11-05"),
        session(*pair(call(1, "prompts/list"), {"id": 1, "result": {"prompts": []}}), revision="2024-11-05"),
    ),
    "CP-03": (session(client={"roots": True}), session(client={"roots": {"listChanged": True}, "x-own": True})),
    "CP-07": (
        stateless((">", modern(1, "tools/list", _meta=meta(capabilities={"extensions": {"tasks": {}}})))),
        stateless((">", modern(1, "tools/list", _meta=meta(capabilities={"extensions": {"com.example/tasks": {}}})))),
    ),
    "ST-06": (
        stateless(*pair(modern(1, "tools/list"), error(1, -32601))),
        stateless(*pair(modern(1, "prompts/list"), error(1, -32601))),
    ),
    "MT-01": (session((">", call(1, "ping", _meta={"-x": 1}))), session((">", call(1, "ping", _meta={"com.example/x": 1})))),
    "CA-02": (
        session((">", note("notifications/cancelled", requestId=9))),
        session(SLOW, (">", note("notifications/cancelled", requestId=1))),
    ),
    "CA-04": (
        stateless(
            MODERN_SLOW,
            (">", note("notifications/cancelled", requestId=1)),
            *pair(modern(2, "tools/call", name="a"), done(2, content=[])),
            ("<", done(1, content=[])),
        ),
        # Sent before the cancellation was read: what was asked after it has no answer yet.
        stateless(MODERN_SLOW, (">", note("notifications/cancelled", requestId=1)), ("<", done(1, content=[]))),
    ),
    "CA-08": (
        stateless((">", note("notifications/cancelled", requestId="1"))),
        stateless(MODERN_SLOW, (">", note("notifications/cancelled", requestId=1))),
    ),
    "CA-09": (
        stateless(MODERN_SLOW, ("<", note("notifications/cancelled", requestId=1))),
        listening(("<", note("notifications/cancelled", requestId="L"))),
    ),
    "CA-12": (stateless((">", note("notifications/cancelled"))), session((">", note("notifications/cancelled")))),
    "PR-01": (
        session(SLOW, (">", call(2, "tools/call", name="slow", _meta={"progressToken": 7}))),
        session(SLOW, SLOW_DONE, (">", call(2, "tools/call", name="slow", _meta={"progressToken": 7}))),
    ),
    "PR-02": (session(SLOW, progress("7", 1)), session(SLOW, progress(7, 1))),
    "PR-03": (session(SLOW, progress(7, 1), progress(7, 1)), session(SLOW, progress(7, 0.5), progress(7, 1))),
    "PR-04": (session(SLOW, SLOW_DONE, progress(7, 1)), session(SLOW, progress(7, 1), SLOW_DONE)),
    "PR-07": (listening(("<", PROGRESS_OF_LISTEN)), stateless(MODERN_SLOW, progress(7, 1))),
    "LG-01": (session(("<", LOG)), session(("<", LOG), server={"logging": {}})),
    "LG-02": (
        session(("<", note("notifications/message", level="loud", data=1)), server={"logging": {}}),
        session(("<", LOG), server={"logging": {}}),
    ),
    "LG-05": (
        stateless(MODERN_SLOW, ("<", LOG)),
        stateless((">", modern(1, "tools/call", name="slow", _meta=meta(**{LEVEL: "info"}))), ("<", LOG)),
    ),
    "LG-07": (
        listening(("<", note("notifications/message", level="info", data=1, _meta={TAG: "L"}))),
        stateless((">", modern(1, "tools/call", name="slow", _meta=meta(**{LEVEL: "debug"}))), ("<", LOG)),
    ),
    "MR-01": (asking({"requestState": "s"}, method="completion/complete", **COMPLETION), asking({"requestState": "s"})),
    "MR-02": (asking({}), asking({"requestState": "s"})),
    "MR-03": (
        asking({"inputRequests": {"a": {**ASK, "id": 1}}}, capabilities={"elicitation": {}}),
        asking({"inputRequests": {"a": ASK}}, capabilities={"elicitation": {}}),
    ),
    "MR-04": (asking({"inputRequests": {"a": ASK}}), asking({"inputRequests": {"a": ASK}}, capabilities={"elicitation": {}})),
    "MR-05": (
        asking({"requestState": "s"}, again(requestState="s", arguments={"other": 1})),
        asking({"requestState": "s"}, again(requestState="s")),
    ),
    "MR-06": (
        asking({"requestState": "s"}, again(requestState="s", inputResponses={"a": {"resultType": "complete"}})),
        asking({"requestState": "s"}, again(requestState="s", inputResponses={"a": {"action": "decline"}})),
    ),
    "MR-08": (asking({"requestState": "s"}, again(1, requestState="s")), asking({"requestState": "s"}, again(2, requestState="s"))),
    "SU-01": (
        stateless((">", modern("L", "subscriptions/listen"))),
        stateless((">", modern("L", "subscriptions/listen", notifications={}))),
    ),
    "SU-02": (
        stateless(
            (">", modern("L", "subscriptions/listen", notifications={"toolsListChanged": True})),
            ("<", note(CHANGED, _meta={TAG: "L"})),
        ),
        listening(("<", note(CHANGED, _meta={TAG: "L"}))),
    ),
    "SU-04": (listening(("<", note(CHANGED))), listening(("<", note(CHANGED, _meta={TAG: "L"})))),
    "SU-05": (stateless(("<", note(CHANGED))), session(("<", note(CHANGED)))),
    "SU-06": (listening(acknowledged={"promptsListChanged": True}), listening(acknowledged={})),
    "SU-13": (
        listening(("<", done("L"))),
        listening(("<", {"id": "L", "result": {"resultType": "complete", "_meta": {**DISCOVERED["result"]["_meta"], TAG: "L"}}})),
    ),
    "PG-01": (answered("tools/list", {"tools": [], "nextCursor": 5}), answered("tools/list", {"tools": [], "nextCursor": ""})),
    "CH-01": (stateless(*pair(modern(1, "tools/list"), done(1, tools=[]))), answered("tools/list", {"tools": []})),
    "CH-02": (
        stateless(*pair(modern(1, "tools/list"), done(1, tools=[], ttlMs=-1, cacheScope="public"))),
        stateless(*pair(modern(1, "tools/list"), done(1, tools=[], ttlMs=0, cacheScope="private"))),
    ),
    "TL-01": (answered("tools/list", {"tools": [{"name": "a", "inputSchema": None}]}), answered("tools/list", {"tools": [TOOL]})),
    "TL-02": (
        session((">", call(1, "tools/call", name="a", arguments=[]))),
        session((">", call(1, "tools/call", name="a", arguments={}))),
    ),
    "TL-03": (answered("tools/call", {"isError": False}), answered("tools/call", {"content": []})),
    "TL-10": (
        session(
            *pair(call(1, "tools/list"), {"id": 1, "result": {"tools": [{**TOOL, "outputSchema": {"type": "object"}}]}}),
            *pair(call(2, "tools/call", name="echo"), {"id": 2, "result": {"content": []}}),
        ),
        session(
            *pair(call(1, "tools/list"), {"id": 1, "result": {"tools": [{**TOOL, "outputSchema": {"type": "object"}}]}}),
            *pair(call(2, "tools/call", name="echo"), {"id": 2, "result": {"content": [], "isError": True}}),
        ),
    ),
    "TL-11": (
        answered("tools/call", {"content": [], "structuredContent": [1]}),
        stateless(*pair(modern(1, "tools/call", name="a"), done(1, content=[], structuredContent=[1]))),
    ),
    "TL-15": (
        answered("tools/list", {"tools": [{**TOOL, "name": "a b"}]}),
        answered("tools/list", {"tools": [{**TOOL, "name": "a b"}]}, revision="2025-06-18"),
    ),
    "CT-01": (
        answered("tools/call", {"content": [{"type": "audio", "data": ""}]}),
        answered("tools/call", {"content": [{"type": "audio", "data": "", "mimeType": "a/b"}]}),
    ),
    "CT-02": (
        answered("tools/call", {"content": [{"type": "audio", "data": "", "mimeType": "a/b"}]}, revision="2024-11-05"),
        answered("tools/call", {"content": [{"type": "audio", "data": "", "mimeType": "a/b"}, {"type": "own"}]}),
    ),
    "CT-03": (
        answered("tools/call", {"content": [{"type": "image", "data": "?", "mimeType": "image/png"}]}),
        answered("tools/call", {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}),
    ),
    "RS-01": (
        answered("resources/list", {"resources": [{"uri": "x:"}]}),
        answered("resources/list", {"resources": [{"uri": "x:", "name": ""}]}),
    ),
    "RS-02": (
        answered("resources/read", {"contents": [{"uri": "x:"}]}),
        answered("resources/read", {"contents": [{"uri": "x:", "blob": "AAAA"}]}),
    ),
    "PM-01": (
        answered("prompts/list", {"prompts": [{}]}),
        answered("prompts/list", {"prompts": [{"name": "p", "arguments": [{"name": "a"}]}]}),
    ),
    "PM-02": (
        session((">", call(1, "prompts/get", name="p", arguments={"a": 1})), server={"prompts": {}}),
        session((">", call(1, "prompts/get", name="p", arguments={"a": "1"})), server={"prompts": {}}),
    ),
    "PM-03": (
        answered("prompts/get", {"messages": [{"role": "user", "content": [TEXT]}]}),
        answered("prompts/get", {"messages": [{"role": "user", "content": TEXT}]}),
    ),
    "CM-01": (
        session((">", call(1, "completion/complete", **{**COMPLETION, "ref": {"type": "ref/prompt"}})), server={"completions": {}}),
        session((">", call(1, "completion/complete", **COMPLETION)), server={"completions": {}}),
    ),
    "CM-02": (
        answered("completion/complete", {"completion": {"values": ["a"] * 101}}),
        answered("completion/complete", {"completion": {"values": ["a"] * 100}}),
    ),
    "SA-01": (
        asked("sampling/createMessage", {"messages": []}, {"role": "assistant", "model": "m", "content": TEXT}, "sampling"),
        asked("sampling/createMessage", SAMPLING, {"role": "assistant", "model": "m", "content": TEXT}, "sampling"),
    ),
    "SA-02": (
        asked("sampling/createMessage", SAMPLING, {"role": "assistant", "content": TEXT}, "sampling"),
        asked("sampling/createMessage", SAMPLING, {"role": "assistant", "model": "m", "content": [TEXT]}, "sampling"),
    ),
    "RT-01": (
        asked("roots/list", {}, {"roots": [{"uri": "http://x"}]}, "roots"),
        asked("roots/list", {}, {"roots": [{"uri": "file:///x"}]}, "roots"),
    ),
    "EL-01": (
        asked("elicitation/create", {"message": "?"}, {"action": "decline"}, "elicitation"),
        asked("elicitation/create", ASK["params"], {"action": "decline"}, "elicitation"),
    ),
    "EL-06": (
        asked("elicitation/create", ASK["params"], {"action": "maybe"}, "elicitation"),
        asked("elicitation/create", ASK["params"], {"action": "cancel"}, "elicitation"),
    ),
}


def rules_broken(conversation):
    return [finding.rule for finding in judge(conversation)]


def test_each_rule_that_is_judged_has_a_case():
    assert CASES.keys() == JUDGED_RULES


@pytest.mark.parametrize("rule", CASES)
def test_a_recording_that_breaks_the_rule(rule):
    found = judge(recording(*CASES[rule][0]))
    (finding,) = [finding for finding in found if finding.rule == rule]
    assert finding.level == RULES[rule].level_in()
    assert finding.what
    assert "\n" not in finding.what
    assert finding.message.index == finding.index
    assert finding.by == ("client" if finding.message.direction == ">" else "server")


@pytest.mark.parametrize(
    ("rule", "level", "severity"),
    [
        ("FR-04", "MUST", "error"),
        ("CA-04", "MUST", "warning"),
        ("CT-02", "MUST", "warning"),
        ("MR-01", "MUST", "error"),
        ("LC-05", "SHOULD", "warning"),
        ("FR-15", "MAY", "note"),
    ],
)
def test_a_finding_has_the_level_of_its_rule(rule, level, severity):
    (finding,) = [finding for finding in judge(recording(*CASES[rule][0])) if finding.rule == rule]
    assert (finding.level, finding.severity, finding.is_binding) == (level, severity, severity == "error")


@pytest.mark.parametrize("rule", CASES)
def test_a_similar_recording_that_keeps_the_rule(rule):
    assert rule not in rules_broken(recording(*CASES[rule][1]))


@pytest.mark.parametrize("rule", CASES)
def test_following_a_recording_finds_the_same_as_reading_it(rule):
    conversation = Conversation()
    judging = Judge(conversation)
    found = []
    for entry in entries(*CASES[rule][0]):
        item = conversation.feed(entry)
        found += judging.look(item)
    assert [(finding.rule, finding.index) for finding in found] == [
        (finding.rule, finding.index) for finding in judge(recording(*CASES[rule][0]))
    ]


# What needs the whole of a conversation is not said about a part of it.
NEEDS_ALL = (
    "JR-06",
    "JR-17",
    "LC-01",
    "LC-04",
    "LC-05",
    "LC-06",
    "LC-11",
    "FR-09",
    "FR-10",
    "CA-02",
    "CA-08",
    "PR-02",
    "LG-05",
    "SU-05",
)


@pytest.mark.parametrize("rule", NEEDS_ALL)
@pytest.mark.parametrize("gap", [Event(at=0.0, name="lost", lines=3), Damage(2, "torn", b"{")], ids=["lost", "damaged"])
def test_a_recording_with_a_gap_is_judged_by_what_it_still_proves(rule, gap):
    assert rule not in rules_broken(recording(gap, *CASES[rule][0]))


@pytest.mark.parametrize("rule", NEEDS_ALL)
def test_a_recording_that_begins_in_the_middle(rule):
    steps = CASES[rule][0]
    assert rules_broken(recording((">", note("x/y")), steps[-1], spawn=False)) == []


@pytest.mark.parametrize("rule", ["TL-02", "PM-02", "CM-01", "PR-03", "CA-12", "VN-01", "LC-02", "EL-01", "MR-05"])
def test_redacted_values_are_not_judged(rule):
    header = Header(version=1, redacted=("arguments",))
    assert rule not in rules_broken(recording(*CASES[rule][0], header=header))


def test_a_line_that_was_cut_off_is_not_a_finding():
    conversation = read_conversation([*entries(*handshake()), Line(1.0, "<", b'{"jsonrpc":"2.0","id"', is_whole=False)])
    assert conversation.items[-1].shape == "noise"
    assert judge(conversation) == []


def test_a_restarted_server_has_a_new_state():
    again = [Event(at=9.0, name="exit", code=1), Event(at=9.1, name="spawn", pid=2)]
    assert (
        rules_broken(recording(*session(*pair(call(1, "ping"), {"id": 1, "result": {}})), *again, *session((">", call(1, "ping")))))
        == []
    )


def test_a_member_of_a_batch_is_judged_like_a_message():
    conversation = recording(*session((">", [call(1, "ping"), call(None, "ping")]), revision="2025-03-26"))
    (finding,) = judge(conversation)
    assert (finding.rule, finding.message.batch) == ("JR-03", conversation.items[-1])


def test_the_probe_of_a_client_of_both_eras_is_not_a_finding():
    probe = pair(modern(0, "server/discover"), error(0, -32601))
    assert rules_broken(recording(*probe, *session(*pair(call(1, "tools/list"), {"id": 1, "result": {"tools": []}})))) == []


def test_a_cancellation_that_crosses_the_response_is_not_a_finding():
    assert rules_broken(recording(*session(SLOW, SLOW_DONE, (">", note("notifications/cancelled", requestId=1))))) == []


# What the transcripts say on purpose, to see how the server takes it.
ON_PURPOSE = {
    "cancel": {"CA-02", "CA-08", "CA-12", "JR-04"},
    "completion": {"CM-01"},
    "prompts": {"PM-02"},
    "tools-call": {"TL-02"},
}


@pytest.mark.parametrize(("path", "revision"), transcripts(), ids=lambda value: getattr(value, "stem", value))
def test_good_recordings_have_no_findings(path, revision):
    found = judge(read_conversation(played(path, revision)))
    assert [finding for finding in found if finding.by == "server"] == []
    # The transcripts leave out who the client is, which is allowed.
    assert {finding.rule for finding in found} - {"VN-03"} <= ON_PURPOSE.get(path.stem, set())


def test_an_empty_recording():
    assert judge(Conversation()) == []
    assert judge(recording()) == []


def test_quotes_from_the_wire_are_shortened():
    (finding,) = judge(recording(*session((">", call([0] * 1000, "ping")))))
    assert finding.rule == "JR-02"
    assert len(finding.what) < 120


def test_initialize_needs_a_name_on_both_sides():
    """LC-02, LC-03."""
    (asks, answers, then) = handshake()
    asks[1]["params"]["clientInfo"] = {"name": "c"}
    answers[1]["result"]["serverInfo"] = dict(SERVER, version=1)
    assert rules_broken(recording(asks, answers, then)) == ["LC-02", "LC-03"]
    assert then[1] == INITIALIZED


@pytest.mark.parametrize("info", [{}, {"name": "x"}, {"name": "x", "version": 1}, "x"], ids=str)
def test_client_info_has_a_version(info):
    """VN-03, VN-08."""
    own = {"resultType": "complete", "content": [], "_meta": {"io.modelcontextprotocol/serverInfo": info}}
    asks = modern(1, "tools/call", name="a", _meta=meta(**{"io.modelcontextprotocol/clientInfo": info}))
    assert rules_broken(recording(*stateless(*pair(asks, {"id": 1, "result": own})))) == ["VN-03", "VN-08"]


def test_a_completion_without_suggestions_needs_no_capability():
    """CP-01."""
    empty = {"id": 1, "result": {"completion": {"values": []}}}
    full = {"id": 1, "result": {"completion": {"values": ["a"]}}}
    asks = call(1, "completion/complete", **COMPLETION)
    assert "CP-01" not in rules_broken(recording(*session(*pair(asks, empty))))
    assert "CP-01" in rules_broken(recording(*session(*pair(asks, full))))


@pytest.mark.parametrize(("revision", "level"), [("2024-11-05", "SHOULD"), ("2025-03-26", "SHOULD"), ("2025-06-18", "MUST")])
def test_a_method_that_the_revision_lacks_is_a_finding(revision, level):
    """LC-11: it binds by the revision."""
    (finding,) = judge(recording(*session((">", call(1, "tasks/list")), revision=revision)))
    assert (finding.rule, finding.level) == ("LC-11", level)


def test_in_old_revisions_hosts_may_use_undeclared_features():
    """LC-11."""
    assert rules_broken(recording(*session((">", call(1, "prompts/list")), revision="2025-03-26"))) == []


def test_content_of_a_type_that_no_revision_has():
    """CT-01, and CT-02 for what another revision has; a client that declares extensions may get their content types."""
    own = {"content": [{"type": "hologram"}]}
    assert rules_broken(recording(*answered("tools/call", own))) == ["CT-01"]
    assert rules_broken(recording(*answered("tools/call", own, revision="2024-11-05"))) == ["CT-01"]
    asks = modern(1, "tools/call", name="a", _meta=meta(capabilities={"extensions": {"com.example/depth": {}}}))
    assert rules_broken(recording(*stateless(*pair(asks, done(1, **own))))) == []


@pytest.mark.parametrize(
    ("method", "params"),
    [("resources/read", {}), ("resources/subscribe", {"uri": 1}), ("logging/setLevel", {}), ("tasks/get", {"id": "1"})],
)
def test_a_request_without_required_params_is_a_finding(method, params):
    """FR-05."""
    able = {"resources": {"subscribe": True}, "logging": {}, "tasks": {}}
    assert rules_broken(recording(*session((">", call(1, method, **params)), server=able))) == ["FR-05"]
    whole = {"uri": "x:", "level": "info", "taskId": "1"}
    assert rules_broken(recording(*session((">", call(1, method, **whole)), server=able))) == []


@pytest.mark.parametrize("context", [[], {"arguments": {"a": 1}}, {"arguments": ["a"]}], ids=str)
def test_the_context_of_a_completion_has_strings(context):
    """CM-01, from 2025-06-18 on."""
    asks = (">", call(1, "completion/complete", **COMPLETION, context=context))
    assert rules_broken(recording(*session(asks, server={"completions": {}}))) == ["CM-01"]
    assert rules_broken(recording(*session(asks, server={"completions": {}}, revision="2025-03-26"))) == []


@pytest.mark.parametrize("context", [{}, {"arguments": {}}, {"arguments": {"b": "x"}}], ids=str)
def test_a_context_of_strings_is_valid(context):
    """CM-01."""
    asks = (">", call(1, "completion/complete", **COMPLETION, context=context))
    assert rules_broken(recording(*session(asks, server={"completions": {}}))) == []


def test_carriage_returns_are_reported_once_for_each_side():
    """FR-15."""
    line = b'{"jsonrpc":"2.0","method":"a"}\r'
    assert [finding.level for finding in judge(recording(*session((">", line), (">", line))))] == ["MAY"]


def changed(value, strange):
    """The value with one thing in it, each in turn, replaced by something strange."""
    yield strange
    if isinstance(value, dict):
        for key in value:
            for other in changed(value[key], strange):
                yield {**value, key: other}
    elif isinstance(value, list):
        for number, item in enumerate(value):
            for other in changed(item, strange):
                yield [*value[:number], other, *value[number + 1 :]]


@pytest.mark.slow
@pytest.mark.parametrize("strange", [None, [], {}, 1.5, True, [{}]], ids=str)
def test_no_input_makes_a_judge_raise(strange):
    for steps, _ in CASES.values():
        kind, said = steps[-1]
        for other in changed(said, strange) if isinstance(said, dict) else ():
            conversation = recording(*steps[:-1], (kind, other if isinstance(other, dict) else str(other)))
            assert isinstance(judge(conversation), list)
