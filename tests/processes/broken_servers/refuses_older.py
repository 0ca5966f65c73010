"""Answers an older revision by an error instead of naming a newer one."""

from speaking import REVISIONS, answer, say, serve


def tell(message):
    if message["method"] == "initialize" and message["params"]["protocolVersion"] != REVISIONS[-1]:
        say({"id": message["id"], "error": {"code": -32602, "message": "Unsupported protocol version"}})
    else:
        answer(message)


serve(tell)
