"""Clients that break the rules of extensions and apps, one each."""

from check.mutation import message_mutant, raw_mutant
from check.raw_tasks_client import listening_client

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


@raw_mutant("AP-01")
def gives_up_at_unknown_extensions():
    return listening_client(lambda peer, _listen: any("com.example/unknown" in str(each) for each in peer.received))


@message_mutant("AP-02")
def shows_apps_of_no_type(message):
    can = message.get("params", {}).get("_meta", {}).get(CAPABILITIES)
    if can is not None:
        can["extensions"] = {"io.modelcontextprotocol/ui": {}}
    return message
