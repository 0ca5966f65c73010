"""The hosts: where each keeps its servers on which system, in which language and under which keys, and what an entry says.

One row a host. The comment above a row names the document that its facts stand in, as of November 2026. Hosts move their files now
and then: ``--config FILE`` is the way out for those who have to wait for a new row.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Literal, NamedTuple

from twopipes._tools.install.expansion import BRACES, DOLLAR, DOLLAR_TWICE, DOLLAR_WITHOUT_DEFAULT, EDITOR, OPENCODE, Expansion
from twopipes._tools.install.formats import Language

__all__ = ["HOSTS", "Host", "HostEntry", "Machine", "Scope", "entry_of"]

Scope = Literal["user", "project"]


class Machine(NamedTuple):
    """What the places of files depend on."""

    platform: str
    home: str
    environment: Mapping[str, str]

    @classmethod
    def this(cls) -> Machine:
        """The one we run on."""
        return cls(sys.platform, str(Path.home()), os.environ)

    def expanded(self, path: str) -> PurePath:
        """A path of the table, with its words in braces replaced.

        ``{home}`` is the user's folder, ``{data}`` where programs of this system keep their data, ``{config}`` where those keep
        their settings that follow the XDG rules on every system, and ``{A|b}`` the variable A, or b where that is not set.
        """
        home = self.home
        windows = self.environment.get("APPDATA") or f"{home}/AppData/Roaming"
        xdg = self.environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
        data = {"darwin": f"{home}/Library/Application Support", "win32": windows}.get(self.platform, xdg)
        if path.startswith("{") and "|" in path:
            variable, _, rest = path[1:].partition("|")
            default, _, rest = rest.partition("}")
            path = (self.environment.get(variable) or f"{{home}}/{default}") + rest
        path = path.replace("{data}", data).replace("{config}", xdg).replace("{home}", home)
        return PureWindowsPath(path) if self.platform == "win32" else PurePosixPath(path)


class HostEntry(NamedTuple):
    """What is to be said of a server, in nobody's words yet."""

    name: str
    command: list[str]
    values: dict[str, str]  # variables with their values
    passed: list[str]  # variables that the host is to pass on from its own environment


class Host(NamedTuple):
    """One row.

    Attributes:
        title: What people call it.
        user: Where the user's own servers stand: by platform, or under "" for all others.
        project: Where those of a project stand, seen from its folder; ``None`` where it has no such file.
        place: The keys that lead to the servers.
        says: An entry in its words.
        reference: How a value names a variable of the host's environment; ``None`` where it cannot.
        then: What the user has to do when the file is written.
        approval: What else has to be done before a server from the file of a project is used.
        expands: What it replaces in commands and values; ``None`` for nothing.
        language: What the file is written in.
        others: Names of files beside the first, which are used if they are there.
        fresh: What a new file begins with.
        passes_on: Whether an entry can list variables of the host's environment by their names.
        note: What is worth knowing about the user's file.
    """

    title: str
    user: Mapping[str, str]
    project: str | None
    place: tuple[str, ...]
    says: Callable[[HostEntry], dict[str, Any]]
    then: str
    approval: str = ""
    expands: Expansion | None = None
    reference: str | None = None
    language: Language = "JSON"
    others: tuple[str, ...] = ()
    fresh: Mapping[str, Any] | None = None
    passes_on: bool = False
    note: str = ""

    def file(self, scope: Scope, machine: Machine) -> PurePath | None:
        """Where its servers stand; ``None`` where it has no such scope, or does not run on this system."""
        path = self.project if scope == "project" else self.user.get(machine.platform, self.user.get(""))
        return None if path is None else machine.expanded(path)


def entry_of(host: Host, entry: HostEntry) -> dict[str, Any]:
    """What the host's file has to say of a server."""
    if host.reference is not None:
        references = {name: host.reference.format(name) for name in entry.passed}
        entry = entry._replace(values=entry.values | references, passed=[])
    return host.says(entry)


def _plain(entry: HostEntry) -> dict[str, Any]:
    """What most hosts agree on."""
    said: dict[str, Any] = {"command": entry.command[0], "args": entry.command[1:]}
    return said | ({"env": entry.values} if entry.values else {})


def _typed(entry: HostEntry) -> dict[str, Any]:
    return {"type": "stdio"} | _plain(entry)


def _copilot(entry: HostEntry) -> dict[str, Any]:
    return _typed(entry) | {"tools": ["*"]}


def _droid(entry: HostEntry) -> dict[str, Any]:
    return _typed(entry) | {"disabled": False}


def _zed(entry: HostEntry) -> dict[str, Any]:
    return {"source": "custom"} | _plain(entry)


def _opencode(entry: HostEntry) -> dict[str, Any]:
    said = {"type": "local", "command": entry.command, "enabled": True}
    return said | ({"environment": entry.values} if entry.values else {})


def _opencode_2(entry: HostEntry) -> dict[str, Any]:
    said = {"type": "local", "command": entry.command}
    return said | ({"environment": entry.values} if entry.values else {})


def _codex(entry: HostEntry) -> dict[str, Any]:
    return _plain(entry) | ({"env_vars": entry.passed} if entry.passed else {})


def _goose(entry: HostEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "type": "stdio",
        "enabled": True,
        "cmd": entry.command[0],
        "args": entry.command[1:],
        "envs": entry.values,
        "env_keys": entry.passed,
        "timeout": 300,
    }


_EVERYWHERE = ""
_SERVERS = ("mcpServers",)

HOSTS: dict[str, Host] = {
    # Claude Code documentation, "Connect Claude Code to tools via MCP": scopes, and ${VAR} in values. That the user's servers are
    # the top-level mcpServers of .claude.json, and that CLAUDE_CONFIG_DIR moves it: anthropics/claude-code, issues 4193 and 48448.
    # That $VAR is left alone, and ${VAR:-default} is expanded once: version 2.1, as installed.
    "claude-code": Host(
        title="Claude Code",
        user={_EVERYWHERE: "{CLAUDE_CONFIG_DIR|.}/.claude.json"},
        project=".mcp.json",
        place=_SERVERS,
        says=_typed,
        reference="${{{}}}",
        expands=BRACES,
        then="Start `claude` again; /mcp shows its servers.",
        approval="It is pending approval until you agree to it: start `claude` in this folder, or use /mcp there.",
        note="Claude Code writes into its user file while it runs: end it first.",
    ),
    # Model Context Protocol documentation, "Connect to local MCP servers": macOS and Windows. Linux: where Electron keeps what
    # belongs to the application "Claude"; aaddrick/claude-desktop-debian, docs/CONFIGURATION.md.
    "claude-desktop": Host(
        title="Claude Desktop",
        user={_EVERYWHERE: "{data}/Claude/claude_desktop_config.json"},
        project=None,
        place=_SERVERS,
        says=_plain,
        then="Quit Claude Desktop entirely, from its menu, and start it again.",
    ),
    # openai/codex, docs/config.md, "mcp_servers": the table, env_vars, CODEX_HOME. Codex documentation, "Model Context Protocol":
    # the file of a project, which is read where the project is trusted.
    "codex": Host(
        title="Codex",
        user={_EVERYWHERE: "{CODEX_HOME|.codex}/config.toml"},
        project=".codex/config.toml",
        place=("mcp_servers",),
        says=_codex,
        language="TOML",
        passes_on=True,
        then="Start `codex` again; `codex mcp list` shows its servers.",
        approval="The file of a project is read where you trust the project: `codex` asks when it is started there.",
    ),
    # google-gemini/gemini-cli, docs/tools/mcp-server.md: both files, the fields, ${VAR} in env.
    # docs/cli/trusted-folders.md; packages/cli/src/utils/envVarResolver.ts and packages/core/src/utils/envExpansion.ts.
    "gemini-cli": Host(
        title="Gemini CLI",
        user={_EVERYWHERE: "{home}/.gemini/settings.json"},
        project=".gemini/settings.json",
        place=_SERVERS,
        says=_plain,
        reference="${{{}}}",
        expands=DOLLAR_TWICE,
        then="Start `gemini` again; /mcp shows its servers. In a folder that you do not trust they are disabled: /permissions"
        " trusts it.",
        approval="The file of a project is read where you trust the folder: `gemini` asks when it is started there.",
    ),
    # opencode documentation, "MCP servers" and "Config": the shape, {env:VAR}, both names of the file, ~/.config on every system.
    "opencode": Host(
        title="opencode",
        user={_EVERYWHERE: "{config}/opencode/opencode.json"},
        project="opencode.json",
        place=("mcp",),
        says=_opencode,
        reference="{{env:{}}}",
        expands=OPENCODE,
        others=("opencode.jsonc",),
        fresh={"$schema": "https://opencode.ai/config.json"},
        then="Start `opencode` again.",
    ),
    # anomalyco/opencode, specs/v2/config.md, group 9: servers moved to mcp.servers, and `enabled` became `disabled`.
    "opencode-2": Host(
        title="opencode 2",
        user={_EVERYWHERE: "{config}/opencode/opencode.json"},
        project="opencode.json",
        place=("mcp", "servers"),
        says=_opencode_2,
        reference="{{env:{}}}",
        expands=OPENCODE,
        others=("opencode.jsonc",),
        fresh={"$schema": "https://opencode.ai/config.json"},
        then="Start `opencode` again.",
    ),
    # QwenLM/qwen-code, docs/users/features/mcp.md: scopes, fields, ${VAR} in env.
    # Pull request 4713: approval. packages/cli/src/utils/envVarResolver.ts.
    "qwen": Host(
        title="Qwen Code",
        user={_EVERYWHERE: "{home}/.qwen/settings.json"},
        project=".qwen/settings.json",
        place=_SERVERS,
        says=_plain,
        reference="${{{}}}",
        expands=DOLLAR_WITHOUT_DEFAULT,
        then="Start `qwen` again; /mcp shows its servers.",
        approval="It is pending approval until you agree to it: start `qwen` in this folder, or run `qwen mcp approve NAME` there.",
    ),
    # GitHub documentation, "Adding MCP servers for Copilot CLI": the files, the fields, that `stdio` and `local` mean the same.
    # VS Code documentation, "MCP configuration reference": COPILOT_HOME.
    # That $VAR, ${VAR} and ${VAR:-default} are replaced: the same documentation.
    "copilot": Host(
        title="GitHub Copilot CLI",
        user={_EVERYWHERE: "{COPILOT_HOME|.copilot}/mcp-config.json"},
        project=".mcp.json",
        place=_SERVERS,
        says=_copilot,
        reference="${{{}}}",
        expands=DOLLAR,
        then="Start `copilot` again; /mcp show lists its servers.",
        approval="It is loaded where you trust the folder: `copilot` asks when it is started there.",
    ),
    # Cursor documentation, "Model Context Protocol (MCP)": both files and the fields; ${env:VAR}: syllago.dev, "Cursor - MCP
    # Configs".
    "cursor": Host(
        title="Cursor",
        user={_EVERYWHERE: "{home}/.cursor/mcp.json"},
        project=".cursor/mcp.json",
        place=_SERVERS,
        says=_typed,
        reference="${{env:{}}}",
        expands=EDITOR,
        then="Switch it on in Cursor's settings, under MCP, or start Cursor again.",
    ),
    # Factory-AI/factory, docs/cli/configuration/mcp.mdx: the fields, and that the file is read again when it changes. The file of a
    # project: what makers of servers tell their users (zephex.dev, "Factory AI").
    # Pull request 1175: ${VAR} and ${VAR:-default}; a variable that is not set is an error.
    "droid": Host(
        title="Factory droid",
        user={_EVERYWHERE: "{home}/.factory/mcp.json"},
        project=".factory/mcp.json",
        place=_SERVERS,
        says=_droid,
        reference="${{{}}}",
        expands=BRACES,
        then="droid reads the file again by itself; /mcp shows its servers.",
    ),
    # Amp Owner's Manual, "MCP" and "Configuration": the files, amp.mcpServers, ${VAR}, and that workspace servers need approval.
    "amp": Host(
        title="Amp",
        user={_EVERYWHERE: "{home}/.config/amp/settings.json"},
        project=".amp/settings.json",
        place=("amp.mcpServers",),
        says=_plain,
        reference="${{{}}}",
        expands=EDITOR,
        others=("settings.jsonc",),
        then="Start `amp` again; `amp mcp list` shows its servers.",
        approval="It is used when you have approved it: run `amp mcp approve NAME` in this folder.",
    ),
    # VS Code documentation, "MCP configuration reference": both files, `servers`, the fields; "Variables reference": ${env:VAR};
    # "User and workspace settings": where the user's folder is on each system.
    "vscode": Host(
        title="VS Code",
        user={_EVERYWHERE: "{data}/Code/User/mcp.json"},
        project=".vscode/mcp.json",
        place=("servers",),
        says=_typed,
        reference="${{env:{}}}",
        expands=EDITOR,
        then="Run `MCP: List Servers` from the Command Palette and start it there; VS Code asks whether you trust it.",
        note="This is the file of the default profile. `MCP: Open User Configuration` shows that of another; --config takes it.",
    ),
    # Windsurf documentation, "Cascade MCP Integration": the file, the fields, and that variables are replaced in them; ${env:VAR}:
    # syllago.dev, "Windsurf - MCP Configs". There is no file for a project.
    "windsurf": Host(
        title="Windsurf",
        user={_EVERYWHERE: "{home}/.codeium/windsurf/mcp_config.json"},
        project=None,
        place=_SERVERS,
        says=_plain,
        reference="${{env:{}}}",
        expands=EDITOR,
        then="Press the refresh button in Cascade's list of MCP servers, or start Windsurf again.",
    ),
    # zed-industries/zed, docs/src/ai/mcp.md: context_servers and the fields; docs/src/configuring-zed.md: the files of Linux and
    # macOS, of a project, and comments in them; pull request 52161: servers of a project. Windows:
    # nikolai-vysotskyi/trace-mcp, 1277.
    "zed": Host(
        title="Zed",
        user={
            _EVERYWHERE: "{config}/zed/settings.json",
            "darwin": "{home}/.config/zed/settings.json",
            "win32": "{data}/Zed/settings.json",
        },
        project=".zed/settings.json",
        place=("context_servers",),
        says=_zed,
        then="Zed starts it by itself; the settings of its Agent Panel show a green dot beside it.",
    ),
    # goose documentation, "Configuration Files": the files, and the fields of an extension; "Config": that a secret which env_keys
    # names is looked for in the environment first.
    "goose": Host(
        title="goose",
        user={_EVERYWHERE: "{home}/.config/goose/config.yaml", "win32": "{data}/Block/goose/config/config.yaml"},
        project=None,
        place=("extensions",),
        says=_goose,
        language="YAML",
        passes_on=True,
        then="Start a new goose session.",
    ),
    # What most hosts that are not in this table understand, in a file that is named by --config.
    "generic": Host(
        title="any host with mcpServers",
        user={},
        project=None,
        place=_SERVERS,
        says=_plain,
        then="Start the host again.",
    ),
}
