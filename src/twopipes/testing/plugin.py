"""What pytest gets from twopipes: fixtures, an option, and the conversation in the report of a test that failed.

pytest imports this in every run of everybody who has twopipes installed, so it imports nothing that is not asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from twopipes.testing.clock import ManualClock
    from twopipes.testing.live_conversation import LiveConversation
    from twopipes.testing.opening import Opening

__all__ = ["ConversationSnapshot"]

# Characters of a file's name. Some systems end at 255 bytes, with the folder and the ending counted.
_LONGEST_NAME = 120

# Lines of stderr in a report.
_LAST_LINES = 20

_talks = pytest.StashKey[list["LiveConversation[Any]"]]()
_written = pytest.StashKey[list[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """One option."""
    group = parser.getgroup("twopipes", "conversations between MCP clients and servers")
    group.addoption(
        "--update-conversations",
        action="store_true",
        default=False,
        help="write the files of conversation_snapshot instead of comparing with them",
    )


@pytest.fixture
def mcp_pair(request: pytest.FixtureRequest) -> Callable[..., Opening]:
    """Joins a client to a server object, by memory; as :func:`twopipes.testing.pair`."""
    from twopipes.testing.opening import pair  # noqa: PLC0415 - see above

    return _shown_if_it_fails(request.node, pair)


@pytest.fixture
def mcp_child(request: pytest.FixtureRequest) -> Callable[..., Opening]:
    """Joins a client to a server in a process of its own, by pipes; as :func:`twopipes.testing.child`."""
    from twopipes.testing.opening import child  # noqa: PLC0415 - see above

    return _shown_if_it_fails(request.node, child)


@pytest.fixture
def mcp_clock() -> ManualClock:
    """Time that passes by ``await mcp_clock.advance(60)`` alone: ``async with mcp_clock:``, or ``mcp_clock.run(coroutine)``."""
    from twopipes.testing.clock import ManualClock  # noqa: PLC0415 - see above

    return ManualClock()


@pytest.fixture
def conversation_snapshot(request: pytest.FixtureRequest) -> ConversationSnapshot:
    """What was said is what a file beside the test says: ``conversation_snapshot(talk)``; --update-conversations writes it."""
    return ConversationSnapshot(request)


class ConversationSnapshot:
    """Compares conversations of one test with files: ``conversations/<module>/<test>.txt``, beside the test.

    Attributes:
        folder: Where they lie.
    """

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.folder: Path = request.path.parent / "conversations" / request.path.stem
        self._node = request.node
        self._config = request.config
        self._used: set[Path] = set()

    def __call__(self, talk: LiveConversation[Any], name: str | None = None, *, volatile: tuple[str, ...] | list[str] = ()) -> None:
        """The conversation is the one in the file.

        Args:
            talk: What ``pair`` or ``child`` gave, also after its block.
            name: Added to the name of the file, where one test has several.
            volatile: Members whose values are others each time; see :meth:`LiveConversation.expect_conversation`.
        """
        __tracebackhide__ = True
        from twopipes.testing.snapshot import compare  # noqa: PLC0415 - see above

        path = self.path(name)
        if path in self._used:
            pytest.fail(f"this test has compared {path.name} already; give the next conversation a name of its own", pytrace=False)
        self._used.add(path)
        update = True if self._config.getoption("--update-conversations") else None
        if compare(talk.conversation, path, volatile=volatile, update=update, title=self._node.name):
            self._config.stash.setdefault(_written, []).append(path)

    def path(self, name: str | None = None) -> Path:
        """The file for a conversation of this test."""
        full = self._node.nodeid.partition("::")[2].replace("::", "-") + (f"-{name}" if name else "")
        plain = re.sub(r"[^\w.+-]+", "_", full).strip("_")
        if plain != full.replace("[", "_").replace("]", "_").strip("_") or len(plain) > _LONGEST_NAME:
            from hashlib import sha256  # noqa: PLC0415 - rare: two names must not become one

            plain = f"{plain[:_LONGEST_NAME]}-{sha256(full.encode()).hexdigest()[:8]}"
        return self.folder / f"{plain}.txt"


def _shown_if_it_fails(node: pytest.Item, opened: Callable[..., Opening]) -> Callable[..., Opening]:
    def opening(*arguments: Any, **options: Any) -> Opening:
        found = opened(*arguments, **options)
        node.stash.setdefault(_talks, []).append(found.conversation)
        return found

    return opening


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that fails shows what was said on the wire, as it shows what was printed."""
    try:
        return (yield)
    except BaseException as error:
        for talk in item.stash.get(_talks, []):
            tail = talk.tail()
            if tail not in str(error):  # once is enough
                text = "\n".join([tail, *(f"! {line}" for line in talk.stderr[-_LAST_LINES:])])
                item.add_report_section("call", "MCP conversation", text + "\n")
        raise


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says which files were written."""
    files = config.stash.get(_written, [])
    if files:
        terminalreporter.section("conversations written")
        for path in files:
            terminalreporter.line(str(path))
