"""The transcripts of conversations/everything/ with a hub in between. Only names, texts of questions and loggers differ."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

import transcript
from test_gateway_transcripts import NO_ROOTS
from twopipes._gateway.back import BackConfig
from twopipes._gateway.hub.member import MemberSettings
from twopipes._gateway.hub.server import HubServer
from twopipes._process.command import ServerCommand

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parent / "conversations" / "everything"
# Requests that name a tool or a prompt, and questions with a text.
NAMING = re.compile(r'("method":"(?:tools/call|prompts/get)".*?"name":"|"type":"ref/prompt","name":")')
ASKING = re.compile(r'("method":"elicitation/create","params":\{(?:"mode":"\w+",)?"message":")')
# What a hub does otherwise, by transcript.
DIFFERENT = {
    "lists": "the names are those of the hub, which has pages of its own",
    "listens": "a tool that is removed before the hub has read the list is not announced",
    "tools-bad-arguments-old": "the server reports bad arguments as its own revision requires",
}
# A text of a transcript, and the text instead.
REPLACED = {
    # The server reports a capability that the client lacks as its own revision requires.
    "ask-session": [(NO_ROOTS, '"error":{"code":-32600,"message":"...","data":{"requiredCapabilities":{"roots":{}}}}')],
    "logging-session": [('"logger":"everything"', '"logger":"x.everything"')],
    "logging-stateless": [('"logger":"everything"', '"logger":"x.everything"')],
    "prompts": [('"Unknown prompt: nope"', '"Unknown prompt: x__nope"')],
    "tools-call": [('"Unknown tool: nope"', '"Unknown tool: x__nope; similar names: x__sample, x__log"')],
}
RUNS = [
    pytest.param(path, revision, id=f"{path.stem}-{revision}")
    for path in sorted(FOLDER.glob("*.txt"))
    for revision in transcript.revisions_of(path.read_text(encoding="utf-8"))[-1:]
    if transcript.is_played(revision, "pipes") and path.stem not in DIFFERENT
]


def text_of(path):
    text = ASKING.sub(r"\1[x] ", NAMING.sub(r"\1x__", path.read_text(encoding="utf-8")))
    for old, new in REPLACED.get(path.stem, ()):
        assert old in text
        text = text.replace(old, new)
    return text


async def play(path, revision):
    server = ServerCommand([sys.executable, str(transcript.EVERYTHING)], environment="inherit")
    hub = HubServer({"x": server}, members=MemberSettings(config=BackConfig(era="modern")))
    async with hub._running():
        await transcript.Transcript(text_of(path), revision).run_against(hub, "pipes")


@pytest.mark.parametrize(("path", "revision"), RUNS)
def test_a_server_behind_a_hub_matches_the_transcript(path, revision):
    asyncio.run(play(path, revision))


def test_the_table_of_differences_names_transcripts():
    assert {*DIFFERENT, *REPLACED} <= {path.stem for path in FOLDER.glob("*.txt")}
