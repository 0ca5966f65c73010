"""The pytest plugin: fixtures, an option, and the conversation in the report of a failed test.

pytest imports this module in every run if twopipes is installed, so the rest is imported when a test uses it.
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

# Characters of a file name. Some systems allow 255 bytes for the name with its folder and extension.
_MAX_NAME = 120

# Lines of stderr in a report.
_STDERR_LINES = 20

_talks = pytest.StashKey[list["LiveConversation[Any]"]]()
_written = pytest.StashKey[list[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of the plugin."""
    group = parser.getgroup("twopipes", "conversations between MCP clients and servers")
    group.addoption(
        "--update-conversations",
        action="store_true",
        default=False,
        help="write the files of conversation_snapshot instead of comparing with them",
    )


@pytest.fixture
def mcp_pair(request: pytest.FixtureRequest) -> Callable[..., Opening]:
    """Connect a client to a server object in memory, as :func:`twopipes.testing.pair` does."""
    from twopipes.testing.opening import pair

    return _reported_on_failure(request.node, pair)


@pytest.fixture
def mcp_child(request: pytest.FixtureRequest) -> Callable[..., Opening]:
    """Connect a client to a server in a process of its own, as :func:`twopipes.testing.child` does."""
    from twopipes.testing.opening import child

    return _reported_on_failure(request.node, child)


@pytest.fixture
def mcp_clock() -> ManualClock:
    """A clock that only ``await mcp_clock.advance(60)`` moves: ``async with mcp_clock:``, or ``mcp_clock.run(coroutine)``."""
    from twopipes.testing.clock import ManualClock

    return ManualClock()


@pytest.fixture
def conversation_snapshot(request: pytest.FixtureRequest) -> ConversationSnapshot:
    """Compare a conversation with a file beside the test: ``conversation_snapshot(talk)``; --update-conversations writes it."""
    return ConversationSnapshot(request)


class ConversationSnapshot:
    """Compares conversations of one test with files: ``conversations/<module>/<test>.txt``, beside the test.

    Attributes:
        folder: The folder of the files.
    """

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.folder: Path = request.path.parent / "conversations" / request.path.stem
        self._node = request.node
        self._config = request.config
        self._used: set[Path] = set()

    def __call__(self, talk: LiveConversation[Any], name: str | None = None, *, volatile: tuple[str, ...] | list[str] = ()) -> None:
        """Compare a conversation with its file.

        Args:
            talk: The conversation of ``pair`` or ``child``, in its block or after it.
            name: Added to the name of the file, if one test has several.
            volatile: Members whose values change in each run; see :meth:`LiveConversation.expect_conversation`.
        """
        __tracebackhide__ = True
        from twopipes.testing.snapshot import compare

        path = self.path(name)
        if path in self._used:
            pytest.fail(f"this test has already compared {path.name}; pass another name for the next conversation", pytrace=False)
        self._used.add(path)
        update = True if self._config.getoption("--update-conversations") else None
        if compare(talk.conversation, path, volatile=volatile, update=update, title=self._node.name):
            self._config.stash.setdefault(_written, []).append(path)

    def path(self, name: str | None = None) -> Path:
        """Return the file for a conversation of this test."""
        full = self._node.nodeid.partition("::")[2].replace("::", "-") + (f"-{name}" if name else "")
        plain = re.sub(r"[^\w.+-]+", "_", full).strip("_")
        if plain != full.replace("[", "_").replace("]", "_").strip("_") or len(plain) > _MAX_NAME:
            from hashlib import sha256  # rare: two names must not become one

            plain = f"{plain[:_MAX_NAME]}-{sha256(full.encode()).hexdigest()[:8]}"
        return self.folder / f"{plain}.txt"


def _reported_on_failure(node: pytest.Item, opened: Callable[..., Opening]) -> Callable[..., Opening]:
    def opening(*arguments: Any, **options: Any) -> Opening:
        found = opened(*arguments, **options)
        node.stash.setdefault(_talks, []).append(found.conversation)
        return found

    return opening


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Add the conversation to the report of a failed test."""
    try:
        return (yield)
    except BaseException as error:
        for talk in item.stash.get(_talks, []):
            tail = talk.tail()
            if tail not in str(error):  # the error may already contain it
                text = "\n".join([tail, *(f"! {line}" for line in talk.stderr[-_STDERR_LINES:])])
                item.add_report_section("call", "MCP conversation", text + "\n")
        raise


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """List the files that were written."""
    files = config.stash.get(_written, [])
    if files:
        terminalreporter.section("conversations written")
        for path in files:
            terminalreporter.line(str(path))
