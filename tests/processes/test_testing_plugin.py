"""The plugin in a separate pytest process, in its own folder."""

import os
import re
import subprocess
import sys

import pytest

from processes.launching import ENVIRONMENT, NET

pytestmark = pytest.mark.walkthrough  # a child pytest for each

SERVER = """
    import asyncio
    from twopipes import Server

    server = Server("sums", version="1.0")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    if __name__ == "__main__":
        server.run()
"""


@pytest.fixture
def pytest_run(tmp_path, write):
    """Run pytest in a project with a server and these tests, with only our plugin."""
    write(SERVER, "sums.py")

    def pytest_run(tests, *arguments, env=(), name="test_sums.py"):
        write(tests, name)
        command = [sys.executable, "-m", "pytest", "-p", "twopipes.testing.plugin", "-p", "no:cacheprovider", *arguments]
        # pytest prints more if it detects CI.
        quiet = {name: value for name, value in ENVIRONMENT.items() if name not in {"CI", "BUILD_NUMBER"}}
        environment = {**quiet, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200", **dict(env)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=NET, check=False)

    return pytest_run


def test_the_fixtures_work_in_plain_tests_and_in_coroutines(pytest_run):
    done = pytest_run("""
        import asyncio, unittest
        from pathlib import Path
        import pytest
        from sums import server

        FILE = Path(__file__).with_name("sums.py")

        def test_in_memory(mcp_pair):
            with mcp_pair(server) as talk:
                assert talk.client.call_tool("add", {"a": 1, "b": 2}).structured == {"result": 3}

        def test_as_a_process(mcp_child):
            with mcp_child(FILE) as talk:
                assert talk.client.call_tool("add", {"a": 1, "b": 2}).structured == {"result": 3}
            talk.expect_ended_by_eof()

        def test_in_a_coroutine(mcp_pair, mcp_child):
            async def main():
                for opening in (mcp_pair(server), mcp_child(FILE)):
                    async with opening as talk:
                        assert (await talk.client.call_tool("add", {"a": 1, "b": 2})).structured == {"result": 3}
            asyncio.run(main())

        def test_by_the_clock(mcp_pair, mcp_clock):
            async def main():
                async with mcp_pair(server):
                    sleeping = asyncio.create_task(asyncio.sleep(3600))
                    await mcp_clock.advance(3600)
                    assert sleeping.done()
            mcp_clock.run(main())
    """)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


def test_a_failure_shows_the_conversation(pytest_run):
    done = pytest_run("""
        import sys
        from sums import server

        def test_in_memory(mcp_pair):
            with mcp_pair(server) as talk:
                talk.client.call_tool("add", {"a": 1, "b": 2})
                assert False, "on purpose"

        def test_as_a_process(mcp_child):
            with mcp_child(sys.executable, "-c", "import sys; sys.exit('the server refused to start')"):
                pass

        def test_that_has_nothing_to_show():
            assert False
    """)
    assert done.returncode == 1
    sections = re.split(r"^_+ (\w+) _+$", done.stdout, flags=re.MULTILINE)
    shown = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert "Captured MCP conversation call" in shown["test_in_memory"]
    call = '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2},"_meta":{$META'
    assert f"\n> {call}" in shown["test_in_memory"]
    assert "! the server refused to start" in shown["test_as_a_process"]
    assert "MCP conversation" not in shown["test_that_has_nothing_to_show"]


def test_an_expectation_that_fails_shows_the_test_and_not_our_own_lines(pytest_run):
    done = pytest_run("""
        from sums import server

        def test_it(mcp_pair):
            with mcp_pair(server) as talk:
                pass
            talk.expect_result("tools/call")
    """)
    assert ">       talk.expect_result" in done.stdout
    assert "E       twopipes.testing.expectations.ExpectationFailed: the client did not send tools/call" in done.stdout
    assert "talk.py" not in done.stdout
    assert done.stdout.count("The conversation:") == 1


SNAPSHOT = """
    import pytest
    from sums import server

    def test_adding(mcp_pair, conversation_snapshot):
        with mcp_pair(server, era="legacy") as talk:
            talk.client.call_tool("add", {"a": 1, "b": 2})
        conversation_snapshot(talk)
"""


def test_a_conversation_is_never_stored_unless_asked_for(pytest_run, tmp_path):
    for env in ({}, {"CI": "1"}):
        done = pytest_run(SNAPSHOT, env=env)
        assert done.returncode == 1
        assert "ExpectationFailed: the file " in done.stdout
        assert "store it with pytest --update-conversations" in done.stdout
        assert not (tmp_path / "conversations").exists()


@pytest.mark.parametrize(("arguments", "env"), [(["--update-conversations"], {}), ([], {"TWOPIPES_UPDATE_CONVERSATIONS": "1"})])
def test_a_conversation_is_stored_compared_and_stored_again(pytest_run, tmp_path, arguments, env):
    file = tmp_path / "conversations" / "test_sums" / "test_adding.txt"
    done = pytest_run(SNAPSHOT, *arguments, env=env)
    assert done.returncode == 0, done.stdout
    assert re.search(rf"conversations written =+\n{re.escape(str(file))}\n", done.stdout)
    stored = file.read_text()
    assert stored.startswith('# test_adding\n> {"jsonrpc":"2.0","id":1,"method":"initialize"')
    assert stored.splitlines()[-1].startswith('< {"jsonrpc":"2.0","id":2,"result":')

    done = pytest_run(SNAPSHOT)
    assert done.returncode == 0, done.stdout
    assert "conversations written" not in done.stdout

    file.write_text(stored.replace('"result":3}', '"result":4}'))
    done = pytest_run(SNAPSHOT)
    assert done.returncode == 1
    assert f"ExpectationFailed: the conversation differs from {file}" in done.stdout
    assert re.search(r'^E +-< \{.*"structuredContent":\{"result":4\}', done.stdout, re.MULTILINE)
    assert re.search(r'^E +\+< \{.*"structuredContent":\{"result":3\}', done.stdout, re.MULTILINE)
    assert re.search(r"^E +< result\.structuredContent\.result: stored 4, now 3$", done.stdout, re.MULTILINE)
    assert "snapshot.py" not in done.stdout

    assert pytest_run(SNAPSHOT, *arguments, env=env).returncode == 0
    assert file.read_text() == stored


def test_every_test_has_its_own_files(pytest_run, tmp_path):
    tests = """
        import pytest
        from sums import server

        @pytest.fixture
        def talk(mcp_pair):
            with mcp_pair(server) as talk:
                yield talk

        class TestAll:
            @pytest.mark.parametrize("word", ["plain", "a/b", "a_b", "x" * 300])
            def test_it(self, talk, conversation_snapshot, word):
                conversation_snapshot(talk)
                conversation_snapshot(talk, "again", volatile=["version"])

        def test_twice(talk, conversation_snapshot):
            conversation_snapshot(talk)
            conversation_snapshot(talk)
    """
    done = pytest_run(tests, "--update-conversations")
    assert "4 passed" in done.stdout
    assert "1 failed" in done.stdout
    assert "this test has already compared test_twice.txt; pass another name for the next conversation" in done.stdout
    names = sorted(path.name for path in (tmp_path / "conversations" / "test_sums").iterdir())
    assert len(names) == 9
    assert "TestAll-test_it_plain.txt" in names
    assert "TestAll-test_it_plain_-again.txt" in names
    assert max(map(len, names)) < 150


def test_the_plugin_can_be_disabled(pytest_run):
    done = pytest_run("def test_it(): pass", "--help")
    assert "--update-conversations" in done.stdout
    done = pytest_run("def test_it(): pass", "--fixtures")
    for name in ("mcp_pair", "mcp_child", "mcp_clock", "conversation_snapshot"):
        assert re.search(rf"^{name} -- .*twopipes/testing/plugin\.py", done.stdout.replace(os.sep, "/"), re.MULTILINE)


def test_until_a_fixture_is_used_nothing_is_loaded(pytest_run):
    done = pytest_run("""
        import sys

        def test_it():
            ours = {name for name in sys.modules if name.partition(".")[0] == "twopipes"}
            assert ours == {"twopipes", "twopipes._lazy", "twopipes.testing", "twopipes.testing.plugin"}
            assert "msgspec" not in sys.modules
    """)
    assert done.returncode == 0, done.stdout
