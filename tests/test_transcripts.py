"""Every transcript under conversations/everything/, in each of its revisions, over every channel and over HTTP (FR-11, FR-12)."""

import asyncio
from pathlib import Path

import pytest

import transcript
from conversation import Mismatch

FOLDER = Path(__file__).parent / "conversations" / "everything"
RUNS = [
    pytest.param(path, revision, kind, id=f"{path.stem}-{revision}-{kind}", marks=() if kind == "memory" else pytest.mark.slow)
    for path in sorted(FOLDER.glob("*.txt"))
    for revision in transcript.revisions_of(path.read_text(encoding="utf-8"))
    for kind in transcript.CHANNELS
    if transcript.is_played(revision, kind)
]


@pytest.mark.parametrize(("path", "revision", "kind"), RUNS)
def test_the_server_matches_the_transcript(path, revision, kind):
    asyncio.run(transcript.Transcript(path.read_text(encoding="utf-8"), revision).run(kind))


@pytest.mark.parametrize("step", ['< {"jsonrpc":"2.0","id":2,"result":{}}', "", '<? {"jsonrpc":"2.0","id":"1","result":{}}'])
def test_a_server_that_differs_fails_the_transcript(step):
    text = '* init {}\n> {"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    asyncio.run(transcript.Transcript(text + '< {"jsonrpc":"2.0","id":1,"result":{}}', "2025-11-25").run("memory"))
    with pytest.raises(Mismatch):
        asyncio.run(transcript.Transcript(text + step, "2025-11-25").run("memory"))


def test_every_transcript_has_a_title_and_names_its_rules():
    for path in FOLDER.glob("*.txt"):
        first, second, *_ = path.read_text(encoding="utf-8").splitlines()
        assert first.startswith("# "), path
        assert second.startswith("# rules: "), path
