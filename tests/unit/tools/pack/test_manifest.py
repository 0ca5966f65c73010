"""The manifest of a bundle, server.json, and links that add a server to an editor."""

import base64
import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec import convert, structs

from twopipes._tools.pack.links import cursor_link, entry_of, markdown, vscode_link
from twopipes._tools.pack.manifest import Learned, manifest_of
from twopipes._tools.pack.registry import server_json
from twopipes._tools.pack.source import PackSettings, PackSource
from twopipes._tools.pack.wheels import builds
from twopipes._tools.usage import UsageError

LEARNED = Learned(version="9.9", title="Sunny", tools=[("today", "The weather of today."), ("raw", None)], has_prompts=True)
BUILDS = builds(["3.12", "3.11"], ["linux-gnu-x86_64", "win-amd64"])
SHA = "0" * 64


def source(**settings):
    return PackSource(
        folder=Path("/nowhere"),
        name="sunny",
        version="1.0.0",
        description="The weather.",
        author={"name": "Ada"},
        module="sunny.server",
        function="main",
        files={},
        requirements=(),
        settings=convert(settings, PackSettings),
    )


def in_project(folder, settings, urls=None):
    return structs.replace(source(**settings), folder=folder, project={"name": "sunny", "urls": urls or {}})


def test_a_manifest():
    assert manifest_of(source(), BUILDS, LEARNED) == {
        "manifest_version": "0.4",
        "name": "sunny",
        "display_name": "Sunny",
        "version": "1.0.0",
        "description": "The weather.",
        "author": {"name": "Ada"},
        "server": {
            "type": "python",
            "entry_point": "server/main.py",
            "mcp_config": {
                "command": "python3",
                "args": ["-s", "${__dirname}/server/main.py"],
                "env": {},
                "platform_overrides": {"win32": {"command": "python"}},
            },
        },
        "tools": [{"name": "today", "description": "The weather of today."}, {"name": "raw"}],
        "prompts_generated": True,
        "compatibility": {"platforms": ["linux", "win32"], "runtimes": {"python": ">=3.11"}},
    }


def test_the_oldest_python_is_chosen_by_number():
    assert manifest_of(source(), builds(["3.14", "3.9"], ["win-amd64"]), LEARNED)["compatibility"]["runtimes"] == {
        "python": ">=3.9"
    }


def test_a_version_comes_from_the_server_if_the_source_has_none():
    unversioned = structs.replace(source(), version=None)
    assert manifest_of(unversioned, BUILDS, LEARNED)["version"] == "9.9"
    with pytest.raises(UsageError, match=r"must be like 1\.0\.0, not None; give it with --version"):
        manifest_of(unversioned, BUILDS, None)


def test_what_the_user_is_asked():
    option = {"type": "string", "title": "Token", "description": "Your token", "sensitive": True, "required": True}
    given = {"user-config": {"token": option}, "env": {"TOKEN": "${user_config.token}"}, "arguments": ["--x"]}
    manifest = manifest_of(source(**given), BUILDS, None)
    assert manifest["user_config"] == {"token": option}
    assert manifest["server"]["mcp_config"]["env"] == {"TOKEN": "${user_config.token}"}
    assert manifest["server"]["mcp_config"]["args"][-1] == "--x"
    assert manifest["tools_generated"]
    with pytest.raises(UsageError, match=r"uses the option tokn, which is not declared; add --ask tokn:string"):
        manifest_of(source(**{**given, "env": {"TOKEN": "${user_config.tokn}"}}), BUILDS, None)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "README.md").write_text("# sunny\n<!-- mcp-name: io.github.ada/sunny -->\n")
    (tmp_path / "Dockerfile").write_text('LABEL io.modelcontextprotocol.server.name="io.github.ada/sunny"\n')
    return tmp_path


SETTINGS = {
    "registry-name": "io.github.ada/sunny",
    "bundle-url": "https://github.com/ada/sunny/releases/download/v{version}/sunny.mcpb",
    "image": "ghcr.io/ada/sunny:{version}",
    "env": {"TOKEN": "${user_config.token}", "MODE": "fast"},
    "user-config": {"token": {"type": "string", "title": "T", "description": "Your token", "sensitive": True, "required": True}},
}


def test_server_json(project):
    packed = in_project(project, SETTINGS, {"Source": "https://github.com/ada/sunny", "Homepage": "https://example.com"})
    found = server_json(packed, manifest_of(packed, BUILDS, LEARNED), SHA)
    variables = [{"name": "TOKEN", "description": "Your token", "isRequired": True, "isSecret": True}]
    rest = {"transport": {"type": "stdio"}, "environmentVariables": variables}
    assert found == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.ada/sunny",
        "title": "Sunny",
        "description": "The weather.",
        "version": "1.0.0",
        "websiteUrl": "https://example.com",
        "repository": {"url": "https://github.com/ada/sunny", "source": "github"},
        "packages": [
            {"registryType": "pypi", "identifier": "sunny", "version": "1.0.0", "runtimeHint": "uvx", **rest},
            {
                "registryType": "mcpb",
                "identifier": "https://github.com/ada/sunny/releases/download/v1.0.0/sunny.mcpb",
                "fileSha256": SHA,
                **rest,
            },
            {"registryType": "oci", "identifier": "ghcr.io/ada/sunny:1.0.0", **rest},
        ],
    }


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (None, "is not known; set registry-name"),
        ("io.github.OWNER/sunny", "is not known; set registry-name"),
        ("sunny", "is not a name for the registry"),
        ("io.github.bob/sunny", r"README.md does not contain .*; add the line <!-- mcp-name: io.github.bob/sunny -->"),
        ("io.github.ada/sun", r"README.md does not contain"),
    ],
)
def test_the_name_in_the_registry_must_be_the_same_everywhere(name, said, project):
    packed = in_project(project, {**SETTINGS, "registry-name": name})
    with pytest.raises(UsageError, match=said):
        server_json(packed, manifest_of(packed, BUILDS, LEARNED), SHA)


def test_the_label_of_the_image_is_checked(project):
    (project / "Dockerfile").write_text("FROM scratch\n")
    packed = in_project(project, SETTINGS)
    with pytest.raises(UsageError, match=r'add the line LABEL io.modelcontextprotocol.server.name="io.github.ada/sunny"'):
        server_json(packed, manifest_of(packed, BUILDS, LEARNED), SHA)


def test_a_file_needs_the_address_of_its_bundle():
    packed = source(**{"registry-name": "io.github.ada/sunny"})
    with pytest.raises(UsageError, match="give the address of the bundle with --bundle-url"):
        server_json(packed, manifest_of(packed, BUILDS, LEARNED), SHA)


def test_a_long_description_is_shortened(project):
    packed = structs.replace(in_project(project, SETTINGS), description="x" * 200)
    found = server_json(packed, manifest_of(packed, BUILDS, LEARNED), SHA)["description"]
    assert (len(found), found[-4:]) == (100, "x...")


def test_links_carry_the_entry():
    entry = entry_of(["uvx", "sunny-days", "--city", "São Paulo & more"], {"TOKEN": "x"})
    cursor, vscode = cursor_link("sunny days", entry), vscode_link("sunny days", entry)
    query = parse_qs(urlsplit(cursor).query)
    assert query["name"] == ["sunny days"]
    assert json.loads(base64.b64decode(query["config"][0])) == entry
    query = parse_qs(urlsplit(vscode).query)
    assert query["name"] == ["sunny days"]
    assert json.loads(query["config"][0]) == {"type": "stdio", **entry}
    assert " " not in cursor + vscode
    assert markdown("sunny days", entry).count("\n") == 1
