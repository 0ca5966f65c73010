"""A server whose tools try things that a policy may forbid. Each returns what came of it."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress

from twopipes import Server

server = Server("curious")
DONE = "done"


def attempt(action):
    try:
        found = action()
    except OSError as error:
        return f"refused: {type(error).__name__}"
    return DONE if found is None else str(found)


@server.tool
def read(path: str) -> str:
    """Read a file."""
    return attempt(lambda: open(path).read())


@server.tool
def write(path: str) -> str:
    """Write a file."""
    return attempt(lambda: open(path, "w").write("x") and None)


@server.tool
def edit(path: str) -> str:
    """Change a file, then move it, then remove it."""

    def act():
        with open(path, "a") as file:
            file.write("more")
        os.rename(path, f"{path}.new")
        os.remove(f"{path}.new")

    return attempt(act)


@server.tool
def look(path: str) -> str:
    """Find out how large a file is."""
    return attempt(lambda: os.stat(path).st_size)


@server.tool
def change_mode(path: str) -> str:
    """Change the permissions of a file."""
    return attempt(lambda: os.chmod(path, 0o600))


@server.tool
def follow_link(link: str, target: str) -> str:
    """Make a link to a file, and read the file through it."""
    os.symlink(target, link)
    return attempt(lambda: open(link).read())


@server.tool
def connect(family: str, address: str, kind: str = "SOCK_STREAM") -> str:
    """Connect a socket."""

    def act():
        where = ("127.0.0.1", int(address)) if family == "AF_INET" else address.replace("@", "\0", 1)
        with socket.socket(getattr(socket, family), getattr(socket, kind)) as sock:
            sock.settimeout(10)
            sock.connect(where)
            sock.send(b"x")

    return attempt(act)


@server.tool
def listen() -> str:
    """Listen on a port, and connect to it."""

    def act():
        with socket.create_server(("127.0.0.1", 0)) as listener:
            socket.create_connection(listener.getsockname(), timeout=10).close()

    return attempt(act)


@server.tool
def connect_pair(path: str) -> str:
    """Turn one end of a connected pair of sockets to another address."""

    def act():
        first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with first, second:
            first.sendto(b"x", path)

    return attempt(act)


@server.tool
def listen_on_a_path(path: str) -> str:
    """Listen on a Unix socket, and connect to it."""

    def act():
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
            listener.bind(path)
            listener.listen()
            client.connect(path)

    return attempt(act)


@server.tool
def in_a_child(tool: str, argument: str) -> str:
    """Run another tool in a process of its own, in its own session."""
    words = [sys.executable, __file__, tool, argument]
    done = subprocess.run(words, capture_output=True, text=True, start_new_session=True, stdin=subprocess.DEVNULL, check=False)
    return done.stdout.strip() or done.stderr


@server.tool
def kill(pid: int) -> str:
    """Kill a process."""
    return attempt(lambda: os.kill(int(pid), signal.SIGKILL))


@server.tool
def trace(pid: int) -> str:
    """Attach to a process, as a debugger does."""
    libc = ctypes.CDLL(None, use_errno=True)

    def act():
        if libc.ptrace(16, pid, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    return attempt(act)


@server.tool
def mount(source: str, target: str) -> str:
    """Mount a folder elsewhere."""
    libc = ctypes.CDLL(None, use_errno=True)

    def act():
        if libc.mount(source.encode(), target.encode(), None, 4096, None) != 0:
            raise OSError(ctypes.get_errno(), "mount")

    return attempt(act)


@server.tool
def leave_a_daemon() -> int:
    """Start a process that leaves the group of the server, and return its id as this server sees it."""
    words = [sys.executable, "-c", "import signal; signal.pause()"]
    return subprocess.Popen(words, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid


_LATER = """
import os, sys
sys.stdin.read()  # ends with the server
words = [sys.executable, sys.argv[1], "read", sys.argv[2]]
output = os.open(sys.argv[3], os.O_WRONLY)
os.dup2(output, 1)
os.execv(words[0], words)
"""


@server.tool
def read_later(path: str, result: str) -> None:
    """Start a process that leaves the group of the server, waits for the end of the server, and then reads a file."""
    words = [sys.executable, "-c", _LATER, __file__, path, result]
    subprocess.Popen(words, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)


@server.tool
def pids() -> list[int]:
    """List the processes that are visible."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


@server.tool
def environment() -> dict[str, str]:
    """Return the environment."""
    return dict(os.environ)


@server.tool
def descriptors() -> list[str]:
    """Return what the open descriptors refer to, beyond the standard streams."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that listed them is closed
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return found


@server.tool
def leave(code: int) -> None:
    """Exit at once; with a negative code, by that signal."""
    if code >= 0:
        os._exit(code)
    os.kill(os.getpid(), -code)
    signal.pause()


if __name__ == "__main__":
    if sys.argv[1:]:
        print(globals()[sys.argv[1]](sys.argv[2]))  # noqa: T201
    else:
        server.run()
