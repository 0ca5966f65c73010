"""Bundles and server.json, judged by the tools of others: Anthropic's `mcpb`, and the schema of the MCP registry in `skillsaw`."""

import json
import subprocess
import zipfile

import jsonschema
import pytest

from interop.harness import EXAMPLES, NET, missing, node, peer, python_of
from packing import RUNNING_PYTHON, RUNNING_SYSTEM
from twopipes._cli import main

pytestmark = pytest.mark.interop

PRINT_SCHEMA = """
from importlib import resources
print(resources.files("skillsaw.schemas.mcp_registry.v2025_12_11").joinpath("server.schema.json").read_text())
"""


@pytest.fixture(scope="module")
def mcpb():
    program = peer("npm") / "node_modules" / "@anthropic-ai" / "mcpb" / "dist" / "cli" / "cli.js"
    if not program.exists():
        missing("@anthropic-ai/mcpb is not installed")

    def run(*words):
        return subprocess.run(
            [node(), str(program), *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            timeout=NET,
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle with wheels of three systems, from the registry."""
    file = tmp_path_factory.mktemp("pack") / "files.mcpb"
    systems = [word for name in dict.fromkeys((RUNNING_SYSTEM, "macos-arm64", "win-amd64")) for word in ("--system", name)]
    words = ["pack", str(EXAMPLES / "files.py"), *systems, "--python", RUNNING_PYTHON, "--ask", "folder:directory", "-o", str(file)]
    assert main([*words, "--author", "Ada", "--", "${user_config.folder}"]) == 0
    return file


def test_the_official_tool_accepts_the_manifest(mcpb, bundle, tmp_path):
    done = mcpb("unpack", bundle, tmp_path / "unpacked")
    assert done.returncode == 0, done.stdout + done.stderr
    done = mcpb("validate", tmp_path / "unpacked" / "manifest.json")
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(bundle) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    unpacked = {path.relative_to(tmp_path / "unpacked").as_posix() for path in (tmp_path / "unpacked").rglob("*") if path.is_file()}
    assert unpacked == names


def test_the_official_tool_rejects_a_manifest_with_a_mistake(mcpb, bundle, tmp_path):
    with zipfile.ZipFile(bundle) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    manifest["server"]["type"] = "cobol"
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    assert mcpb("validate", tmp_path / "manifest.json").returncode != 0


def test_the_bundle_has_compiled_packages_of_each_system(bundle):
    version = RUNNING_PYTHON.replace(".", "")
    with zipfile.ZipFile(bundle) as archive:
        compiled = {name.split("/")[2] for name in archive.namelist() if name.endswith((".so", ".pyd"))}
    assert compiled == {f"cp{version}-{system}" for system in (RUNNING_SYSTEM, "macos-arm64", "win-amd64")}


@pytest.fixture(scope="module")
def registry_schema():
    done = subprocess.run(
        [python_of("linters"), "-c", PRINT_SCHEMA],
        capture_output=True,
        text=True,
        check=True,
        timeout=NET,
        stdin=subprocess.DEVNULL,
    )
    return json.loads(done.stdout)


def test_server_json_fits_the_schema_of_the_registry(registry_schema, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "sunny-days", "--owner", "ada"]) == 0
    project = tmp_path / "sunny-days" / "pyproject.toml"
    lines = [
        line.removeprefix("# ") if line.startswith(("# bundle-url", "# image")) else line
        for line in project.read_text().splitlines()
    ]
    project.write_text("\n".join([*lines, ""]))
    words = ["--system", RUNNING_SYSTEM, "--python", RUNNING_PYTHON, "-o", "x.mcpb", "--server-json"]
    assert main(["pack", "sunny-days", *words]) == 0
    described = json.loads((tmp_path / "server.json").read_text())
    assert described["$schema"] == registry_schema["$id"]
    validator = jsonschema.Draft7Validator(registry_schema)
    assert list(validator.iter_errors(described)) == []
    assert [package["registryType"] for package in described["packages"]] == ["pypi", "mcpb", "oci"]
    assert list(validator.iter_errors({**described, "name": "no slash"})) != []
    (tmp_path / "sunny-days" / "server.json").write_bytes((tmp_path / "server.json").read_bytes())
    skillsaw = subprocess.run(
        [python_of("linters"), "-m", "skillsaw", "lint", str(tmp_path / "sunny-days")],
        capture_output=True,
        text=True,
        check=False,
        timeout=NET,
        stdin=subprocess.DEVNULL,
    )
    assert skillsaw.returncode == 0, skillsaw.stdout + skillsaw.stderr
    assert "mcp-registry" in skillsaw.stdout  # it found the file
