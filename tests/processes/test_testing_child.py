"""A client and a server in a separate process: the same conversation as in memory, over real pipes."""

import os
import sys

import pytest

from fake_server import scene
from processes.children import KILLED
from twopipes import RequestTimedOut, RestartPolicy, ServerCommand, ServerExited, Timeouts
from twopipes._protocol.revisions import ALL
from twopipes.errors import LocalProtocolError, StartFailed
from twopipes.testing import ExpectationFailed, child, delay, drop, duplicate, garble, kill, pair, truncate
from unit.testing.sums import sums

CALL = {"a": 1, "b": 2}
SHORT = Timeouts(request=0.2)
SUMS = """
    import sys

    sys.path.insert(0, {tests!r})
    from unit.testing.sums import sums

    print("ready", file=sys.stderr)
    sums().run()
"""
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture
def server(write):
    return write(SUMS.format(tests=TESTS), "sums_server.py")


@pytest.mark.parametrize("revision", ALL)
def test_it_is_the_same_conversation_as_in_memory(server, tmp_path, revision):
    talks = []
    for opening in (pair(sums(), revision=revision), child(server, revision=revision)):
        with opening as talk:
            talk.client.list_tools()
            talk.client.call_tool("add", CALL)
            talk.client.call_tool("steps", on_progress=lambda _: None)
        talk.expect_result("tools/call", {"content": [{"text": "done"}]})
        talk.expect_all_answered()
        talk.expect_only_messages()
        talk.expect_rules_kept(should=True)
        talk.expect_faults_struck()
        talk.expect_ended_by_eof()
        talks.append(talk)
    talks[0].expect_conversation(tmp_path / "adding.txt", update=True)
    talks[1].expect_conversation(tmp_path / "adding.txt")
    assert talks[0].stderr == []
    assert talks[1].stderr == ["ready"]


@scene
async def test_with_await(server):
    async with child(server) as talk:
        assert (await talk.client.call_tool("add", CALL)).structured == {"result": 3}
    talk.expect_ended_by_eof()


def test_the_era_of_a_command_is_not_shared_between_conversations(server):
    """Otherwise a conversation would depend on the order of the tests."""
    first, second = (child(server) for _ in range(2))
    for opening in (first, second):
        with opening:
            pass
    assert first.conversation.transcript() == second.conversation.transcript()


# The command


def test_a_command_may_be_given_in_any_way(server, tmp_path):
    words = [sys.executable, str(server)]
    for opening in (
        child(str(server)),
        child(server, "an argument"),
        child([server]),
        child(*words),
        child(words),
        child(ServerCommand(words)),
        child(server, env={"SOMETHING": "else"}, cwd=tmp_path),
    ):
        with opening as talk:
            assert talk.client.server_info.name == "sums"


def test_env_and_cwd_reach_the_child(write, tmp_path):
    file = write("""
        import os, sys
        print(os.environ["NAME"], os.getcwd(), *sys.argv[1:], file=sys.stderr)
        from twopipes import Server
        Server("x").run()
    """)
    folder = tmp_path / "folder"
    folder.mkdir()
    with child(ServerCommand([sys.executable, str(file), "word"], env={"NAME": "a"}), env={"NAME": "b"}, cwd=folder) as talk:
        pass
    assert talk.stderr == [f"b {folder} word"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: child("not there.py"), "there is no server file .*not there.py"),
        (lambda: child(ServerCommand(["x"]), "y"), "remove 'y'"),
        (lambda: child([]), "at least one non-empty string"),
    ],
)
def test_invalid_arguments_are_refused_before_anything_is_started(make, words):
    with pytest.raises(LocalProtocolError, match=words):
        make()


def test_a_command_that_cannot_be_started_is_an_error():
    with pytest.raises(StartFailed, match="not found"), child("a-program-that-does-not-exist"):
        pass


# Faults


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("way", [">", "<"])
@pytest.mark.parametrize("fault", [drop, garble, truncate])
def test_a_lost_line_fails_one_call(server, fault, way, era):
    lost = fault(way, method="tools/call") if fault is drop else fault(way, b"?" if fault is garble else 3, method="tools/call")
    with child(server, era=era, faults=[lost]) as talk:
        timeouts = 0
        # On a busy machine a call may time out before there is a line to lose, and its late response may be the lost line.
        while talk.faults.unused:
            try:
                talk.client.call_tool("add", CALL, timeouts=SHORT)
            except RequestTimedOut:
                timeouts += 1
        assert timeouts
        assert talk.client.call_tool("add", CALL).structured == {"result": 3}
    talk.expect_ended_by_eof()


def test_lines_may_be_delayed_and_repeated(server):
    faults = [
        delay("<", 0.05, method="tools/call"),
        duplicate("<", method="tools/call", nth=2),
        delay(">", 0.01, method="tools/call"),
    ]
    with child(server, faults=faults) as talk:
        for _ in range(3):
            assert talk.client.call_tool("add", CALL).structured == {"result": 3}
        talk.expect_faults_struck()
    talk.expect_ended_by_eof()


@pytest.mark.parametrize("way", [">", "<"])
def test_a_killed_child_is_restarted(server, way):
    with child(server, faults=[kill(way, method="tools/call")], restart=RestartPolicy(first_delay=0)) as talk:
        talk.client.list_tools()
        first = talk.client.pid
        assert talk.client.call_tool("add", CALL).structured == {"result": 3}
        assert (talk.client.restarts, talk.client.pid == first) == (1, False)
    assert [event.signal for event in talk.conversation.items if getattr(event, "name", "") == "exit"] == [KILLED.signal_name, None]
    talk.expect_ended_by_eof()  # the second one
    assert "= the server is started again" in talk.transcript()


def test_a_call_that_must_not_be_repeated_reports_how_the_server_ended(server):
    with child(server, faults=[kill("<", method="tools/call")]) as talk, pytest.raises(ServerExited) as caught:
        talk.client.call_tool("wait", {"seconds": 0})
    assert (caught.value.exit_code, caught.value.signal) == (KILLED.code, KILLED.signal_name)
    assert caught.value.stderr == ("ready",)


# Expectations


def test_a_process_that_prints_to_its_wire_is_detected(write):
    file = write("""
        import sys
        print("Welcome!", flush=True)
        from twopipes import Server
        Server("x").run()
    """)
    with child(file) as talk:
        pass
    with pytest.raises(ExpectationFailed, match="'Welcome!"):
        talk.expect_only_messages()


@pytest.mark.parametrize(
    ("last_words", "options", "words"),
    [
        ("sys.exit(3)", {}, r"exit cleanly on EOF: it exited on EOF .* \(exit code 3\)"),
        ("time.sleep(600)", {"timeouts": Timeouts(shutdown=0.5)}, "ended by SIGTERM"),
    ],
)
def test_a_process_that_does_not_exit_cleanly_is_detected(write, last_words, options, words):
    file = write(f"""
        import sys, time
        from twopipes import Server
        Server("x").run()
        {last_words}
    """)
    with child(file, **options) as talk:
        pass
    with pytest.raises(ExpectationFailed, match=words):
        talk.expect_ended_by_eof()


def test_the_last_lines_of_stderr_are_shown(write):
    file = write("""
        import sys
        from twopipes import Server
        Server("x").run()
        print("about to fail", file=sys.stderr, flush=True)
        sys.exit(3)
    """)
    with child(file) as talk:
        pass
    with pytest.raises(ExpectationFailed, match="stderr: about to fail"):
        talk.expect_ended_by_eof()
