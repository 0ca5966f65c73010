"""JSON-RPC: messages, ids and batches."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic")
_legacy = partial(_rule, until="2025-11-25")
_modern = partial(_rule, since="2026-07-28")

RULES = (
    _rule(
        id="JR-01",
        level="MUST",
        title='Every message says "jsonrpc": "2.0", and one that does not is refused',
        partly_server='That another version is refused is tried with "1.0" alone',
        partly_client="Only what the client sends; whether it refuses another version is not tried",
        fix='Put "jsonrpc": "2.0" into every message, and refuse a request without it with -32600.',
    ),
    _rule(
        id="JR-02",
        level="MUST",
        title="The id of a request is a string or a whole number",
        partly="Only ids that are sent; that one with a fraction is refused is not tried",
        fix="Count ids up, or take a text.",
    ),
    _rule(id="JR-03", level="MUST", title="The id of a request is never null", fix="Give each request an id of its own."),
    _legacy(
        id="JR-04",
        level="MUST",
        title="No side uses an id twice in a session",
        fix="Count ids up, and never begin again within a session.",
    ),
    _modern(
        id="JR-05",
        level="MUST",
        title="An id is not used again while its request waits for an answer; later it may be, and is served",
        inferred_for="server",
        lenient=(
            "The page says which ids clients must not use; that a server serves an id again when its request has been answered is"
            " our reading"
        ),
        partly_server="Only that an id is served again when its request has been answered",
        fix="Take an id again only when its request has been answered, or never.",
    ),
    _rule(
        id="JR-06",
        level="MUST",
        title="An answer has the id of its request, value and type unchanged",
        fix="Answer a request once, with its id as it came, and nothing that was not asked.",
    ),
    _rule(
        id="JR-07",
        level="MUST",
        title="An answer has a result, which is an object, or an error, and never both",
        fix="Give an answer a result, which is an object, or an error: one of the two.",
    ),
    _rule(
        id="JR-08",
        level="MUST",
        title="An error has a whole number for its code and a text for its message",
        fix=("Give an error a code, which is a whole number, and a message, which is a text; anything else goes into data."),
    ),
    _rule(id="JR-09", level="MUST", title="A notification has no id", fix="Leave the id out of notifications."),
    _rule(
        id="JR-10", level="MUST", title="A notification is never answered, not even an unknown or broken one", since="2025-03-26"
    ),
    _rule(
        id="JR-11",
        level="MUST",
        basis="schema",
        title="Params, where there are any, are an object",
        partly_client="Only what the client sends; it is sent no params that are an array",
        fix="Put params into an object, or leave them out.",
    ),
    _rule(
        id="JR-12",
        level="MUST",
        title="An array of requests and notifications on one line is served",
        since="2025-03-26",
        until="2025-03-26",
    ),
    _rule(
        id="JR-13",
        level="MUST",
        basis="json-rpc",
        title="The answers to a batch come as one array; notifications alone get nothing, and an empty array one error",
        since="2025-03-26",
        until="2025-03-26",
        lenient="The error about an empty array has the id null, which the schema does not have: a client that sends none passes",
    ),
    _rule(
        id="JR-14",
        level="MUST",
        side="client",
        title="initialize is never part of a batch",
        page="basic/lifecycle",
        since="2025-03-26",
        until="2025-03-26",
        fix="Send initialize on a line of its own.",
    ),
    _rule(
        id="JR-15",
        level="MUST",
        basis="schema",
        title="No arrays on the wire; one that comes is refused as a whole, and nothing in it is done",
        except_in=("2025-03-26",),
        lenient=(
            "The text of 2024-11-05 follows JSON-RPC, which has batches, and its schema has none: there, an array is not sent"
        ),
        partly="That it is refused by an error is not asked for: it is enough that nothing in it is done and the next line is",
        fix="Send one message a line; batches exist in 2025-03-26 alone.",
    ),
    _legacy(id="JR-16", level="MUST", title="Every request is answered, an unknown one with -32601"),
    _rule(
        id="JR-17",
        level="MUST",
        title="An error leaves out the id only where the id could not be read",
        since="2025-11-25",
        fix="Give an error the id of its request wherever that could be read.",
    ),
    _rule(
        id="JR-18",
        level="SHOULD",
        basis="inference",
        title="Members that nobody knows are passed over",
        lenient="The schemas are open, and no sentence says what becomes of a member that nobody knows",
    ),
    _rule(
        id="JR-19",
        level="SHOULD",
        basis="inference",
        title="An answer to nothing that was asked does no harm",
        lenient="No sentence says what becomes of an answer that belongs to no request",
    ),
    _rule(
        id="JR-20",
        level="SHOULD",
        basis="inference",
        title="A broken line does not end the conversation",
        lenient="Each side has to send valid messages alone; what becomes of others is not said",
    ),
)
