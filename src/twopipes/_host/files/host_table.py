"""The table of hosts: where each keeps its servers, in which language and under which keys, and the form of an entry.

The comment above a row names the sources of its facts, as of November 2026; "the path" is that of every system, unless it says
otherwise. If a host moves its file, users can pass ``--config FILE`` until the row is updated.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Literal, NamedTuple

from twopipes._host.files.expansion import (
    BRACES,
    BRACES_IN_VALUES,
    DOLLAR,
    DOLLAR_TWICE,
    DOLLAR_WITHOUT_DEFAULT,
    EDITOR,
    OPENCODE,
    Expansion,
)
from twopipes._host.files.formats import Language

Scope = Literal["user", "project"]


class Machine(NamedTuple):
    """The system, home folder and environment, on which the paths of files depend."""

    platform: str
    home: str
    environment: Mapping[str, str]

    @classmethod
    def this(cls) -> Machine:
        """Return the current machine."""
        return cls(sys.platform, str(Path.home()), os.environ)

    def expanded(self, path: str) -> PurePath:
        """Replace the placeholders in a path of the table.

        ``{home}`` is the home folder, ``{data}`` the folder for application data on this system, ``{config}`` the XDG folder for
        settings, and ``{A|b}`` the variable A, or b in the home folder if A is not set.
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
    """A server, independent of the host."""

    name: str
    command: list[str]
    values: dict[str, str]  # variables with their values
    passed: list[str]  # variables that the host passes on from its own environment


def _plain(entry: HostEntry) -> dict[str, Any]:
    """Return the form that most hosts use."""
    result: dict[str, Any] = {"command": entry.command[0], "args": entry.command[1:]}
    return result | ({"env": entry.values} if entry.values else {})


def _codex(entry: HostEntry) -> dict[str, Any]:
    return _plain(entry) | ({"env_vars": entry.passed} if entry.passed else {})


def _opencode(entry: HostEntry) -> dict[str, Any]:
    result = {"type": "local", "command": entry.command, "enabled": True}
    return result | ({"environment": entry.values} if entry.values else {})


def _opencode_2(entry: HostEntry) -> dict[str, Any]:
    return {key: value for key, value in _opencode(entry).items() if key != "enabled"}


def _goose(entry: HostEntry) -> dict[str, Any]:
    command = {"cmd": entry.command[0], "args": entry.command[1:]}
    variables = {"envs": entry.values, "env_keys": entry.passed}
    return {"name": entry.name, "type": "stdio", "enabled": True, **command, **variables, "timeout": 300}


class Host(NamedTuple):
    """One host. Paths are in the form of :meth:`Machine.expanded`."""

    title: str  # its usual name
    user: str | None  # the user's file
    project: str | None  # a project's file in the project folder; `None` if the host has none
    next_step: str  # what the user has to do after the file was written
    approval: str = ""  # what else the user has to do before a server from a project's file is used
    note: str = ""  # a note about the user's file
    elsewhere: Mapping[str, str] = {}  # the user's file on platforms where it is another one
    moved: tuple[str, str] | None = None  # a variable with a folder, and the user's file in that folder if it is set
    package: str | None = None  # on Windows, the name of its package, which has its own folder for application data
    also_read: tuple[str, ...] = ()  # other files of a project, which are not written
    others: tuple[str, ...] = ()  # other names of the file, which are used if they exist
    language: Language = "JSON"
    fresh: Mapping[str, Any] | None = None  # the first members of a new file
    place: tuple[str, ...] = ("mcpServers",)  # the keys that lead to the servers
    format_entry: Callable[[HostEntry], dict[str, Any]] = _plain
    first: Mapping[str, Any] = {}  # members before those of `format_entry`
    last: Mapping[str, Any] = {}  # members after them
    reference: str | None = None  # how a value refers to a variable of the host's environment; `None` if it cannot
    expands: Expansion | None = None  # what the host expands in commands and values
    passes_on: bool = False  # whether an entry can list variables of the host's environment by name

    def file(self, scope: Scope, machine: Machine) -> PurePath | None:
        """Return the path of the file; ``None`` if the host has no such scope."""
        path = self.project if scope == "project" else self.elsewhere.get(machine.platform, self.user)
        folder = machine.environment.get(self.moved[0]) if self.moved and scope == "user" else None
        if folder and self.moved:
            path = f"{folder}/{self.moved[1]}" if self.moved[1] else folder
        return None if path is None else machine.expanded(path)

    def packaged_file(self, machine: Machine) -> Path | None:
        """Return the user's file of an app that Windows keeps in a package: the app does not see the usual one."""
        if self.package is None or self.user is None or machine.platform != "win32":
            return None
        local = machine.environment.get("LOCALAPPDATA") or f"{machine.home}/AppData/Local"
        folder = next(iter(sorted(Path(local, "Packages").glob(f"{self.package}_*/LocalCache/Roaming"))), None)
        return None if folder is None else folder / self.user.partition("/")[2]


def entry_of(host: Host, entry: HostEntry) -> dict[str, Any]:
    """Return the entry for a server in the form of the host."""
    if host.reference is not None:
        references = {name: host.reference.format(name) for name in entry.passed}
        entry = entry._replace(values=entry.values | references, passed=[])
    return {**host.first, **host.format_entry(entry), **host.last}


_STDIO = {"type": "stdio"}
_OPENCODE = Host(
    title="opencode",
    user="{config}/opencode/opencode.json",
    project="opencode.json",
    place=("mcp",),
    format_entry=_opencode,
    reference="{{env:{}}}",
    expands=OPENCODE,
    others=("opencode.jsonc",),
    fresh={"$schema": "https://opencode.ai/config.json"},
    next_step="Restart `opencode`.",
)

HOSTS: dict[str, Host] = {
    # Measured with 2.1.197: the path on Linux, the top-level mcpServers, and that $VAR is left alone and ${VAR:-default} expanded.
    # Claude Code documentation, "Settings" (a copy on spybara.com): CLAUDE_CONFIG_DIR moves the file. Windows and macOS:
    # masx200/persistent-terminal-mcp, docs/clients/claude-code-setup.md. The project's file: Claude Code documentation, "Connect
    # Claude Code to tools via MCP".
    "claude-code": Host(
        title="Claude Code",
        user="{CLAUDE_CONFIG_DIR|.}/.claude.json",
        project=".mcp.json",
        first=_STDIO,
        reference="${{{}}}",
        expands=BRACES,
        next_step="Restart `claude`; /mcp shows its servers.",
        approval="The server is pending until you approve it: start `claude` in this folder, or use /mcp there.",
        note="Claude Code writes into its user file while it runs: quit it first.",
    ),
    # Model Context Protocol documentation, "Connect to local MCP servers": macOS and Windows. The package of Windows:
    # anthropics/claude-code, issue 26073. Linux: where Electron keeps what belongs to the application "Claude";
    # aaddrick/claude-desktop-debian, docs/CONFIGURATION.md.
    "claude-desktop": Host(
        title="Claude Desktop",
        user="{data}/Claude/claude_desktop_config.json",
        package="Claude",
        project=None,
        next_step="Quit Claude Desktop from its menu, and start it again.",
    ),
    # openai/codex, codex-rs/utils/home-dir/src/lib.rs: the path and CODEX_HOME; codex-rs/config/src/mcp_types.rs: the table and
    # env_vars. Codex documentation, "Model Context Protocol": the file of a project, which is read if the project is trusted.
    "codex": Host(
        title="Codex",
        user="{CODEX_HOME|.codex}/config.toml",
        project=".codex/config.toml",
        place=("mcp_servers",),
        format_entry=_codex,
        language="TOML",
        passes_on=True,
        next_step="Restart `codex`; `codex mcp list` shows its servers.",
        approval="The project file is read only if you trust the project: `codex` asks when you start it there.",
    ),
    # google-gemini/gemini-cli, docs/tools/mcp-server.md: both files, the fields, ${VAR} in env; docs/cli/trusted-folders.md;
    # packages/core/src/utils/paths.ts: the path and GEMINI_CLI_HOME, which replaces the home folder;
    # packages/cli/src/utils/envVarResolver.ts and packages/core/src/utils/envExpansion.ts.
    "gemini-cli": Host(
        title="Gemini CLI",
        user="{GEMINI_CLI_HOME|.}/.gemini/settings.json",
        project=".gemini/settings.json",
        reference="${{{}}}",
        expands=DOLLAR_TWICE,
        next_step="Restart `gemini`; /mcp shows its servers. They are disabled in a folder that you do not trust; /permissions"
        " trusts it.",
        approval="The project file is read only if you trust the folder: `gemini` asks when you start it there.",
    ),
    # opencode documentation, "MCP servers" and "Config": the shape, {env:VAR}, both names of the file. anomalyco/opencode,
    # packages/core/src/global.ts: the path, ~/.config on every system.
    "opencode": _OPENCODE,
    # anomalyco/opencode, specs/v2/config.md, group 9: servers moved to mcp.servers, and `enabled` became `disabled`.
    "opencode-2": _OPENCODE._replace(title="opencode 2", place=("mcp", "servers"), format_entry=_opencode_2),
    # QwenLM/qwen-code, docs/users/features/mcp.md: scopes, fields, ${VAR} in env; packages/core/src/config/storage.ts: the path and
    # QWEN_HOME. Pull request 4713: approval. packages/cli/src/utils/envVarResolver.ts.
    "qwen": Host(
        title="Qwen Code",
        user="{QWEN_HOME|.qwen}/settings.json",
        project=".qwen/settings.json",
        reference="${{{}}}",
        expands=DOLLAR_WITHOUT_DEFAULT,
        next_step="Restart `qwen`; /mcp shows its servers.",
        approval="The server is pending until you approve it: start `qwen` in this folder, or run `qwen mcp approve NAME` there.",
    ),
    # GitHub documentation, "Adding MCP servers for GitHub Copilot CLI": the files, the fields, that `stdio` and `local` mean the
    # same; "GitHub Copilot CLI command reference": the path, COPILOT_HOME, and that $VAR, ${VAR} and ${VAR:-default} are replaced.
    "copilot": Host(
        title="GitHub Copilot CLI",
        user="{COPILOT_HOME|.copilot}/mcp-config.json",
        project=".mcp.json",
        also_read=(".github/mcp.json",),
        first=_STDIO,
        last={"tools": ["*"]},
        reference="${{{}}}",
        expands=DOLLAR,
        next_step="Restart `copilot`; /mcp show lists its servers.",
        approval="It is loaded only if you trust the folder: `copilot` asks when you start it there.",
    ),
    # code-js.in, "Two config files, two scopes": both files, in the home folder on every system. The fields and ${env:VAR}:
    # syllago.dev, "Cursor - MCP Configs".
    "cursor": Host(
        title="Cursor",
        user="{home}/.cursor/mcp.json",
        project=".cursor/mcp.json",
        first=_STDIO,
        reference="${{env:{}}}",
        expands=EDITOR,
        next_step="Turn it on in Cursor's settings, under MCP, or restart Cursor.",
    ),
    # Factory-AI/factory, docs/cli/configuration/mcp.mdx: the files, which it does not give for single systems, the fields, and that
    # a file is read again when it changes. Measured with 0.215 on Linux: both files, and what is expanded.
    "droid": Host(
        title="Factory droid",
        user="{home}/.factory/mcp.json",
        project=".factory/mcp.json",
        first=_STDIO,
        last={"disabled": False},
        reference="${{{}}}",
        expands=BRACES_IN_VALUES,
        next_step="droid reloads the file automatically; /mcp shows its servers.",
    ),
    # developersdigest.tech, "Amp config files and locations": the paths of all systems, and that workspace servers need approval.
    # Measured with 0.0.1790142911 on Linux: the user's file, amp.mcpServers and ${VAR}.
    "amp": Host(
        title="Amp",
        user="{home}/.config/amp/settings.json",
        project=".amp/settings.json",
        place=("amp.mcpServers",),
        reference="${{{}}}",
        expands=EDITOR,
        others=("settings.jsonc",),
        next_step="Restart `amp`; `amp mcp list` shows its servers.",
        approval="The server is used only after you approve it: run `amp mcp approve NAME` in this folder.",
    ),
    # VS Code documentation, "MCP configuration reference": both files, `servers`, the fields; "Variables reference": ${env:VAR};
    # "User and workspace settings": where the user's folder is on Windows, macOS and Linux.
    "vscode": Host(
        title="VS Code",
        user="{data}/Code/User/mcp.json",
        project=".vscode/mcp.json",
        place=("servers",),
        first=_STDIO,
        reference="${{env:{}}}",
        expands=EDITOR,
        next_step="Run `MCP: List Servers` from the Command Palette and start it there; VS Code asks whether you trust it.",
        note="This is the file of the default profile. For another, use --config; `MCP: Open User Configuration` shows its file.",
    ),
    # Windsurf documentation, "Cascade MCP Integration": the path, the fields, and that variables are replaced in them; Windows:
    # surrealdb.com, "Installing Spectron as an MCP server in Windsurf"; ${env:VAR}: syllago.dev, "Windsurf - MCP Configs". There is
    # no file for a project.
    "windsurf": Host(
        title="Windsurf",
        user="{home}/.codeium/windsurf/mcp_config.json",
        project=None,
        reference="${{env:{}}}",
        expands=EDITOR,
        next_step="Press the refresh button in Cascade's list of MCP servers, or restart Windsurf.",
    ),
    # zed-industries/zed, docs/src/ai/mcp.md: context_servers and the fields; crates/paths/src/paths.rs: the files of Linux, macOS,
    # Windows and of a project; docs/src/configuring-zed.md: comments in them; pull request 52161: servers of a project.
    "zed": Host(
        title="Zed",
        user="{config}/zed/settings.json",
        elsewhere={"darwin": "{home}/.config/zed/settings.json", "win32": "{data}/Zed/settings.json"},
        project=".zed/settings.json",
        place=("context_servers",),
        first={"source": "custom"},
        next_step="Zed starts it automatically; the settings of the Agent Panel show a green dot beside it.",
    ),
    # aaif-goose/goose, documentation/docs/guides/config-files.md: the paths of all systems, and the fields of an extension;
    # crates/goose/src/config/paths.rs: GOOSE_PATH_ROOT, and XDG_CONFIG_HOME on Linux and macOS; crates/goose/src/config/base.rs: a
    # secret that env_keys names is looked up in the environment first.
    "goose": Host(
        title="goose",
        user="{config}/goose/config.yaml",
        moved=("GOOSE_PATH_ROOT", "config/config.yaml"),
        elsewhere={"win32": "{data}/Block/goose/config/config.yaml"},
        project=None,
        place=("extensions",),
        format_entry=_goose,
        language="YAML",
        passes_on=True,
        next_step="Start a new goose session.",
    ),
    # The form that most other hosts understand, in a file named by --config.
    "generic": Host(title="any host with mcpServers", user=None, project=None, next_step="Restart the host."),
}

# Hosts whose files are read, but not written.
OTHER_HOSTS: dict[str, Host] = {
    # NousResearch/hermes-agent, website/docs/reference/mcp-config-reference.md.
    "hermes": Host(
        title="Hermes Agent",
        user="{HERMES_HOME|.hermes}/config.yaml",
        project=None,
        place=("mcp_servers",),
        language="YAML",
        next_step="Restart `hermes`.",
    ),
    # can1357/oh-my-pi, docs/mcp-config.md, "Preferred config locations".
    "omp": Host(
        title="Oh My Pi",
        user="{home}/.omp/agent/mcp.json",
        project=".omp/mcp.json",
        others=(".mcp.json",),
        next_step="Restart `omp`.",
    ),
    # openclaw/openclaw, src/config/paths.ts: the path, the variables, and that it is JSON5.
    "openclaw": Host(
        title="OpenClaw",
        user="{OPENCLAW_STATE_DIR|.openclaw}/openclaw.json",
        moved=("OPENCLAW_CONFIG_PATH", ""),
        project=None,
        language="JSON5",
        place=("mcp", "servers"),
        next_step="Restart the gateway.",
    ),
    # nicobailon/pi-mcp-adapter, README.md, "Configuration".
    "pi": Host(
        title="Pi with pi-mcp-adapter",
        user="{PI_CODING_AGENT_DIR|.pi/agent}/mcp.json",
        project=".pi/mcp.json",
        next_step="Restart `pi`.",
    ),
}
