"""Multi round-trip requests: results that ask for input, and retries with the answers."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/patterns/mrtr", since="2026-07-28")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = (
    _server(
        id="MR-01",
        level="MAY",
        must_since="2026-07-28",
        title="Only tools/call, prompts/get and resources/read return results that ask for input",
        fix="Ask for input only in the results of tools/call, prompts/get and resources/read.",
    ),
    _server(
        id="MR-02",
        level="MUST",
        title="A result that asks for input has inputRequests, requestState or both",
        fix="Put inputRequests, requestState or both into a result that asks for input.",
    ),
    _server(
        id="MR-03",
        level="MUST",
        title="inputRequests maps keys to elicitation, sampling or roots requests, without id and jsonrpc",
        fix="Make each entry of inputRequests a method with its params, without id and jsonrpc.",
    ),
    _server(
        id="MR-04",
        level="MUST",
        title="A server asks only for what the request itself declares, and sends -32021 if it cannot continue without it",
        fix=("Check the capabilities in the _meta of the request; continue without the input, or reject the request with -32021."),
    ),
    _client(
        id="MR-05",
        level="MUST",
        title="A retry repeats the call, with an answer to each question under its key, and its own _meta",
        fix=("Repeat the method and params, with an answer to each question under its key, the requestState, and its own _meta."),
    ),
    _client(
        id="MR-06",
        level="MUST",
        basis="schema",
        title="Answers are bare results, without an envelope or a resultType",
        fix="Put the result itself under the key, without an envelope.",
    ),
    _client(
        id="MR-07",
        level="MUST",
        title="requestState is sent back unchanged, and left out if there was none",
        fix="Keep requestState as the text that it is, and send it back; leave it out if there was none.",
    ),
    _client(
        id="MR-08",
        level="MUST",
        title="A retry has a new id",
        fix="Give the retry a new id.",
    ),
    _client(
        id="MR-09",
        level="MUST",
        title="State and answers of one call are never sent with another",
        partly="A client that makes its calls one after the other never has two open calls, and cannot be made to",
        fix="Keep state and answers with the call that they belong to, and drop them with it.",
    ),
    _client(
        id="MR-10",
        level="MAY",
        title="A call that got only a state is retried with pauses, and not endlessly",
        partly="Only that there are pauses; whether the client finally gives up is not waited for",
        fix="Pause before each retry, longer each time, and give up after some.",
    ),
    _rule(
        id="MR-11",
        level="MAY",
        title="There may be several rounds; each sends only the latest state and the answers to the latest questions",
        partly_server="Only for tools that finish: one that asks again and again may not have got a suitable answer",
        fix="Send only the latest state and answers; a server keeps in requestState what it learned before.",
    ),
    _server(
        id="MR-12",
        level="SHOULD",
        title="Missing answers are requested again, and are not an error",
        fix="Return input_required again, and ask for what is missing.",
    ),
    _server(
        id="MR-13",
        level="SHOULD",
        title="Answers to questions that were not asked are ignored",
        partly="Only that the call continues; whether such an answer was used is not visible",
        fix="Use the answers to your own questions, and ignore all others.",
    ),
    _server(
        id="MR-14",
        level="SHOULD",
        title="Malformed answers are rejected with an error",
        fix="Reject inputResponses that is not an object with -32602.",
    ),
    _server(
        id="MR-15",
        level="MUST",
        title="A requestState that the server relies on is protected, and rejected if it was modified",
        partly=(
            "Only if a call does not continue without its state; the state of another user is not tried, since there is only"
            " one user"
        ),
        fix="Sign the state (an HMAC over state, user and call), and reject one that does not verify with -32602.",
    ),
    _server(
        id="MR-16",
        level="SHOULD",
        title="A requestState is valid only for the call that it was made for",
        partly="Whether it is bound to a user and to a time is not tried",
        fix="Bind the state to the method and the params that it was made for, and to a time.",
    ),
    _server(
        id="MR-17",
        level="MUST",
        title="An action that may happen only once happens once, even if the same call arrives again with the same state",
        partly="Which actions may happen only once is not visible: this needs a tool named redeem",
        fix="Remember what was redeemed: anyone who has a state can send it again.",
    ),
    _server(
        id="MR-18",
        level="MUST",
        title="Calls that are never retried cost nothing: the server continues, and exits when it should",
        partly="Some dozens of calls, after which the server responds and exits; its memory is not measured",
        fix="Keep nothing for a call that got input_required: everything that is needed comes back with the retry.",
    ),
    _client(
        id="MR-19",
        level="MUST",
        basis="inference",
        title="A declined form is an answer; if the model or the roots are not available, the call is not retried",
        lenient="Answers to questions have no way to express an error",
        partly="Only answers that arrive: a user cannot be made to decline, or a model to fail, from outside",
        fix="Answer a form with decline or cancel; without a model or roots, do not send the call again.",
    ),
)
