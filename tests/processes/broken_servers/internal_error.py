"""Declares tools and fails to list them."""

from speaking import answer, say, serve


def tell(message):
    if message["method"] == "tools/list":
        say({"id": message["id"], "error": {"code": -32603, "message": "Internal error"}})
    else:
        answer(message)


serve(tell)
