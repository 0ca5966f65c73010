"""Takes its own version for that of the protocol."""

from speaking import answer, result_of, say, serve


def tell(message):
    if message["method"] == "initialize":
        say({"id": message["id"], "result": {**result_of(message), "protocolVersion": "1.0"}})
    else:
        answer(message)


serve(tell)
