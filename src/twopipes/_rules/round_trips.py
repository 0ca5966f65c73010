"""Multi round-trip requests: results that ask, and requests that are sent again with the answers."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/patterns/mrtr", since="2026-07-28")

RULES = (
    _rule(
        id="MR-01",
        level="MAY",
        must_since="2026-07-28",
        side="server",
        title="Only tools/call, prompts/get and resources/read are answered with questions",
        fix="Ask for input in the results of tools/call, prompts/get and resources/read alone.",
    ),
    _rule(
        id="MR-02",
        level="MUST",
        side="server",
        title="A result that asks for input has inputRequests, requestState or both",
        fix="Put inputRequests, or requestState, or both into a result that asks for input.",
    ),
    _rule(
        id="MR-03",
        level="MUST",
        side="server",
        title="inputRequests holds, by key, a form or address, a question to the model or one for roots, without id and jsonrpc",
        fix="Let each entry of inputRequests be a method and its params, without id and jsonrpc.",
    ),
    _rule(
        id="MR-04",
        level="MUST",
        side="server",
        title="Nothing is asked for that the request itself does not declare; -32021 where it cannot go on",
        fix="Look at the capabilities in the _meta of the request; do without, or refuse it with -32021.",
    ),
    _rule(
        id="MR-05",
        level="MUST",
        side="client",
        title="A call is sent again as it was, with an answer to each question under its key, and _meta of its own",
        fix=("Send the same call again, with inputResponses under the keys of the questions and the requestState as it came."),
    ),
    _rule(
        id="MR-06",
        level="MUST",
        side="client",
        basis="schema",
        title="Answers are bare results, without an envelope or resultType",
        fix="Put the result itself under the key, without an envelope around it.",
    ),
    _rule(id="MR-07", level="MUST", side="client", title="requestState goes back exactly as it came, and none where none came"),
    _rule(
        id="MR-08",
        level="MUST",
        side="client",
        title="A call that is sent again has an id of its own",
        fix="Give the call that is sent again a new id.",
    ),
    _rule(
        id="MR-09",
        level="MUST",
        side="client",
        title="State and answers of one call never get into another",
        partly="A client that makes its calls one after the other has never two of them open, and cannot be made to",
    ),
    _rule(
        id="MR-10",
        level="MAY",
        side="client",
        title="A call that got nothing but a state is sent again, but with pauses and not for ever",
        partly="Only that there are pauses; whether it gives up in the end is not waited for",
    ),
    _rule(
        id="MR-11",
        level="MAY",
        title="There may be several rounds; each brings back the latest state and the answers to the latest questions alone",
        partly_server="Only of tools that come to an end: one that asks again and again may have got no answer that it likes",
    ),
    _rule(id="MR-12", level="SHOULD", side="server", title="Answers that are missing are asked for again, and are no error"),
    _rule(
        id="MR-13",
        level="SHOULD",
        side="server",
        title="Answers to what nobody asked are ignored",
        partly="Only that the call goes on; whether such an answer was used is not seen",
    ),
    _rule(id="MR-14", level="SHOULD", side="server", title="Answers that are none are refused with an error"),
    _rule(
        id="MR-15",
        level="MUST",
        side="server",
        title="A requestState that the server relies on is protected, and refused when it was changed",
        partly="Only where a call does not go on without its state; another user's state is not tried, since there is one user",
    ),
    _rule(
        id="MR-16",
        level="SHOULD",
        side="server",
        title="A requestState is good for the call that it was made for, and for no other",
        partly="Whether it is bound to a user and to a time is not tried",
    ),
    _rule(
        id="MR-17",
        level="MUST",
        side="server",
        title="What may happen only once happens once, though the same call comes again with the same state",
        partly="Nobody can tell what may happen only once: it takes a tool by the name of redeem",
    ),
    _rule(
        id="MR-18",
        level="MUST",
        side="server",
        title="Calls that are never sent again cost nothing: the server goes on, and ends when it should",
        partly="Some dozens of calls, after which the server answers and ends; the memory that they take is not looked at",
    ),
    _rule(
        id="MR-19",
        level="MUST",
        side="client",
        basis="inference",
        title="No is an answer to a form; where the model or the roots cannot be had, the call is not sent again",
        lenient="Answers to questions have no form for an error",
        partly="Only answers that come: nobody outside can make a user say no, or a model fail",
    ),
)
