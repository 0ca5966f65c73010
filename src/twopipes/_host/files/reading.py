"""How each host reads an entry of its file: which references it expands where, what a server inherits, and units of time.

The comment above a row names the sources of its facts, as of November 2026. Two kinds of facts are not checked against a source for
every host: what a server inherits, and the headers of goose. Where a host does not document what an unset variable
becomes, it is an error here, because it is probably a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from twopipes._host.files.expansion import Syntax
from twopipes._process.environment import EnvironmentPolicy

_Passes = tuple[Syntax, ...]
# Members with a time, the limit that they set, and their unit in seconds.
_MILLISECONDS = {"timeout": ("request", 0.001)}
_SECONDS = {"timeout": ("request", 1.0)}


class Reading(NamedTuple):
    """How a host reads an entry. References are expanded once for each pass."""

    words: _Passes = ()  # in the command and its arguments
    cwd: _Passes = ()
    env: _Passes = ()
    url: _Passes = ()
    headers: _Passes = ()
    environment: EnvironmentPolicy = "inherit"  # what a server gets beside `env`
    times: Mapping[str, tuple[str, float]] = {}
    names_variables: bool = False  # whether a value that is the name of a variable means its value
    runs_commands: bool = False  # whether a value that begins with ! is the output of a shell command
    excluded: tuple[str, ...] = ()  # the keys that lead to a list of servers that are switched off
    allowed: tuple[str, ...] = ()  # the same for a list of the only servers that are switched on
    is_ours: bool = False  # whether it can have what twopipes adds


def _everywhere(*passes: Syntax, **others: Any) -> Reading:
    return Reading(words=passes, cwd=passes, env=passes, url=passes, headers=passes)._replace(**others)


# ${NAME} and ${NAME:-default}.
_BRACES = re.compile(r"\$\{(?P<name>[^{}:]+)(?::-(?P<default>[^}]*))?\}")
# $NAME as well.
_DOLLAR = re.compile(r"\$(?:(?P<bare>\w+)|\{(?P<name>[^{}:]+)(?::-(?P<default>[^}]*))?\})")
_DOLLAR_WITHOUT_DEFAULT = re.compile(r"\$(?:(?P<bare>\w+)|\{(?P<name>[^}]+)\})")
# A backslash before a dollar sign escapes it.
_DOTENV = re.compile(r"(?P<escaped>\\\$)|\$(?:\{(?P<name>[^{}:]+)(?::-(?P<default>[^{}]*))?\}|(?P<bare>[A-Za-z_]\w*))")
# ${env:NAME}, ${input:ID} and predefined names such as ${workspaceFolder}.
_EDITOR = re.compile(r"\$\{(?:env:(?P<name>[^{}]+)|input:(?P<input>[^{}]+)|(?P<word>[\w/]+))\}")
_CLAUDE = Syntax(_BRACES, "literal")
_OPENCODE = _everywhere(
    Syntax(re.compile(r"\{env:(?P<name>[^{}]+)\}|\{file:(?P<file>[^{}]+)\}"), "empty"), times={"timeout": ("connect", 0.001)}
)
_PI = (
    Syntax(re.compile(r"\$\{(?P<name>\w+)\}"), "empty"),
    Syntax(re.compile(r"\$env:(?P<name>\w+)"), "empty"),
    Syntax(re.compile(r"\{env:(?P<name>\w+)\}"), "empty"),
)
_WORDS = r"workspaceFolder|workspaceFolderBasename|userHome|pathSeparator|/"
# ${NAME}, ${env:NAME}, ${NAME:-default} and the predefined names of editors.
_OURS = re.compile(rf"\$\{{(?:(?P<word>{_WORDS})|(?:env:)?(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}}]*))?)\}}")
_OUR_WORDS = Syntax(re.compile(rf"\$\{{(?P<word>{_WORDS})\}}"), "literal")

READING: dict[str, Reading] = {
    # Claude Code documentation, "Environment variable expansion in .mcp.json": the members, and that an unset variable stays as it
    # is, with a warning. Headers are expanded twice: dev.to/rulestack, "Six ${VAR} forms", measured with 2.1.278.
    "claude-code": _everywhere(_CLAUDE, headers=(_CLAUDE, _CLAUDE), times=_MILLISECONDS),
    # The clients of the TypeScript SDK give a server a few safe variables, unless they are told otherwise.
    "claude-desktop": Reading(environment="minimal"),
    # openai/codex, docs/config.md, "mcp_servers": nothing is expanded; a server gets a list of safe variables.
    "codex": Reading(environment="minimal", times={"startup_timeout_sec": ("connect", 1.0), "tool_timeout_sec": ("request", 1.0)}),
    # google-gemini/gemini-cli, packages/cli/src/utils/envVarResolver.ts, for all strings; packages/core/src/utils/envExpansion.ts,
    # for env again. docs/tools/mcp-server.md: variables that look like secrets are not inherited, so we pass on the safe ones only.
    "gemini-cli": _everywhere(
        Syntax(_DOLLAR, "literal"),
        env=(Syntax(_DOLLAR, "literal"), Syntax(_DOTENV, "empty")),
        environment="minimal",
        times=_MILLISECONDS,
        excluded=("mcp", "excluded"),
        allowed=("mcp", "allowed"),
    ),
    # opencode documentation, "Config": {env:NAME} is empty if it is not set, {file:PATH} is relative to the file; "MCP servers":
    # the timeout is for getting the tools.
    "opencode": _OPENCODE,
    "opencode-2": _OPENCODE,
    # QwenLM/qwen-code, packages/cli/src/utils/envVarResolver.ts.
    "qwen": _everywhere(
        Syntax(_DOLLAR_WITHOUT_DEFAULT, "literal"), times=_MILLISECONDS, excluded=("mcp", "excluded"), allowed=("mcp", "allowed")
    ),
    # github/copilot-cli, issue 903: the forms, and that a server inherits safe variables.
    "copilot": _everywhere(Syntax(_DOLLAR, "error"), environment="minimal", times=_MILLISECONDS),
    # Cursor documentation, "Model Context Protocol (MCP)", "Config interpolation".
    "cursor": _everywhere(Syntax(_EDITOR, "error")),
    # Factory-AI/factory, pull request 1175.
    "droid": _everywhere(Syntax(_BRACES, "error")),
    # Amp Owner's Manual, "MCP".
    "amp": _everywhere(Syntax(re.compile(r"\$\{(?P<name>[^{}]+)\}"), "error")),
    # VS Code documentation, "Variables reference": ${env:NAME} is empty if it is not set; "MCP configuration reference": inputs.
    "vscode": _everywhere(Syntax(_EDITOR, "empty")),
    # Windsurf documentation, "Cascade MCP Integration": ${env:NAME} and ${file:PATH}.
    "windsurf": _everywhere(Syntax(re.compile(r"\$\{(?:env:(?P<name>[^{}]+)|file:(?P<file>[^{}]+))\}"), "error")),
    # zed-industries/zed, docs/src/ai/mcp.md: nothing is expanded.
    "zed": Reading(),
    # goose documentation, "Configuration Files"; block/goose, crates/goose/src/agents/extension_manager.rs: variables in headers.
    "goose": Reading(headers=(Syntax(_DOLLAR, "literal"),), times=_SECONDS),
    # NousResearch/hermes-agent, tools/mcp_tool.py: the forms, what is unset, and that a server gets safe variables;
    # website/docs/reference/mcp-config-reference.md: the times.
    "hermes": _everywhere(
        Syntax(re.compile(rf"\$\{{(?P<word>{_WORDS})\}}|\$\{{(?:env:)?(?P<name>[^{{}}]+)\}}"), "literal"),
        environment="minimal",
        times=_SECONDS | {"connect_timeout": ("connect", 1.0)},
    ),
    # can1357/oh-my-pi, docs/mcp-config.md, "Secrets and variable resolution".
    "omp": _everywhere(
        Syntax(_BRACES, "literal"), names_variables=True, runs_commands=True, times=_MILLISECONDS, excluded=("disabledServers",)
    ),
    # openclaw/openclaw, src/config/env-substitution.ts: upper case only, $${NAME} escapes, empty counts as unset; docs/cli/mcp.md:
    # the times.
    "openclaw": _everywhere(
        Syntax(re.compile(r"(?P<escaped>\$\$\{[A-Z_][A-Z0-9_]*\})|\$\{(?P<name>[A-Z_][A-Z0-9_]*)\}"), "error", empty_is_unset=True),
        environment="minimal",
        times=_SECONDS | {"connectTimeout": ("connect", 1.0)},
    ),
    # nicobailon/pi-mcp-adapter, utils.ts: the forms, that only a URL needs its variables, and values that begin with !;
    # metadata-cache.ts: the members.
    "pi": _everywhere(
        *_PI,
        words=(),
        url=tuple(each._replace(unset="error") for each in _PI),
        runs_commands=True,
        times={"requestTimeoutMs": ("request", 0.001)},
    ),
    # Our own: variables and headers keep their references, which are resolved when a server is started.
    "generic": Reading(
        words=(Syntax(_OURS, "error"),),
        cwd=(Syntax(_OURS, "error"),),
        env=(_OUR_WORDS,),
        url=(Syntax(_OURS, "error"),),
        environment="minimal",
        is_ours=True,
    ),
}
