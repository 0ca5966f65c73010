"""A server with a policy is stopped by it, and the same server without one is not. Each test runs with every engine."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from processes.children import is_running, run
from processes.launching import NET
from processes.sandboxes import BUBBLEWRAP, CODE, ENGINES, LANDLOCK, SERVER, descendants, with_every_engine
from twopipes import RestartPolicy, connect
from twopipes.errors import ServerExited
from twopipes.settings import Sandbox

LOCAL = ("127.0.0.1", 0)
# Some systems let users debug only what they have started themselves.
_TRACING = Path("/proc/sys/kernel/yama/ptrace_scope")
MAY_TRACE = os.geteuid() == 0 or not _TRACING.exists() or _TRACING.read_text().strip() == "0"
NEVER = RestartPolicy(when="never")
with_and_without = pytest.mark.parametrize("engine", [pytest.param(None, id="none"), *ENGINES])


@asynccontextmanager
async def confined(engine, folder, *, read=(), write=(), network=False, **options):
    """Connect to the server. It may read the code that it consists of."""
    policy = None if engine is None else Sandbox(engine=engine, read=[*CODE, *read], write=write, network=network)
    async with connect(sys.executable, str(SERVER), cwd=folder, sandbox=policy, **options) as client:
        yield client


async def outcome(client, name, /, **arguments):
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.text
    return result.text


def check(engine, found, allowed="done"):
    """The result is a refusal with an engine, and the real thing without one."""
    assert found == allowed if engine is None else found.startswith("refused"), found


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "outside" / "secret.txt"
    path.parent.mkdir()
    path.write_text("the secret")
    return path


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    (path / "data.txt").write_text("the data")
    return path


@pytest.fixture
def victim():
    """A process outside of the sandbox."""
    process = subprocess.Popen(["sleep", "600"], env={"A_SECRET": "of-another-process"})
    yield process
    process.kill()
    process.wait()


# Files


@with_and_without
def test_a_server_does_not_read_outside(engine, folder, secret):
    async def body():
        async with confined(engine, folder) as client:
            check(engine, await outcome(client, "read", path=str(secret)), "the secret")
            check(engine, await outcome(client, "in_a_child", tool="read", argument=str(secret)), "the secret")
            check(engine, await outcome(client, "read", path=f"/proc/self/root{secret}"), "the secret")
            check(engine, await outcome(client, "read", path=f"/proc/self/cwd/../outside/{secret.name}"), "the secret")

    run(body())


@with_and_without
def test_a_server_does_not_write_outside(engine, folder, secret):
    async def body():
        async with confined(engine, folder) as client:
            check(engine, await outcome(client, "write", path=str(secret.with_name("new"))))
            check(engine, await outcome(client, "write", path=str(secret)))
            check(engine, await outcome(client, "in_a_child", tool="write", argument=str(secret.with_name("newer"))))
            assert secret.read_text() == ("x" if engine is None else "the secret")
            assert len(list(secret.parent.iterdir())) == (3 if engine is None else 1)

    run(body())


@with_every_engine
def test_names_and_permissions_of_files_outside_are_hidden_by_bubblewrap_only(engine, folder, secret):
    """Landlock has no rule for them, as the page says."""
    secret.chmod(0o644)

    async def body():
        async with confined(engine, folder) as client:
            hides = "bubblewrap" if engine == "bubblewrap" else None
            check(hides, await outcome(client, "look", path=str(secret)), "10")
            check(hides, await outcome(client, "change_mode", path=str(secret)))
            assert secret.stat().st_mode & 0o777 == (0o600 if hides is None else 0o644)

    run(body())


@with_every_engine
def test_the_working_folder_is_readable_and_not_writable(engine, folder):
    async def body():
        async with confined(engine, folder) as client:
            assert await outcome(client, "read", path="data.txt") == "the data"
            check(engine, await outcome(client, "write", path="data.txt"))
            check(engine, await outcome(client, "write", path="new.txt"))

    run(body())


@with_every_engine
def test_a_server_reads_and_writes_what_its_policy_names(engine, folder, tmp_path, secret):
    writable = tmp_path / "writable"
    writable.mkdir()
    (writable / "file.txt").write_text("some")

    async def body():
        async with confined(engine, folder, read=[secret], write=[writable]) as client:
            assert await outcome(client, "read", path=str(secret)) == "the secret"
            check(engine, await outcome(client, "write", path=str(secret)))
            assert await outcome(client, "write", path=str(writable / "new.txt")) == "done"
            assert await outcome(client, "edit", path=str(writable / "file.txt")) == "done"
            assert [each.name for each in writable.iterdir()] == ["new.txt"]

    run(body())


@with_every_engine
def test_a_writable_path_in_a_readable_folder_is_writable(engine, folder):
    inner = folder / "inner"
    inner.mkdir()

    async def body():
        async with confined(engine, folder, write=["inner"]) as client:
            assert await outcome(client, "write", path="inner/new.txt") == "done"
            check(engine, await outcome(client, "write", path="new.txt"))

    run(body())


@with_and_without
def test_a_link_does_not_lead_outside(engine, folder, tmp_path, secret):
    (folder / "link").symlink_to(secret)
    writable = tmp_path / "writable"
    writable.mkdir()

    async def body():
        async with confined(engine, folder, write=[writable]) as client:
            check(engine, await outcome(client, "read", path="link"), "the secret")
            made = await outcome(client, "follow_link", link=str(writable / "link"), target=str(secret))
            check(engine, made, "the secret")

    run(body())


@with_every_engine
def test_a_policy_may_name_a_link(engine, folder, tmp_path, secret):
    link = tmp_path / "link"
    link.symlink_to(secret.parent)

    async def body():
        async with confined(engine, folder, read=[link]) as client:
            assert await outcome(client, "read", path=str(link / secret.name)) == "the secret"

    run(body())


@with_every_engine
def test_the_home_folder_is_hidden_even_if_the_server_starts_in_it(engine, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "key").write_text("the secret")

    async def body():
        async with confined(engine, home, env={"HOME": str(home)}) as client:
            check(engine, await outcome(client, "read", path=str(home / "key")))
            check(engine, await outcome(client, "read", path="key"))

    run(body())


@pytest.mark.parametrize("engine", [BUBBLEWRAP])
def test_home_and_temporary_folder_are_private_and_writable(engine, folder, tmp_path):
    home = tmp_path / "home"
    home.mkdir()

    async def body():
        async with confined(engine, folder, env={"HOME": str(home)}) as client:
            assert await outcome(client, "write", path=str(home / "cache")) == "done"
            assert await outcome(client, "write", path="/tmp/twopipes-private") == "done"
            check(engine, await outcome(client, "write", path="/twopipes"))

    run(body())
    assert not list(home.iterdir())
    assert not Path("/tmp/twopipes-private").exists()


@with_and_without
def test_shared_memory_is_private_with_bubblewrap_and_refused_by_landlock(engine, folder):
    path = Path(f"/dev/shm/twopipes-{os.getpid()}")

    async def body():
        async with confined(engine, folder) as client:
            check("landlock" if engine == "landlock" else None, await outcome(client, "write", path=str(path)))

    try:
        run(body())
        assert path.exists() is (engine is None)
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("engine", [LANDLOCK])
def test_home_and_temporary_folder_cannot_be_written_with_landlock(engine, folder, tmp_path):
    home = tmp_path / "home"
    home.mkdir()

    async def body():
        async with confined(engine, folder, env={"HOME": str(home)}) as client:
            check(engine, await outcome(client, "write", path=str(home / "cache")))
            check(engine, await outcome(client, "write", path=f"/tmp/twopipes-{os.getpid()}"))

    run(body())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@with_and_without
def test_root_loses_its_capabilities(engine, folder, secret):
    passwords = Path("/etc/shadow").read_text()

    async def body():
        async with confined(engine, folder) as client:
            if engine is not None:
                check(engine, await outcome(client, "mount", source=str(secret.parent), target=str(folder)))
            check(engine, await outcome(client, "read", path="/etc/shadow"), passwords)

    run(body())


# Network


@contextmanager
def listener(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as sock:
        sock.bind(address)
        if kind == socket.SOCK_STREAM:
            sock.listen()
        sock.settimeout(NET)
        yield sock


@with_and_without
def test_a_server_does_not_connect_without_the_network(engine, folder):
    async def body():
        with (
            listener(socket.AF_INET, ("127.0.0.1", 0)) as tcp,
            listener(socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM) as udp,
        ):
            async with confined(engine, folder) as client:
                where = {"family": "AF_INET", "address": str(tcp.getsockname()[1])}
                check(engine, await outcome(client, "connect", **where))
                packet = await outcome(client, "connect", family="AF_INET", address=str(udp.getsockname()[1]), kind="SOCK_DGRAM")
            # In a network of its own, a packet to a closed port is lost without an error.
            udp.setblocking(False)
            if engine is None:
                assert (packet, udp.recv(10)) == ("done", b"x")
            else:
                with pytest.raises(BlockingIOError):
                    udp.recv(10)

    run(body())


@with_every_engine
def test_a_server_connects_with_the_network(engine, folder):
    async def body():
        with listener(socket.AF_INET, LOCAL) as tcp:
            async with confined(engine, folder, network=True) as client:
                assert await outcome(client, "connect", family="AF_INET", address=str(tcp.getsockname()[1])) == "done"

    run(body())


@with_and_without
@pytest.mark.parametrize("network", [False, True])
def test_a_unix_socket_outside_is_out_of_reach(engine, folder, tmp_path, network):
    path, packets = str(tmp_path / "socket"), str(tmp_path / "packets")

    async def body():
        with listener(socket.AF_UNIX, path), listener(socket.AF_UNIX, packets, socket.SOCK_DGRAM):
            async with confined(engine, folder, network=network) as client:
                check(engine, await outcome(client, "connect", family="AF_UNIX", address=path))
                check(engine, await outcome(client, "connect_pair", path=packets))

    run(body())


@with_and_without
@pytest.mark.parametrize("network", [False, True])
def test_an_abstract_socket_is_out_of_reach(engine, folder, network):
    name = f"twopipes-{os.getpid()}"

    async def body():
        with listener(socket.AF_UNIX, f"\0{name}"):
            async with confined(engine, folder, network=network) as client:
                check(engine, await outcome(client, "connect", family="AF_UNIX", address=f"@{name}"))

    run(body())


@with_every_engine
def test_a_server_listens_for_itself_with_bubblewrap(engine, folder):
    async def body():
        async with confined(engine, folder) as client:
            check(None if engine == "bubblewrap" else engine, await outcome(client, "listen"))

    run(body())


@with_and_without
@pytest.mark.parametrize("network", [False, True])
def test_a_server_makes_unix_sockets_with_bubblewrap_and_no_network_only(engine, folder, tmp_path, network):
    writable = tmp_path / "writable"
    writable.mkdir()

    async def body():
        async with confined(engine, folder, write=[writable], network=network) as client:
            refuses = None if engine == "bubblewrap" and not network else engine
            check(refuses, await outcome(client, "listen_on_a_path", path=str(writable / "socket")))

    run(body())


# Other processes


@with_and_without
def test_a_server_does_not_kill_other_processes(engine, folder, victim):
    async def body():
        async with confined(engine, folder) as client:
            check(engine, await outcome(client, "kill", pid=victim.pid))
            if engine is not None:
                check(engine, await outcome(client, "in_a_child", tool="kill", argument=str(os.getpid())))
        if engine is None:
            assert await asyncio.to_thread(victim.wait, NET) == -signal.SIGKILL
        assert victim.poll() is None or engine is None

    run(body())


@with_and_without
def test_a_server_does_not_look_into_other_processes(engine, folder, secret, victim):
    async def body():
        async with confined(engine, folder) as client:
            inside = await outcome(client, "read", path=f"/proc/{victim.pid}/environ")
            check(engine, inside, "A_SECRET=of-another-process\0")
            check(engine, await outcome(client, "read", path=f"/proc/{victim.pid}/root{secret}"), "the secret")
            if engine is not None or MAY_TRACE:
                check(engine, await outcome(client, "trace", pid=victim.pid))

    run(body())


@with_every_engine
def test_a_server_sees_other_processes_with_landlock_only(engine, folder):
    async def body():
        async with confined(engine, folder) as client:
            pids = (await client.call_tool("pids")).structured["result"]
            assert pids == [1, 2] if engine == "bubblewrap" else os.getpid() in pids

    run(body())


# Nothing but the policy


@with_every_engine
def test_the_environment_is_the_same_as_without_a_sandbox(engine, folder):
    async def seen(engine):
        async with confined(engine, folder, env={"GIVEN": "yes"}) as client:
            return (await client.call_tool("environment")).structured

    async def body():
        inside, outside = await seen(engine), await seen(None)
        inside.pop("PWD", None)
        assert inside == outside

    run(body())


@with_every_engine
@pytest.mark.parametrize("network", [False, True])
def test_the_server_inherits_no_descriptor_of_the_engine(engine, folder, network):
    async def body():
        async with confined(engine, folder, network=network) as client:
            found = (await client.call_tool("descriptors")).structured["result"]
            assert not [each for each in found if "memfd" in each or str(folder.parent) in each]

    run(body())


# Supervision


@with_every_engine
@pytest.mark.parametrize(("code", "expected"), [(7, (7, None)), (-9, (None, 9)), (-11, (None, 11))])
def test_the_exit_status_is_that_of_the_server(engine, folder, code, expected):
    async def body():
        async with confined(engine, folder, restart=NEVER) as client:
            with pytest.raises(ServerExited) as caught:
                await client.call_tool("leave", {"code": code})
        assert (caught.value.exit.code, caught.value.exit.signal) == expected

    run(body())


@with_every_engine
def test_a_killed_server_is_restarted_in_its_sandbox(engine, folder, secret):
    async def body():
        async with confined(engine, folder, restart=RestartPolicy(when="always", first_delay=0)) as client:
            first = client.pid
            os.kill(first, signal.SIGKILL)
            while client.pid in {first, None}:
                await asyncio.sleep(0.01)
            check(engine, await outcome(client, "read", path=str(secret)))
            assert client.restarts == 1

    run(body())


@pytest.mark.parametrize("engine", [BUBBLEWRAP])
def test_a_process_that_left_the_group_ends_with_the_sandbox(engine, folder):
    async def body():
        async with confined(engine, folder) as client:
            monitor = client.pid
            await client.call_tool("leave_a_daemon")
            inside = descendants(monitor)
            assert len(inside) == 3  # process 1 of the sandbox, the server, and the daemon
        while any(map(is_running, [monitor, *inside])):
            await asyncio.sleep(0.01)

    run(body())


@pytest.mark.parametrize("engine", [pytest.param(None, id="none"), LANDLOCK])
def test_a_process_that_left_the_group_outlives_landlock_and_is_still_confined(engine, folder, tmp_path, secret):
    writable = tmp_path / "writable"
    writable.mkdir()
    pipe = writable / "result"
    os.mkfifo(pipe)
    result = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(result, True)

    async def body():
        async with confined(engine, folder, write=[writable]) as client:
            await client.call_tool("read_later", {"path": str(secret), "result": str(pipe)})
        while not (text := os.read(result, 1000)):  # until the process has opened it
            await asyncio.sleep(0.01)
        check(engine, text.decode().strip(), "the secret")

    try:
        run(body())
    finally:
        os.close(result)
