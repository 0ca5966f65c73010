"""Multi round-trip requests: results that ask for input, and retries with the answers."""

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
        title="Only tools/call, prompts/get and resources/read return results that ask for input",
        fix="Ask for input only in the results of tools/call, prompts/get and resources/read.",
    ),
    _rule(
        id="MR-02",
        level="MUST",
        side="server",
        title="A result that asks for input has inputRequests, requestState or both",
        fix="Put inputRequests, requestState or both into a result that asks for input.",
    ),
    _rule(
        id="MR-03",
        level="MUST",
        side="server",
        title="inputRequests maps keys to elicitation, sampling or roots requests, without id and jsonrpc",
        fix="Make each entry of inputRequests a method with its params, without id and jsonrpc.",
    ),
    _rule(
        id="MR-04",
        level="MUST",
        side="server",
        title="A server asks only for what the request itself declares, and sends -32021 if it cannot continue without it",
        fix=("Check the capabilities in the _meta of the request; continue without the input, or reject the request with -32021."),
    ),
    _rule(
        id="MR-05",
        level="MUST",
        side="client",
        title="A retry repeats the call, with an answer to each question under its key, and its own _meta",
        fix=("Send the same call again, with inputResponses under the keys of the questions and the unchanged requestState."),
    ),
    _rule(
        id="MR-06",
        level="MUST",
        side="client",
        basis="schema",
        title="Answers are bare results, without an envelope or a resultType",
        fix="Put the result itself under the key, without an envelope.",
    ),
    _rule(id="MR-07", level="MUST", side="client", title="requestState is sent back unchanged, and left out if there was none"),
    _rule(
        id="MR-08",
        level="MUST",
        side="client",
        title="A retry has a new id",
        fix="Give the retry a new id.",
    ),
    _rule(
        id="MR-09",
        level="MUST",
        side="client",
        title="State and answers of one call are never sent with another",
        partly="A client that makes its calls one after the other never has two open calls, and cannot be made to",
    ),
    _rule(
        id="MR-10",
        level="MAY",
        side="client",
        title="A call that got only a state is retried with pauses, and not endlessly",
        partly="Only that there are pauses; whether the client finally gives up is not waited for",
    ),
    _rule(
        id="MR-11",
        level="MAY",
        title="There may be several rounds; each sends only the latest state and the answers to the latest questions",
        partly_server="Only for tools that finish: one that asks again and again may not have got a suitable answer",
    ),
    _rule(id="MR-12", level="SHOULD", side="server", title="Missing answers are requested again, and are not an error"),
    _rule(
        id="MR-13",
        level="SHOULD",
        side="server",
        title="Answers to questions that were not asked are ignored",
        partly="Only that the call continues; whether such an answer was used is not visible",
    ),
    _rule(id="MR-14", level="SHOULD", side="server", title="Malformed answers are rejected with an error"),
    _rule(
        id="MR-15",
        level="MUST",
        side="server",
        title="A requestState that the server relies on is protected, and rejected if it was modified",
        partly=(
            "Only if a call does not continue without its state; the state of another user is not tried, since there is only"
            " one user"
        ),
    ),
    _rule(
        id="MR-16",
        level="SHOULD",
        side="server",
        title="A requestState is valid only for the call that it was made for",
        partly="Whether it is bound to a user and to a time is not tried",
    ),
    _rule(
        id="MR-17",
        level="MUST",
        side="server",
        title="An action that may happen only once happens once, even if the same call arrives again with the same state",
        partly="Which actions may happen only once is not visible: this needs a tool named redeem",
    ),
    _rule(
        id="MR-18",
        level="MUST",
        side="server",
        title="Calls that are never retried cost nothing: the server continues, and exits when it should",
        partly="Some dozens of calls, after which the server responds and exits; its memory is not measured",
    ),
    _rule(
        id="MR-19",
        level="MUST",
        side="client",
        basis="inference",
        title="A declined form is an answer; if the model or the roots are not available, the call is not retried",
        lenient="Answers to questions have no way to express an error",
        partly="Only answers that arrive: a user cannot be made to decline, or a model to fail, from outside",
    ),
)
