"""`twopipes dev` and `keep --watch` with real files and processes: the code changes, and the session of the host goes on."""

import time

import pytest

from processes.launching import NET, call, python, request, text_of
from processes.test_keep import wait_for_the_end_of

pytest.importorskip("watchfiles")

SERVER = """
    import os, time
    from pathlib import Path
    from twopipes import Server

    server = Server("edited", version="1.0")


    @server.tool(annotations={"readOnlyHint": True})
    def version() -> str:
        return "VERSION"


    @server.tool
    def pid() -> int:
        return os.getpid()


    @server.tool
    def slow(name: str) -> str:
        Path("started").touch()
        while not Path(name).exists():
            time.sleep(0.005)
        return "VERSION finished"

    if __name__ == "__main__":
        server.run()
"""


class Author:
    """Edits the server of a host."""

    def __init__(self, host, write):
        self.host = host
        self.write = write
        self._ids = iter(range(1, 1_000_000))

    def ask(self, tool, **arguments):
        return self.host.ask(call(next(self._ids), tool, **arguments))

    def edit_until(self, program, happened):
        """Write a program, and call it until a response shows that it is used."""
        self.write(program)
        end = time.monotonic() + NET
        while not happened(answer := self.ask("version")):
            assert time.monotonic() < end, f"the edit was not noticed; the last response: {answer}"
        return answer


def has_text(text):
    return lambda answer: "result" in answer and text_of(answer) == text


def is_error(answer):
    return "error" in answer


@pytest.fixture(params=["dev", "keep"])
def author(request, launch, write, tmp_path):
    file = write(SERVER)
    ways = {
        "dev": ["dev", str(file)],
        "keep": ["keep", "--watch", str(file), "--", *python(file)],
    }
    host = launch(python("-m", "twopipes", *ways[request.param]))
    host.initialize()
    return Author(host, write)


def until_notified(host, method):
    while (message := host.receive()).get("method") != method:
        pass
    return message["params"]


def test_new_code_is_used_in_the_same_session(author):
    assert text_of(author.ask("version")) == "VERSION"
    author.edit_until(SERVER.replace("VERSION", "two"), has_text("two"))
    author.host.finish()


def test_the_host_is_notified_and_lists_the_new_tools(author):
    author.edit_until(SERVER.replace("def pid", "def process_id").replace("VERSION", "two"), has_text("two"))
    if not any(b"tools/list_changed" in line for line in author.host.out.seen):
        until_notified(author.host, "notifications/tools/list_changed")
    tools = author.host.ask(request("list", "tools/list"))["result"]["tools"]
    assert "process_id" in {tool["name"] for tool in tools}
    author.host.finish()


def test_a_broken_edit_is_an_error_with_the_traceback_until_it_is_fixed(author):
    broken = author.edit_until(SERVER.replace("import os, time", "import os, time, a_package_that_is_missing"), is_error)
    assert "Traceback (most recent call last)" in broken["error"]["message"]
    assert "ModuleNotFoundError: No module named 'a_package_that_is_missing'" in broken["error"]["message"]
    assert is_error(author.ask("version"))
    author.edit_until(SERVER.replace("VERSION", "fixed"), has_text("fixed"))
    author.host.end_input()
    assert author.host.wait() == 0


def test_a_call_in_flight_finishes_in_the_old_process(author, tmp_path):
    old = text_of(author.ask("pid"))
    author.host.send(call("slow", "slow", name=str(tmp_path / "gate")))
    while not (tmp_path / "started").exists():
        author.ask("pid")
    author.write(SERVER.replace("VERSION", "two"))
    assert "server.py changed" in until_notified(author.host, "notifications/message")["data"]
    author.host.send(call("new", "version"))
    (tmp_path / "gate").touch()
    assert text_of(author.host.receive_response("slow")) == "VERSION finished"
    assert text_of(author.host.receive_response("new")) == "two"
    assert text_of(author.ask("pid")) != old
    author.host.finish()


def test_no_process_is_left_after_the_host_was_killed(author):
    pid = int(text_of(author.ask("pid")))
    author.host.kill()
    author.host.wait()
    wait_for_the_end_of(pid)


def test_dev_serves_over_http(listening, run, write):
    file = write(SERVER)
    child, url = listening(python("-m", "twopipes", "dev", file, "--http", "0"))
    done = run(python("-m", "twopipes", "call", "version", url))
    assert (done.stdout, done.returncode) == (b"VERSION\n", 0)
    child.stop()
