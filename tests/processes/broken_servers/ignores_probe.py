"""Does not respond to anything before initialize."""

from stdio_server import respond, serve

opened = []


def handle(message):
    if message["method"] == "initialize":
        opened.append(message)
    if opened:
        respond(message)


serve(handle)
