"""The commands on Windows: what they write when their output goes to a program or a file."""

import subprocess
import sys

import pytest

NET = 60
TEXT = "Größe \N{SPARKLES}"
SERVER = """
    from twopipes import Server

    server = Server("plain", version="1")

    @server.tool
    def echo(text: str) -> str:
        return text

    if __name__ == "__main__":
        server.run()
"""
WORKERS = SERVER.replace("server.run()", 'server.run(http="127.0.0.1:0", workers=2)')


def twopipes(*words, **options):
    command = [sys.executable, "-m", "twopipes", *map(str, words)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=NET, check=False, **options)


def test_output_is_utf_8_with_the_line_ends_of_other_systems(write):
    done = twopipes("call", "echo", f"text={TEXT}\nsecond line", "--", sys.executable, write(SERVER))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == f"{TEXT}\nsecond line\n".encode()


def test_an_error_has_them_too():
    done = twopipes("list", "--", f"./{TEXT}.exe")
    assert done.returncode == 3
    assert TEXT.encode() in done.stderr
    assert b"\r" not in done.stderr


@pytest.mark.parametrize("how", ["python", "twopipes run"])
def test_workers_are_refused_before_anything_listens(how, write):
    if how == "python":
        done = subprocess.run([sys.executable, write(WORKERS)], capture_output=True, timeout=NET, check=False)
    else:
        done = twopipes("run", write(SERVER), "--http", "0", "--workers", "2")
    assert done.returncode != 0
    assert b"workers= needs a system that can share a socket; on Windows start one process per port" in done.stderr
    assert b"listens on" not in done.stderr
