"""Every file under conversations/ is a test."""

from pathlib import Path

import pytest

import conversation

FOLDER = Path(__file__).parent / "conversations"
FILES = sorted(path for path in FOLDER.rglob("*.txt") if path.parent.name != "everything")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER).with_suffix("")))
def test_the_conversation_matches_its_file(path):
    conversation.Player(conversation.read(path)).play()


@pytest.mark.parametrize(
    "step",
    [
        '< {"jsonrpc":"2.0","id":2,"result":{}}',
        '< {"jsonrpc":"2.0","id":"1","result":{}}',
        '< {"jsonrpc":"2.0","id":1.0,"result":{}}',
        '< {"jsonrpc":"2.0","id":1,"result":{"a":1}}',
        "= CallReceived 1",
        "* wait 1",
        "",
    ],
)
def test_a_conversation_that_differs_fails(step):
    good = '@server\n> {"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    conversation.Player(good + '< {"jsonrpc":"2.0","id":1,"result":{}}').play()
    with pytest.raises(conversation.Mismatch):
        conversation.Player(good + step).play()


def test_every_conversation_has_a_title_and_names_its_rules():
    for path in FILES:
        first, second, *_ = conversation.read(path).splitlines()
        assert first.startswith("# "), path
        assert second.startswith("# rules: "), path
