"""Clients that break the rules of subscriptions, one each."""

from check.mutation import message_mutant, raw_mutant
from check.raw_tasks_client import ACKNOWLEDGED, listening_client, tags_of


@message_mutant("SU-01")
def listens_with_a_string_instead_of_true(message):
    if message.get("method") == "subscriptions/listen":
        message["params"]["notifications"] = {"toolsListChanged": "yes"}
    return message


@message_mutant("SU-01")
def listens_for_nothing_at_all(message):
    if message.get("method") == "subscriptions/listen":
        del message["params"]["notifications"]
    return message


@raw_mutant("SU-03")
def mistakes_the_first_acknowledgement_for_its_own():
    return listening_client(lambda peer, listen: tags_of(peer, ACKNOWLEDGED)[:1] not in ([], [listen]))


@raw_mutant("SU-07")
def insists_on_what_it_asked_for():
    def disappointed(peer, _listen):
        return any(each["params"]["notifications"] == {} for each in peer.received if each.get("method") == ACKNOWLEDGED)

    return listening_client(disappointed)


@message_mutant("SU-11")
def cancels_another_type_of_id(message):
    if message.get("method") == "notifications/cancelled":
        message["params"]["requestId"] = str(message["params"]["requestId"])
    return message


@message_mutant("SU-11")
def ends_a_listen_by_a_request(message):
    if message.get("method") == "notifications/cancelled":
        return {**message, "id": 9999, "method": "subscriptions/unlisten"}
    return message


def _ends(peer, listen):
    """The ways in which a listen was ended, in order."""
    kinds = {"notifications/cancelled": "cancel", None: "result"}
    return [
        kinds[each.get("method")]
        for each in peer.received
        if each.get("id") == listen or each.get("params", {}).get("requestId") == listen
    ]


@raw_mutant("SU-15")
def fails_at_a_result():
    return listening_client(lambda peer, listen: _ends(peer, listen) == ["result"])


@raw_mutant("SU-15")
def fails_at_a_cancel():
    return listening_client(lambda peer, listen: _ends(peer, listen) == ["cancel"])


@raw_mutant("SU-15")
def fails_at_a_result_after_a_cancel():
    return listening_client(lambda peer, listen: _ends(peer, listen) == ["cancel", "result"])


@raw_mutant("SU-15")
def fails_at_a_cancel_after_a_result():
    return listening_client(lambda peer, listen: _ends(peer, listen) == ["result", "cancel"])


@raw_mutant("SU-16")
def forgets_its_listen_when_the_server_dies():
    return listening_client(listens_again=False)
