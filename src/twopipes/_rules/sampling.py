"""Sampling: requests to the client's model."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="client/sampling")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "SA-01": _server(
        must="A sampling request has maxTokens, and messages with role and content",
        basis="schema",
        fix="Send messages, each with a role and content, and maxTokens.",
    ),
    "SA-02": _client(
        must="A sampling result has role, content and model",
        basis="schema",
        fix="Answer with role, content and model.",
    ),
    "SA-03": _rule(
        must="Content has a type of the revision; it may be an array only from 2025-11-25 on, where both forms are understood",
        basis="schema",
        fix="Use the content types of the revision. Arrays are allowed from 2025-11-25 on, where a client accepts both forms.",
    ),
    "SA-04": _server(
        must="Tools are offered only to clients that declare sampling.tools",
        since="2025-11-25",
        fix="Check sampling.tools of the client before you offer tools to its model.",
    ),
    "SA-05": _client(
        must="Tools that are offered although sampling.tools was not declared are rejected with an error",
        basis="schema",
        since="2025-11-25",
        until="2025-11-25",
        fix="Answer with an error (-32602) if you get tools without having declared sampling.tools.",
    ),
    "SA-06": _server(
        must="Each tool use is followed by its result in the next message, which contains only results",
        since="2025-11-25",
        partly="Only servers with a tool that offers tools to the model; how a client reacts to a wrong order is not tried",
        fix="Put one tool_result for each tool_use into the next user message, and nothing else.",
    ),
    "SA-07": _rule(
        must="toolChoice is auto, required or none; with none the model uses no tool",
        basis="schema",
        since="2025-11-25",
        fix='Use {"mode": ...} with auto, required or none, or leave toolChoice out; a client passes it on to the model.',
    ),
    "SA-08": _server(
        should="includeContext is used only if sampling.context is declared, and preferably not at all",
        since="2025-11-25",
        fix="Leave includeContext out.",
    ),
    "SA-09": _client(
        must="maxTokens limits the answer of the model; the other parameters are preferences",
        partly=("Tokens cannot be counted from outside: far too many words for one token are a breach; preferences are not judged"),
        fix="Pass maxTokens on to the model.",
    ),
    "SA-10": _client(
        should="A user's refusal of sampling is reported with the code -1",
        until="2025-11-25",
        partly="Only if the user of this run refuses, and the error says so",
        fix="Answer with the code -1 if the user refuses.",
    ),
    "SA-11": _server(
        must="Sampling is requested inside a result that asks for input, and only from clients that declare it",
        since="2026-07-28",
        fix="Return input_required with the question in inputRequests, without an envelope, if the request declares sampling.",
    ),
    "SA-12": _rule(
        should="A loop of tools and model calls ends, whatever the other side does",
        since="2025-11-25",
        lenient="The text gives no number: a server that stops within 100 rounds is accepted",
        partly_client="Tried in modern revisions only; in a session it is the server that asks again",
        fix="Count the rounds, and stop at a limit.",
    ),
}
