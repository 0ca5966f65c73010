"""`twopipes dev`: what it serves and watches, and mistakes on its command line."""

import os
import sys

import pytest

from twopipes._cli import dev, main


@pytest.fixture
def served(monkeypatch, tmp_path):
    """Record what would be served."""
    found = []

    def serve(command, options, *, http):
        found.append((command, options, http))
        return 0

    monkeypatch.setattr(dev, "serve", serve)
    monkeypatch.setenv("TWOPIPES_DEBUG", "0")
    monkeypatch.delenv("TWOPIPES_DEBUG")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "server.py").touch()
    (tmp_path / "settings.json").touch()
    return found


def test_the_folder_of_the_file_is_watched_and_no_manifest_is_stored(served, tmp_path):
    pytest.importorskip("watchfiles")
    assert main(["dev", "project/server.py:app", "--watch", "settings.json", "--", "-x", "1"]) == 0
    ((command, options, http),) = served
    assert command == [sys.executable, "-m", "twopipes", "run", "project/server.py:app", "--", "-x", "1"]
    assert options.watch == (str(tmp_path / "project"), str(tmp_path / "settings.json"))
    assert not options.has_manifest
    assert http is None
    assert os.environ["TWOPIPES_DEBUG"] == "1"


def test_for_a_module_the_current_folder_is_watched(served, tmp_path, monkeypatch):
    pytest.importorskip("watchfiles")
    monkeypatch.setenv("TWOPIPES_DEBUG", "0")
    assert main(["dev", "package.server", "--http", "8000"]) == 0
    ((command, options, http),) = served
    assert command[-1] == "package.server"
    assert options.watch == (str(tmp_path),)
    assert http == "8000"
    assert os.environ["TWOPIPES_DEBUG"] == "0"  # the author's own choice


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no file given. usage: twopipes dev FILE"),
        (["a.py", "b.py"], "unknown argument b.py"),
        (["nosuch.py"], "file nosuch.py does not exist"),
        (["folder/nosuch"], "file folder/nosuch does not exist"),
        (["project/server.py", "--watch", "nosuch"], "--watch: 'nosuch' cannot be watched, because it does not exist"),
        (["project/server.py", "--http", "8000", "--trace", "x"], "--trace does not record HTTP"),
    ],
)
def test_usage_errors(words, said, served, capsys):
    assert main(["dev", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, served) == ("", [])
    assert said in err
