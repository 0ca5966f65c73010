"""What `twopipes pack` reads from a project or a file."""

import pytest

from twopipes._tools.pack.source import included, read_source
from twopipes._tools.usage import UsageError

PROJECT = """
[project]
name = "sunny-days"
version = "1.2.3"
description = "The weather."
authors = [{ name = "Ada", email = "ada@example.com" }]
dependencies = ["twopipes>=0.1", "httpx"]
[project.scripts]
sunny-days = "sunny_days.server:main"
"""


@pytest.fixture
def project(tmp_path):
    package = tmp_path / "src" / "sunny_days"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__pycache__" / "server.cpython-311.pyc").write_text("")
    (package / ".secret").write_text("")
    (package / "data").mkdir()
    (package / "data" / "cities.json").write_text("[]")
    (package / "__init__.py").write_text("")
    (package / "server.py").write_text("def main(): ...")

    def write(text):
        (tmp_path / "pyproject.toml").write_text(text)
        return tmp_path

    return write


def test_a_project(project):
    source = read_source(project(PROJECT))
    assert (source.name, source.version, source.description) == ("sunny-days", "1.2.3", "The weather.")
    assert source.author == {"name": "Ada", "email": "ada@example.com"}
    assert (source.module, source.function) == ("sunny_days.server", "main")
    assert list(source.files) == ["sunny_days/__init__.py", "sunny_days/data/cities.json", "sunny_days/server.py"]
    assert source.requirements == ("twopipes>=0.1", "httpx")
    assert source.is_project


def test_a_file(tmp_path):
    file = tmp_path / "weather.py"
    file.write_text('from twopipes import Server\nserver = Server("sunny", version="1")\n')
    source = read_source(file)
    assert (source.name, source.version, source.module, source.function) == ("sunny", None, "weather.py", None)
    assert source.files == {"weather.py": file}
    assert not source.is_project


def test_a_package_beside_its_pyproject(project):
    folder = project(PROJECT)
    (folder / "src" / "sunny_days").rename(folder / "sunny_days")
    assert "sunny_days/server.py" in read_source(folder).files


def test_the_settings_of_a_project(project):
    text = '[tool.twopipes.pack]\nentry = "sunny_days.server:other"\narguments = ["--fast"]\nrequirements = ["colorama"]\n'
    source = read_source(project(PROJECT + text))
    assert (source.function, source.settings.arguments) == ("other", ["--fast"])
    assert source.requirements == ("twopipes>=0.1", "httpx", "colorama")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[project", "cannot be read"),
        ("[tool.x]", r"has no \[project\] with a name"),
        (PROJECT.replace("sunny_days.server:main", "sunny_days.server"), "is not module:function"),
        (PROJECT.replace("sunny_days.server:main", "sunny_days.server:os.system('x')"), "is not module:function"),
        (PROJECT + 'b = "x:y"\n' + "c = 'x:y'\n", None),  # the script with the name of the project
        (PROJECT.replace('sunny-days = "', 'a = "b:c"\nb = "'), "has 2 scripts; name the one that starts the server"),
        (PROJECT.replace("sunny_days.", "rainy_days."), "the package rainy_days is neither in"),
        (PROJECT + "[tool.twopipes.pack]\nicons = 'x'", "unknown field `icons`"),
        (
            PROJECT + "[tool.twopipes.pack.user-config]\nx = {type = 'text', title = '', description = ''}",
            "Invalid enum value 'text'",
        ),
    ],
)
def test_mistakes_in_a_project(text, said, project):
    folder = project(text)
    if said is None:
        read_source(folder)
        return
    with pytest.raises(UsageError, match=said):
        read_source(folder)


def test_what_cannot_be_packed(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    for path, said in [
        ("notes.txt", "is not a Python file"),
        ("missing.py", "does not exist"),
        (".", "pyproject.toml does not exist"),
    ]:
        with pytest.raises(UsageError, match=said):
            read_source(tmp_path / path)


def test_files_to_include_stay_in_the_folder(project, tmp_path):
    source = read_source(project(PROJECT))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "help.md").write_text("")
    (tmp_path / "one.txt").write_text("")
    assert list(included(source, ["docs", "one.txt"])) == ["docs/help.md", "one.txt"]
    with pytest.raises(UsageError, match=r"\.\./x does not exist"):
        included(source, ["../x"])
    with pytest.raises(UsageError, match=r"\.\. is outside .*; copy it there"):
        included(source, [".."])
