"""`twopipes pack`: the server works from the unpacked folder alone."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from packing import CAN_PACK, FOR_THIS_PYTHON, only_these_wheels, wheel_of_installed
from processes.launching import NET
from twopipes._cli import main
from twopipes.blocking import connect

pytestmark = [
    pytest.mark.walkthrough,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not CAN_PACK, reason="wheels of installed packages fit another system"),
]

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVER = """
import sys
from twopipes import Server

server = Server("where", version="2.1.0", title="Where am I")


@server.tool
def origin() -> list[str]:
    '''The files of twopipes and msgspec, and the arguments.'''
    import msgspec, twopipes
    return [twopipes.__file__, msgspec.__file__, *sys.argv[1:]]


if __name__ == "__main__":
    print("a banner")
    server.run()
"""


@pytest.fixture
def packed(tmp_path, monkeypatch, capsys):
    """A function that packs a source and returns the unpacked folder."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    wheel_of_installed(shelf, "msgspec")
    only_these_wheels(monkeypatch, shelf)
    monkeypatch.chdir(tmp_path)

    def pack(*words, code=0):
        rest = list(words[words.index("--") :]) if "--" in words else []
        before = words[: len(words) - len(rest)]
        assert main(["pack", *map(str, before), *FOR_THIS_PYTHON, "-o", "x.mcpb", *rest]) == code
        if code:
            return capsys.readouterr().err
        with zipfile.ZipFile("x.mcpb") as archive:
            archive.extractall("unpacked")
        return tmp_path / "unpacked"

    return pack


def client_of(folder, *arguments):
    # -I ignores the environment and the user's packages, and -S those that are installed: only the bundle is left.
    return connect(sys.executable, "-I", "-S", str(folder / "server" / "main.py"), *arguments)


def test_a_file_from_the_unpacked_folder_alone(packed, tmp_path):
    (tmp_path / "where.py").write_text(SERVER)
    folder = packed("where.py")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["name"], manifest["version"], manifest["display_name"]) == ("where", "2.1.0", "Where am I")
    assert [tool["name"] for tool in manifest["tools"]] == ["origin"]
    with client_of(folder, "one", "two") as client:
        ours, msgspec, *arguments = client.call_tool("origin").structured["result"]
    assert Path(ours).is_relative_to(folder / "server" / "lib")
    assert Path(msgspec).is_relative_to(folder / "server" / "native")
    assert arguments == ["one", "two"]


def test_the_files_example(packed, tmp_path):
    folder = packed(EXAMPLES / "files.py", "--ask", "folder:directory", "--", "${user_config.folder}")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["server"]["mcp_config"]["args"] == ["-s", "${__dirname}/server/main.py", "${user_config.folder}"]
    assert manifest["user_config"]["folder"]["type"] == "directory"
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "hello.txt").write_text("hello")
    with client_of(folder, str(tmp_path / "shown")) as client:
        assert client.call_tool("find", {"name": "hello"}).structured == {"result": ["hello.txt"]}


def test_a_new_project(packed, tmp_path):
    assert main(["new", "sunny-days", "--owner", "ada"]) == 0
    folder = packed("sunny-days", "--server-json", "server.json")
    with client_of(folder) as client:
        assert client.call_tool("add", {"a": 2, "b": 3}).structured == {"result": 5}
        assert client.read_resource("greeting://Ada").text == "Hello, Ada!"
    described = json.loads((tmp_path / "server.json").read_text())
    assert (described["name"], described["version"]) == ("io.github.ada/sunny-days", "0.1.0")
    assert [package["registryType"] for package in described["packages"]] == ["pypi"]


def test_packing_twice_gives_the_same_bytes(packed, tmp_path):
    (tmp_path / "where.py").write_text(SERVER)
    packed("where.py")
    first = (tmp_path / "x.mcpb").read_bytes()
    packed("where.py")
    assert (tmp_path / "x.mcpb").read_bytes() == first


def test_a_server_that_does_not_start_is_not_packed(packed, tmp_path):
    (tmp_path / "broken.py").write_text("import nothing_like_it\n")
    error = packed("broken.py", code=2)
    assert error.startswith("Error: the packed server does not work: ")
    assert "nothing_like_it" in error
    assert not (tmp_path / "x.mcpb").exists()
    packed("broken.py", "--no-start", "--version", "1.0.0")


def test_a_package_that_is_only_installed_here_is_missed(packed, tmp_path):
    (tmp_path / "needs.py").write_text("import pytest\n" + SERVER)
    error = packed("needs.py", code=2)
    assert error.startswith("Error: the packed server does not work: ")
    assert "No module named 'pytest'" in error
    assert not (tmp_path / "x.mcpb").exists()


def test_a_program_that_the_server_starts_finds_the_same_packages(packed, tmp_path):
    program = "import subprocess, sys\nfrom twopipes import Server\nserver = Server('x', version='1')\n"
    program += "@server.tool\ndef child() -> str:\n"
    program += "    code = 'import msgspec; print(msgspec.__file__)'\n"
    program += "    return subprocess.run([sys.executable, '-S', '-c', code], capture_output=True, text=True, check=True).stdout\n"
    (tmp_path / "x.py").write_text(program)
    folder = packed("x.py")
    with client_of(folder) as client:
        assert "native" in client.call_tool("child").text


def test_the_links_of_a_project(packed, tmp_path, capsys):
    assert main(["new", "sunny-days"]) == 0
    capsys.readouterr()
    assert main(["pack", "sunny-days", "--links"]) == 0
    shown = capsys.readouterr().out
    assert shown.strip() in (tmp_path / "sunny-days" / "README.md").read_text()
    assert "](https://cursor.com/en/install-mcp?name=sunny-days&config=" in shown


def test_another_python_says_what_is_missing(packed, tmp_path):
    (tmp_path / "where.py").write_text(SERVER)
    folder = packed("where.py")
    text = (folder / "server" / "main.py").read_text()
    (folder / "server" / "main.py").write_text(text.replace("cp3", "cp2"))
    done = subprocess.run(
        [sys.executable, folder / "server" / "main.py"], stdin=subprocess.DEVNULL, capture_output=True, timeout=NET, check=False
    )
    assert done.returncode == 1
    assert b"this bundle has no packages for" in done.stderr
