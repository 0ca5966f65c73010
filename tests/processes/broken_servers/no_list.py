"""Declares tools and has no list of them."""

from speaking import answer, say, serve


def tell(message):
    if message["method"] == "tools/list":
        say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
    else:
        answer(message)


serve(tell)
