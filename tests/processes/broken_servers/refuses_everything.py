"""No revision is good enough."""

from speaking import say, serve

serve(lambda message: say({"id": message["id"], "error": {"code": -32602, "message": "Unsupported protocol version"}}))
