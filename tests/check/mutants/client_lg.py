"""Clients that break the rules of logging, one each."""

import json

from check.mutating import Wire, wire_mutant
from check.raw_talking import META


@wire_mutant("LG-09")
def sets_a_level_for_all_requests(wire: Wire):
    def ask(line):
        if json.loads(line).get("method") == "tools/list":
            wire.say({"jsonrpc": "2.0", "id": "level", "method": "logging/setLevel", "params": {"level": "info", "_meta": META}})

    wire.from_subject = ask
