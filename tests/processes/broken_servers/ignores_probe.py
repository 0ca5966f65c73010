"""Answers nothing before initialize."""

from speaking import answer, serve

opened = []


def tell(message):
    if message["method"] == "initialize":
        opened.append(message)
    if opened:
        answer(message)


serve(tell)
