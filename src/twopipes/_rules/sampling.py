"""Sampling: questions to the model at the client's end."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="client/sampling")

RULES = (
    _rule(
        id="SA-01",
        level="MUST",
        side="server",
        basis="schema",
        title="A question to the model has messages, each with a role and content, and maxTokens",
        fix="Ask with messages, each with a role and content, and with maxTokens.",
    ),
    _rule(
        id="SA-02",
        level="MUST",
        side="client",
        basis="schema",
        title="The model's answer has role, content and model",
        fix="Answer with role, content and model.",
    ),
    _rule(
        id="SA-03",
        level="MUST",
        basis="schema",
        title="Content is of a kind that the revision has, and an array only from 2025-11-25 on, where both forms are understood",
    ),
    _rule(
        id="SA-04",
        level="MUST",
        side="server",
        title="Tools are offered only to the models of clients that declare sampling.tools",
        since="2025-11-25",
    ),
    _rule(
        id="SA-05",
        level="MUST",
        side="client",
        basis="schema",
        title="Tools that come although sampling.tools was not declared are answered with an error",
        since="2025-11-25",
        until="2025-11-25",
    ),
    _rule(
        id="SA-06",
        level="MUST",
        side="server",
        title="Every use of a tool gets its result in the very next message, which holds nothing but results",
        since="2025-11-25",
        partly="Only servers with a tool that offers tools to the model; what a client says to a bad order is not tried",
    ),
    _rule(
        id="SA-07",
        level="MUST",
        basis="schema",
        title="toolChoice is auto, required or none, and with none the model uses no tool",
        since="2025-11-25",
    ),
    _rule(
        id="SA-08",
        level="SHOULD",
        side="server",
        title="Context of servers is asked for only under sampling.context, and better not at all",
        since="2025-11-25",
    ),
    _rule(
        id="SA-09",
        level="MUST",
        side="client",
        title="maxTokens is a limit for the model's answer; the other wishes are wishes",
        partly="Tokens cannot be counted from outside: far too many words for one token are a breach; wishes are not judged",
    ),
    _rule(
        id="SA-10",
        level="SHOULD",
        side="client",
        title="A user who does not want the model to be asked is reported with the code -1",
        until="2025-11-25",
        partly="Only where the user of this run refuses, and the error says that he did",
    ),
    _rule(
        id="SA-11",
        level="MUST",
        side="server",
        title="The model is asked inside of a result that asks for input, and only where the client has sampling",
        since="2026-07-28",
    ),
    _rule(
        id="SA-12",
        level="SHOULD",
        title="A loop of tools and models comes to an end, whatever the other side does",
        since="2025-11-25",
        lenient="The text has no number: a server that stops within a hundred rounds is let pass",
        partly_client="Tried on the stateless wire alone; in a session the server is the one who asks again",
    ),
)
