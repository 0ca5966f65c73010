"""Which files a program needs: links, interpreters and installations, but never the home folder."""

import sys

import pytest

from twopipes._process.sandbox.program import files_of_program

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="made of POSIX links and scripts")


@pytest.fixture
def home(tmp_path):
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def make():
    """Write an executable file."""

    def make(path, text="binary"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    return make


def needs(executable, home, path=""):
    files, links, missing = files_of_program(str(executable), {"PATH": str(path)}, str(home), home=str(home))
    assert not missing
    return set(files), links


def test_a_program_alone_is_one_file(make, home):
    program = make(home / "Downloads" / "server")
    assert needs(program, home) == ({str(program)}, {})


def test_an_interpreter_brings_its_installation(make, home):
    program = make(home / "versions" / "node" / "bin" / "node")
    (home / "versions" / "node" / "lib" / "node_modules").mkdir(parents=True)
    assert needs(program, home) == ({str(program), str(home / "versions" / "node")}, {})


@pytest.mark.parametrize("prefix", [".cargo", ".local", ""])
def test_personal_folders_are_not_installations(make, home, prefix):
    """A program in ~/bin, ~/.local/bin or ~/.cargo/bin shows neither the home folder nor what is beside the programs."""
    program = make(home / prefix / "bin" / "server")
    (home / ".local" / "lib" / "python3.11").mkdir(parents=True)
    (home / ".local" / "share").mkdir()
    expected = {str(program)} | ({str(home / ".local" / "lib")} if prefix == ".local" else set())
    assert needs(program, home) == (expected, {})


def test_a_link_leads_to_the_program(make, home):
    program = make(home / "tools" / "x" / "server")
    link = home / ".local" / "bin" / "server"
    link.parent.mkdir(parents=True)
    link.symlink_to("../../tools/x/server")
    assert needs(link, home) == ({str(program)}, {str(link): "../../tools/x/server"})


def test_a_circle_of_links_ends(home):
    (home / "a").symlink_to("b")
    (home / "b").symlink_to("a")
    assert needs(home / "a", home) == (set(), {str(home / "a"): "b", str(home / "b"): "a"})


def test_a_script_brings_its_interpreter(make, home):
    interpreter = make(home / "opt" / "interpreter")
    script = make(home / "server", f"#!{interpreter} -x\n")
    assert needs(script, home) == ({str(script), str(interpreter)}, {})


@pytest.mark.parametrize("line", ["#!/usr/bin/env runner", "#!/usr/bin/env -S A=1 runner --flag"])
def test_an_interpreter_is_looked_up_in_the_path_of_the_child(make, home, line):
    runner = make(home / "elsewhere" / "runner")
    script = make(home / "server", f"{line}\n")
    assert {str(script), str(runner)} <= needs(script, home, path=runner.parent)[0]


def test_a_package_of_node_brings_the_folder_of_all_packages(make, home):
    program = make(home / "_npx" / "1" / "node_modules" / "server" / "node_modules" / "inner" / "index.js")
    assert needs(program, home) == ({str(program), str(home / "_npx" / "1" / "node_modules")}, {})


def test_an_environment_with_copies_brings_the_python_it_was_made_from(make, home):
    base = make(home / "pythons" / "3.12" / "bin" / "python3")
    (home / "pythons" / "3.12" / "lib" / "python3.12").mkdir(parents=True)
    program = make(home / "venv" / "bin" / "python")
    (home / "venv" / "pyvenv.cfg").write_text(f"home = {base.parent}\nversion = 3.12\n")
    assert needs(program, home)[0] == {str(program), str(home / "venv"), str(base), str(home / "pythons" / "3.12")}
