"""References to secrets: how they are resolved, and that values appear nowhere else."""

import asyncio
import os
import sys
import threading

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from fake_server import scene
from twopipes import connect
from twopipes._host import references
from twopipes._host.references import literal, refers, resolve, resolved
from twopipes.errors import ConfigError, HttpError
from twopipes.host import ServerConfig

SECRET = "hunter2-5f1c"


class MemoryKeyring(KeyringBackend):
    """A keyring in memory."""

    priority = 1

    def __init__(self):
        super().__init__()
        self.stored = {}

    def get_password(self, service, username):
        return self.stored.get((service, username))

    def set_password(self, service, username, password):
        self.stored[service, username] = password

    def delete_password(self, service, username):
        del self.stored[service, username]


@pytest.fixture
def ring():
    before = keyring.get_keyring()
    made = MemoryKeyring()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


def one(value, folder=None):
    return resolved({"TOKEN": value}, folder)["TOKEN"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ("${NAME}", SECRET),
        ("Bearer ${NAME}", f"Bearer {SECRET}"),
        ("${NAME}${NAME}", SECRET * 2),
        ("${MISSING:-other}", "other"),
        ("${MISSING:-}", ""),
        ("${NAME:-other}", SECRET),
        ("${EMPTY:-other}", ""),
        ("$NAME", "$NAME"),
        ("$${NAME}", f"${SECRET}"),
        ("literal:${NAME}", "${NAME}"),
        ("literal:literal:x", "literal:x"),
        ("literal:", ""),
        ("file:///etc/hosts", "file:///etc/hosts"),
        ("a file:b", "a file:b"),
    ],
)
def test_what_a_value_resolves_to(value, text, monkeypatch):
    monkeypatch.setenv("NAME", SECRET)
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("MISSING", raising=False)
    assert one(value) == text


def test_a_value_is_not_expanded_again(monkeypatch):
    monkeypatch.setenv("NAME", "${HOME} file:x")
    assert one("${NAME}") == "${HOME} file:x"


@pytest.mark.parametrize("text", ["", "x", "${HOME}", "file:x", "keyring:a/b", "literal:x", "$", "${", "file://x", "a${b}c"])
def test_a_literal_resolves_to_its_text(text):
    assert one(literal(text)) == text
    assert not refers(literal(text))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"s3cret\n", "s3cret"),
        (b"s3cret", "s3cret"),
        (b"s3cret\r\n", "s3cret"),
        (b"a\n\n", "a\n"),
        (b"", ""),
        ("ключ".encode(), "ключ"),
    ],
)
def test_a_file_is_read_without_its_last_newline(content, text, tmp_path):
    (tmp_path / "token").write_bytes(content)
    assert one("file:token", str(tmp_path)) == text
    assert one(f"file:{tmp_path / 'token'}") == text
    assert one("Bearer ${file:token}", str(tmp_path)) == f"Bearer {text}"


def test_a_file_below_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "token").write_text("x")
    assert one("file:~/token", "/elsewhere") == "x"


def test_a_password_of_the_keyring(ring):
    keyring.set_password("https://host/path", "ada@host", SECRET)
    assert one("keyring:https://host/path/ada@host") == SECRET
    assert one("Bearer ${keyring:https://host/path/ada@host}") == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${MISSING}", r"TOKEN refers to \$\{MISSING\}, but the variable MISSING is not set"),
        ("${not a name}", r"TOKEN has a reference that is not valid: \$\{not a name\}; write literal:"),
        ("${}", "is not valid"),
        ("file:gone", "TOKEN refers to file:gone, but .*gone cannot be read: No such file"),
        ("file:.", "cannot be read|not a regular file"),
        ("file:a\0b", "the path is not valid"),
        ("file:big", "big has more than 64 KiB"),
        ("file:binary", "binary is not UTF-8 text"),
        ("keyring:service", "a reference to the keyring is keyring:SERVICE/NAME"),
        ("keyring:/name", "is keyring:SERVICE/NAME"),
        ("keyring:service/name", "the keyring has no such password; store it: keyring set service name"),
    ],
)
def test_a_reference_that_cannot_be_resolved_is_named(value, message, tmp_path, monkeypatch, ring):
    monkeypatch.delenv("MISSING", raising=False)
    (tmp_path / "big").write_bytes(b"x" * 65537)
    (tmp_path / "binary").write_bytes(b"\xff" + SECRET.encode())
    with pytest.raises(ConfigError, match=message) as caught:
        one(value, str(tmp_path))
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None  # a traceback would show the content


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_fifo_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ConfigError, match="fifo is not a regular file"):
        one("file:fifo", str(tmp_path))


def test_a_locked_keyring_is_an_error(ring, monkeypatch):
    def locked(*_):
        raise KeyringLocked("the user cancelled")

    monkeypatch.setattr(ring, "get_password", locked)
    with pytest.raises(ConfigError, match="the keyring cannot be read: KeyringLocked: the user cancelled"):
        one("keyring:a/b")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match=r"pip install 'twopipes\[keyring\]'"):
        one("keyring:a/b")


def test_a_keyring_that_never_answers_does_not_block_the_loop(ring, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(ring, "get_password", lambda *_: released.wait(60) and None)
    monkeypatch.setattr(references, "_MAX_WAIT", 0.01)
    with pytest.raises(ConfigError, match=r"A, B cannot be resolved within 0.01 s; is the keyring locked"):
        asyncio.run(resolve({"A": "keyring:a/b", "B": "${keyring:a/b}", "C": "plain"}))
    released.set()


SERVER = """
import os
from twopipes import Server

server = Server("secrets")

@server.tool
def variable(name: str) -> str:
    return os.environ.get(name, "not set")

@server.tool
def stop() -> str:
    os._exit(3)

server.run()
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "token").write_text("first\n")
    return ServerConfig(
        command=[sys.executable, str(tmp_path / "server.py")],
        env={"TOKEN": "file:token", "FROM_OURS": "${NAME}"},
        source=str(tmp_path / "servers.json"),
    )


@scene
async def test_a_restarted_server_gets_the_present_secret(config, tmp_path):
    async with connect(config.target(), env={"NAME": "unused", "FROM_OURS": "literal:x"}) as client:
        assert (await client.call_tool("variable", {"name": "TOKEN"})).text == "first"
        (tmp_path / "token").write_text("second\n")
        with pytest.raises(Exception, match="exited"):
            await client.call_tool("stop")
        assert (await client.call_tool("variable", {"name": "TOKEN"})).text == "second"


@scene
async def test_a_recording_has_no_secret(config, tmp_path, monkeypatch):
    monkeypatch.setenv("NAME", SECRET)
    (tmp_path / "token").write_text(f"{SECRET}-file")
    trace = tmp_path / "trace.jsonl"
    target = config.target()
    async with connect(target, trace=trace) as client:
        assert await client.list_tools()
        text = repr([client, target, vars(target), config])
    assert SECRET not in text
    recorded = trace.read_text()
    assert "server/discover" in recorded or "initialize" in recorded
    assert SECRET not in recorded


def test_the_key_of_the_era_cache_is_made_from_references(config, tmp_path, monkeypatch):
    monkeypatch.setenv("NAME", "one")
    before = config.target().identity
    monkeypatch.setenv("NAME", "two")
    (tmp_path / "token").write_text("other")
    assert config.target().identity == before


@scene
async def test_a_missing_secret_is_an_error_of_connecting(config, monkeypatch):
    monkeypatch.delenv("NAME", raising=False)
    with pytest.raises(ConfigError, match=r"FROM_OURS refers to .*NAME is not set"):
        await connect(config.target())


@scene
async def test_headers_are_resolved_when_a_url_is_opened(tmp_path):
    received = []

    async def refuse(reader, writer):
        received.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        config = ServerConfig(
            url=f"http://127.0.0.1:{port}/mcp",
            headers={"Authorization": "Bearer ${file:token}"},
            source=str(tmp_path / "servers.json"),
        )
        target = config.target()
        for secret in ("first", "second"):
            (tmp_path / "token").write_text(secret)
            received.clear()
            with pytest.raises(HttpError) as caught:
                await connect(target)
            assert f"authorization: bearer {secret}\r\n" in received[0].lower()
            assert secret not in f"{caught.value} {config} {vars(target)}"
