"""Roots, from the side of a client."""

from __future__ import annotations

from twopipes._tools.check.conversation import ALL_CAPABILITIES
from twopipes._tools.check.explore import askers, converse
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import ROOTS

_TOOLS = 3


@probe("RT-04")
async def roots_are_asked_for_in_results(case: Case) -> None:
    """Tools that want roots ask for them in a result, and only a client that has some."""
    fix = 'Answer the call with input_required, and put {"method":"roots/list"} into inputRequests, if roots were declared.'
    asking = await askers(case, ROOTS)
    for question in asking:
        case.expect("RT-04", question.key is not None, "roots are asked for by a request", fix=fix, about=question.about)
        envelope = sorted({"id", "jsonrpc"} & question.entry.keys())
        case.expect(
            "RT-04",
            question.key is None or not envelope,
            f"the question for roots has an envelope: {', '.join(envelope)}",
            fix=fix,
            about=question.about,
        )
    without = {key: value for key, value in ALL_CAPABILITIES.items() if key != "roots"}
    conversation = await case.conversation_with(without)
    for question in asking[:_TOOLS]:
        found = next((each for each in (await converse(conversation, question.call)).questions if each.method == ROOTS), None)
        case.expect(
            "RT-04",
            found is None,
            "roots are asked for, and the request did not declare them",
            fix=fix,
            about=found.about if found else None,
        )
