"""Sampling: requests to the client's model."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="client/sampling")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = (
    _server(
        id="SA-01",
        level="MUST",
        basis="schema",
        title="A sampling request has maxTokens, and messages with role and content",
        fix="Send messages, each with a role and content, and maxTokens.",
    ),
    _client(
        id="SA-02",
        level="MUST",
        basis="schema",
        title="A sampling result has role, content and model",
        fix="Answer with role, content and model.",
    ),
    _rule(
        id="SA-03",
        level="MUST",
        basis="schema",
        title=("Content has a type of the revision; it may be an array only from 2025-11-25 on, where both forms are understood"),
        fix="Use the content types of the revision. Arrays are allowed from 2025-11-25 on, where a client accepts both forms.",
    ),
    _server(
        id="SA-04",
        level="MUST",
        title="Tools are offered only to clients that declare sampling.tools",
        since="2025-11-25",
        fix="Check sampling.tools of the client before you offer tools to its model.",
    ),
    _client(
        id="SA-05",
        level="MUST",
        basis="schema",
        title="Tools that are offered although sampling.tools was not declared are rejected with an error",
        since="2025-11-25",
        until="2025-11-25",
        fix="Answer with an error (-32602) if you get tools without having declared sampling.tools.",
    ),
    _server(
        id="SA-06",
        level="MUST",
        title="Each tool use is followed by its result in the next message, which contains only results",
        since="2025-11-25",
        partly="Only servers with a tool that offers tools to the model; how a client reacts to a wrong order is not tried",
        fix="Put one tool_result for each tool_use into the next user message, and nothing else.",
    ),
    _rule(
        id="SA-07",
        level="MUST",
        basis="schema",
        title="toolChoice is auto, required or none; with none the model uses no tool",
        since="2025-11-25",
        fix='Use {"mode": ...} with auto, required or none, or leave toolChoice out; a client passes it on to the model.',
    ),
    _server(
        id="SA-08",
        level="SHOULD",
        title="includeContext is used only if sampling.context is declared, and preferably not at all",
        since="2025-11-25",
        fix="Leave includeContext out.",
    ),
    _client(
        id="SA-09",
        level="MUST",
        title="maxTokens limits the answer of the model; the other parameters are preferences",
        partly=("Tokens cannot be counted from outside: far too many words for one token are a breach; preferences are not judged"),
        fix="Pass maxTokens on to the model.",
    ),
    _client(
        id="SA-10",
        level="SHOULD",
        title="A user's refusal of sampling is reported with the code -1",
        until="2025-11-25",
        partly="Only if the user of this run refuses, and the error says so",
        fix="Answer with the code -1 if the user refuses.",
    ),
    _server(
        id="SA-11",
        level="MUST",
        title="Sampling is requested inside a result that asks for input, and only from clients that declare it",
        since="2026-07-28",
        fix="Return input_required with the question in inputRequests, without an envelope, if the request declares sampling.",
    ),
    _rule(
        id="SA-12",
        level="SHOULD",
        title="A loop of tools and model calls ends, whatever the other side does",
        since="2025-11-25",
        lenient="The text gives no number: a server that stops within 100 rounds is accepted",
        partly_client="Tried in modern revisions only; in a session it is the server that asks again",
        fix="Count the rounds, and stop at a limit.",
    ),
)
