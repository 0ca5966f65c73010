"""JSON-RPC: messages, ids and batches."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic")
_legacy = partial(_rule, until="2025-11-25")
_modern = partial(_rule, since="2026-07-28")

RULES = {
    "JR-01": _rule(
        must='Every message has "jsonrpc": "2.0", and a request without it is rejected',
        partly_server='Rejecting other versions is tried with "1.0" only',
        partly_client="Only what the client sends; whether it rejects other versions is not tried",
        fix='Put "jsonrpc": "2.0" into every message, and reject a request without it with -32600.',
    ),
    "JR-02": _rule(
        must="The id of a request is a string or an integer",
        partly="Only ids that are sent; rejecting an id with a fraction is not tried",
        fix="Use a counter or a string as the id.",
    ),
    "JR-03": _rule(
        must="The id of a request is never null",
        fix="Give each request its own id, and reject a request with the id null.",
    ),
    "JR-04": _legacy(
        must="Each side uses an id only once in a session",
        fix="Count ids up, and never restart the count within a session.",
    ),
    "JR-05": _modern(
        must="An id is not reused while its request is open; later it may be reused, and is served",
        inferred_for="server",
        lenient=(
            "The page says which ids clients must not use; that a server serves an id again after its response is our reading"
        ),
        partly_server="Only that an id is served again after its request was answered",
        fix="Reuse an id only after its request was answered, or never.",
    ),
    "JR-06": _rule(
        must="A response has the id of its request, with value and type unchanged",
        fix="Respond to a request once, with its id unchanged, and send no response without a request.",
    ),
    "JR-07": _rule(
        must="A response has a result, which is an object, or an error, never both",
        fix="Give a response either a result, which is an object, or an error.",
    ),
    "JR-08": _rule(
        must="An error has an integer code and a string message",
        fix="Give an error an integer code and a string message; everything else goes into data.",
    ),
    "JR-09": _rule(must="A notification has no id", fix="Leave the id out of notifications."),
    "JR-10": _rule(
        must="A notification is never answered, not even an unknown or broken one",
        since="2025-03-26",
        fix="Respond only to messages with an id; log whatever is wrong with a notification.",
    ),
    "JR-11": _rule(
        must="params, if present, is an object",
        basis="schema",
        partly_client="Only what the client sends; it is not sent params that are an array",
        fix="Make params an object, or leave it out; reject anything else with -32600 or -32602.",
    ),
    "JR-12": _rule(
        must="An array of requests and notifications on one line is served",
        since="2025-03-26",
        until="2025-03-26",
        fix="Serve each member of the array, or do not support this revision.",
    ),
    "JR-13": _rule(
        must=(
            "The responses to a batch come as one array; a batch of notifications gets no response, an empty array gets one error"
        ),
        basis="json-rpc",
        since="2025-03-26",
        until="2025-03-26",
        lenient=(
            "The error for an empty array has the id null, which the schema does not have: a client that sends no error is accepted"
        ),
        fix="Send all responses of a batch as one array, nothing for notifications, and one error -32600 for [].",
    ),
    "JR-14": _rule(
        must="initialize is never part of a batch",
        side="client",
        page="basic/lifecycle",
        since="2025-03-26",
        until="2025-03-26",
        fix="Send initialize on its own line.",
    ),
    "JR-15": _rule(
        must="Batches are not sent; one that arrives is rejected as a whole, and nothing in it is executed",
        basis="schema",
        except_in=("2025-03-26",),
        lenient=("The text of 2024-11-05 follows JSON-RPC, which has batches, but its schema has none: no batch is sent there"),
        partly=("An error is not required: it is enough that nothing in the batch is executed and that the next line is served"),
        fix="Send one message per line, and reject an array with one error -32600; batches exist only in 2025-03-26.",
    ),
    "JR-16": _legacy(
        must="Every request gets a response; an unknown method gets -32601",
        fix="Respond to every request; to an unknown method with -32601 and the id of the request.",
    ),
    "JR-17": _rule(
        must="An error leaves out the id only if the id could not be read",
        since="2025-11-25",
        fix="Give an error the id of its request whenever it could be read.",
    ),
    "JR-18": _rule(
        should="Unknown members are ignored",
        basis="inference",
        lenient="The schemas are open, and no sentence says what to do with an unknown member",
        fix="Read the members that you know, and ignore the others.",
    ),
    "JR-19": _rule(
        should="A response without a request does no harm",
        basis="inference",
        lenient="No sentence says what to do with a response that belongs to no request",
        fix="Look up the request by the id of the response; drop responses without a request.",
    ),
    "JR-20": _rule(
        should="A broken line does not end the conversation",
        basis="inference",
        lenient="Each side must send only valid messages; the text does not say what to do with others",
        fix="Catch the errors of the UTF-8 and JSON decoders for one line, and read the next.",
    ),
}
