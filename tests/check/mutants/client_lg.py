"""Clients that break the rules of logging, one each."""

import json

from check.mutation import Wire, wire_mutant
from check.raw_connection import META


@wire_mutant("LG-09")
def sets_a_level_for_all_requests(wire: Wire):
    def ask(line):
        if json.loads(line).get("method") == "tools/list":
            wire.send_to_check(
                {"jsonrpc": "2.0", "id": "level", "method": "logging/setLevel", "params": {"level": "info", "_meta": META}}
            )

    wire.from_subject = ask
