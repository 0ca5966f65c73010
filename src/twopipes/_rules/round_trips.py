"""Multi round-trip requests: results that ask for input, and retries with the answers."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/patterns/mrtr", since="2026-07-28")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "MR-01": _server(
        may="Only tools/call, prompts/get and resources/read return results that ask for input",
        must_since="2026-07-28",
        fix="Ask for input only in the results of tools/call, prompts/get and resources/read.",
    ),
    "MR-02": _server(
        must="A result that asks for input has inputRequests, requestState or both",
        fix="Put inputRequests, requestState or both into a result that asks for input.",
    ),
    "MR-03": _server(
        must="inputRequests maps keys to elicitation, sampling or roots requests, without id and jsonrpc",
        fix="Make each entry of inputRequests a method with its params, without id and jsonrpc.",
    ),
    "MR-04": _server(
        must="A server asks only for what the request itself declares, and sends -32021 if it cannot continue without it",
        fix=("Check the capabilities in the _meta of the request; continue without the input, or reject the request with -32021."),
    ),
    "MR-05": _client(
        must="A retry repeats the call, with an answer to each question under its key, and its own _meta",
        fix=("Repeat the method and params, with an answer to each question under its key, the requestState, and its own _meta."),
    ),
    "MR-06": _client(
        must="Answers are bare results, without an envelope or a resultType",
        basis="schema",
        fix="Put the result itself under the key, without an envelope.",
    ),
    "MR-07": _client(
        must="requestState is sent back unchanged, and left out if there was none",
        fix="Keep requestState as the text that it is, and send it back; leave it out if there was none.",
    ),
    "MR-08": _client(
        must="A retry has a new id",
        fix="Give the retry a new id.",
    ),
    "MR-09": _client(
        must="State and answers of one call are never sent with another",
        partly="A client that makes its calls one after the other never has two open calls, and cannot be made to",
        fix="Keep state and answers with the call that they belong to, and drop them with it.",
    ),
    "MR-10": _client(
        may="A call that got only a state is retried with pauses, and not endlessly",
        partly="Only that there are pauses; whether the client finally gives up is not waited for",
        fix="Pause before each retry, longer each time, and give up after some.",
    ),
    "MR-11": _rule(
        may="There may be several rounds; each sends only the latest state and the answers to the latest questions",
        partly_server="Only for tools that finish: one that asks again and again may not have got a suitable answer",
        fix="Send only the latest state and answers; a server keeps in requestState what it learned before.",
    ),
    "MR-12": _server(
        should="Missing answers are requested again, and are not an error",
        fix="Return input_required again, and ask for what is missing.",
    ),
    "MR-13": _server(
        should="Answers to questions that were not asked are ignored",
        partly="Only that the call continues; whether such an answer was used is not visible",
        fix="Use the answers to your own questions, and ignore all others.",
    ),
    "MR-14": _server(
        should="Malformed answers are rejected with an error",
        fix="Reject inputResponses that is not an object with -32602.",
    ),
    "MR-15": _server(
        must="A requestState that the server relies on is protected, and rejected if it was modified",
        partly=(
            "Only if a call does not continue without its state; the state of another user is not tried, since there is only"
            " one user"
        ),
        fix="Sign the state (an HMAC over state, user and call), and reject one that does not verify with -32602.",
    ),
    "MR-16": _server(
        should="A requestState is valid only for the call that it was made for",
        partly="Whether it is bound to a user and to a time is not tried",
        fix="Bind the state to the method and the params that it was made for, and to a time.",
    ),
    "MR-17": _server(
        must="An action that may happen only once happens once, even if the same call arrives again with the same state",
        partly="Which actions may happen only once is not visible: this needs a tool named redeem",
        fix="Remember what was redeemed: anyone who has a state can send it again.",
    ),
    "MR-18": _server(
        must="Calls that are never retried cost nothing: the server continues, and exits when it should",
        partly="Some dozens of calls, after which the server responds and exits; its memory is not measured",
        fix="Keep nothing for a call that got input_required: everything that is needed comes back with the retry.",
    ),
    "MR-19": _client(
        must="A declined form is an answer; if the model or the roots are not available, the call is not retried",
        basis="inference",
        lenient="Answers to questions have no way to express an error",
        partly="Only answers that arrive: a user cannot be made to decline, or a model to fail, from outside",
        fix="Answer a form with decline or cancel; without a model or roots, do not send the call again.",
    ),
}
