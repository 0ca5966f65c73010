"""How each host reads an entry of its file: which references it expands where, what a server inherits, and units of time.

The comment above a row names the sources of its facts, as of November 2026: source code before documentation before other pages,
and "measured" for a host that was run with a server that prints what it gets. "Not documented" marks what no source shows. There a
server inherits everything, because a server that works in the host should work here, and an unset variable is an error, because it
is probably a mistake.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Literal, NamedTuple

from twopipes._host.files.expansion import Syntax
from twopipes._process.environment import EnvironmentPolicy

_Passes = tuple[Syntax, ...]


class Time(NamedTuple):
    """A member with a time, with dots for a member of a member."""

    member: str
    limit: Literal["connect", "request"]  # the limit that it sets
    unit: float  # in seconds


_MILLISECONDS = (Time("timeout", "request", 0.001),)
_SECONDS = (Time("timeout", "request", 1.0),)


class Reading(NamedTuple):
    """How a host reads an entry. References are expanded once for each pass."""

    words: _Passes = ()  # in the command and its arguments
    cwd: _Passes = ()
    env: _Passes = ()
    url: _Passes = ()
    headers: _Passes = ()
    environment: EnvironmentPolicy = "inherit"  # what a server gets beside `env`
    passed: tuple[str, ...] = ()  # variables that it also gets if they are set
    hidden: re.Pattern[str] | None = None  # if given, it also gets every variable whose NAME=VALUE does not match
    passes_references: bool = False  # whether it also gets the variables that `command`, `args` and `cwd` refer to
    times: tuple[Time, ...] = ()  # of two members with the same limit, the first counts
    zero_is_no_limit: bool = False  # whether a time of 0 switches a limit off; otherwise it means the default
    names_variables: bool = False  # whether a value that is the name of a variable means its value
    runs_commands: bool = False  # whether a value that begins with ! is the output of a shell command
    own_variables: bool = False  # whether `url` and `headers` refer to the variables of the entry, instead of the host's
    expands_home: Literal["", "command", "words"] = ""  # where ~ is the home folder
    extends_path: bool = False  # whether a PATH in `env` comes after the inherited one, instead of in its place
    args_are_any: bool = False  # whether arguments may also be numbers and booleans
    excluded: tuple[str, ...] = ()  # the keys that lead to a list of servers that are switched off
    allowed: tuple[str, ...] = ()  # the same for a list of the only servers that are switched on
    lists_have_patterns: bool = False  # whether these two have patterns, and an empty `allowed` switches every server off
    no_tool_is_listed: bool = False  # whether an empty list of tools means none, instead of all
    include_wins: bool = False  # whether a list of wanted tools makes that of unwanted ones ineffective
    is_ours: bool = False  # whether it can have what twopipes adds


def _everywhere(*passes: Syntax, **others: Any) -> Reading:
    return Reading(words=passes, cwd=passes, env=passes, url=passes, headers=passes)._replace(**others)


# ${NAME} and ${NAME:-default}.
_BRACES = re.compile(r"\$\{(?P<name>[^{}:]+)(?::-(?P<default>[^}]*))?\}")
# $NAME as well.
_DOLLAR = re.compile(r"\$(?:(?P<bare>\w+)|\{(?P<name>[^{}:]+)(?::-(?P<default>[^}]*))?\})")
_DOLLAR_WITHOUT_DEFAULT = re.compile(r"\$(?:(?P<bare>\w+)|\{(?P<name>[^}]+)\})")
# The same for names that a shell accepts.
_IDENTIFIER = re.compile(r"\$(?:(?P<bare>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\})", re.ASCII)
# A backslash before a dollar sign escapes it.
_DOTENV = re.compile(r"(?P<escaped>\\\$)|\$(?:\{(?P<name>[^{}:]+)(?::-(?P<default>[^{}]*))?\}|(?P<bare>[A-Za-z_]\w*))")
# ${env:NAME}, ${input:ID} and predefined names such as ${workspaceFolder}.
_EDITOR = re.compile(r"\$\{(?:env:(?P<name>[^{}]+)|input:(?P<input>[^{}]+)|(?P<word>[\w/]+))\}")
_CLAUDE = Syntax(_BRACES, "literal")
_DROID = (Syntax(_BRACES, "error", default_if_empty=True),)
_OPENCODE = _everywhere(
    Syntax(re.compile(r"\{env:(?P<name>[^}]+)\}"), "empty"), Syntax(re.compile(r"\{file:(?P<file>[^}]+)\}"), "empty")
)
# In Gemini CLI, after the first pass. %NAME% is only for Windows.
_GEMINI_AGAIN = (
    *((Syntax(re.compile(r"%(?P<name>\w+)%"), "empty"),) if sys.platform == "win32" else ()),
    Syntax(_DOTENV, "empty"),
)
# What Gemini CLI takes for a secret, by the name of a variable or by its value.
_GEMINI_SECRETS = re.compile(
    r"[^=]*(?:TOKEN|SECRET|PASSWORD|PASSWD|KEY|AUTH|CREDENTIAL|CREDS|PRIVATE|CERT)[^=]*="
    r"|(?:CLIENT_ID|DB_URI|CONNECTION_STRING|DATABASE_URL|AWS_DEFAULT_REGION|AZURE_(?:CLIENT|TENANT)_ID|SLACK_WEBHOOK_URL"
    r"|TWILIO_ACCOUNT_SID|GOOGLE_CLOUD_(?:PROJECT|ACCOUNT)|FIREBASE_PROJECT_ID)="
    r"|[^=]*=.*(?:-----BEGIN |://[^:\s]+:[^@\s]+@|(?:gh[oprsu]|github_pat)_\w{36}|AIzaSy|AKIA\w{16}|eyJ[\w-]*\.[\w-]*\."
    r"|[rs]k_(?:live|test)_\w{24}|xox[abpr]-)",
    re.IGNORECASE | re.DOTALL,
)
# The variables that lead programs to the certificates of a company.
_CERTIFICATES = (
    *("CODEX_CA_CERTIFICATE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
    *("CARGO_HTTP_CAINFO", "PIP_CERT", "BUNDLE_SSL_CA_CERT", "npm_config_cafile", "NPM_CONFIG_CAFILE"),
)
_PI = (
    Syntax(re.compile(r"\$\{(?P<name>\w+)\}"), "empty"),
    Syntax(re.compile(r"\$env:(?P<name>\w+)"), "empty"),
    Syntax(re.compile(r"\{env:(?P<name>\w+)\}"), "empty"),
)
_GOOSE = (Syntax(re.compile(r"\$(?:\{\s*(?P<name>[A-Za-z_]\w*)\s*\}|(?P<bare>[A-Za-z_]\w*))"), "literal"),)
_WORDS = r"workspaceFolder|workspaceFolderBasename|userHome|pathSeparator|/"
# ${NAME}, ${env:NAME}, ${NAME:-default} and the predefined names of editors.
_OURS = re.compile(rf"\$\{{(?:(?P<word>{_WORDS})|(?:env:)?(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}}]*))?)\}}")
_OUR_WORDS = Syntax(re.compile(rf"\$\{{(?P<word>{_WORDS})\}}"), "literal")

READING: dict[str, Reading] = {
    # Measured with 2.1.197: the forms, that an unset variable stays as it is, with a warning, that an empty one is not replaced by
    # the default, and that a server inherits everything. Headers are expanded twice: dev.to/rulestack, "Six ${VAR} forms", measured
    # with 2.1.278. The member `timeout`, in milliseconds: wafflebase/wafflebase, pull request 600.
    "claude-code": _everywhere(_CLAUDE, headers=(_CLAUDE, _CLAUDE), times=_MILLISECONDS),
    # Model Context Protocol documentation, "Debugging", "Environment variables": a server inherits a limited subset. Which one, and
    # references to variables, are not documented.
    "claude-desktop": Reading(environment="minimal"),
    # openai/codex, codex-rs/config/src/mcp_types.rs: the members, and that nothing is expanded; codex-rs/rmcp-client/src/utils.rs:
    # the variables that a server gets, and that a blank one makes no header; codex-rs/codex-mcp/src/tools.rs: filters.
    "codex": Reading(
        environment="minimal",
        passed=_CERTIFICATES,
        times=(
            Time("startup_timeout_sec", "connect", 1.0),
            Time("startup_timeout_ms", "connect", 0.001),
            Time("tool_timeout_sec", "request", 1.0),
        ),
        no_tool_is_listed=True,
    ),
    # google-gemini/gemini-cli, packages/cli/src/utils/envVarResolver.ts, for all strings; packages/core/src/tools/mcp-client.ts and
    # utils/envExpansion.ts, for env and headers again; services/environmentSanitization.ts: what a server inherits. A setting can
    # change that list, which is not read here. tools/mcp-client-manager.ts: allowed and excluded servers.
    "gemini-cli": _everywhere(
        Syntax(_DOLLAR, "literal"),
        env=(Syntax(_DOLLAR, "literal"), *_GEMINI_AGAIN),
        headers=(Syntax(_DOLLAR, "literal"), *_GEMINI_AGAIN),
        environment="minimal",
        hidden=_GEMINI_SECRETS,
        times=_MILLISECONDS,
        excluded=("mcp", "excluded"),
        allowed=("mcp", "allowed"),
        no_tool_is_listed=True,
    ),
    # anomalyco/opencode, packages/opencode/src/config/variable.ts: the forms, in this order, and that unset is empty;
    # packages/opencode/src/mcp/index.ts: what a server inherits, and that the timeout is for connecting and for requests.
    "opencode": _OPENCODE._replace(times=(Time("timeout", "connect", 0.001), *_MILLISECONDS)),
    # The same; packages/core/src/config/mcp.ts: the times.
    "opencode-2": _OPENCODE._replace(times=(Time("timeout.startup", "connect", 0.001), Time("timeout.request", "request", 0.001))),
    # QwenLM/qwen-code, packages/cli/src/utils/envVarResolver.ts: the forms; packages/core/src/tools/mcp-client.ts and
    # utils/sanitize-child-env.ts: a server inherits everything but Qwen's own tokens; packages/core/src/config/config.ts: the lists
    # of servers; docs/users/features/mcp.md: the times, and patterns in these lists.
    "qwen": _everywhere(
        Syntax(_DOLLAR_WITHOUT_DEFAULT, "literal"),
        times=(Time("discoveryTimeoutMs", "connect", 0.001), *_MILLISECONDS),
        excluded=("mcp", "excluded"),
        allowed=("mcp", "allowed"),
        lists_have_patterns=True,
        no_tool_is_listed=True,
    ),
    # GitHub documentation, "Adding MCP servers for GitHub Copilot CLI": PATH is inherited, other variables are not; we pass on the
    # safe ones. "GitHub Copilot CLI command reference": the members and units. github/copilot-cli, changelog.md: variables that
    # command, args or cwd refer to are passed on. microsoft/vscode, src/vs/platform/mcp/common/envVarResolution.ts, a port of
    # Copilot's code: the forms, and that an unset variable stays as it is.
    "copilot": _everywhere(
        Syntax(_IDENTIFIER, "literal"),
        environment="minimal",
        passes_references=True,
        times=_MILLISECONDS,
        no_tool_is_listed=True,
    ),
    # syllago.dev, "Cursor - MCP Configs": ${env:NAME}, ${userHome} and ${workspaceFolder}; NousResearch/hermes-agent,
    # tools/mcp_tool_config.py: all predefined names. What is unset, and what a server inherits, are not documented.
    "cursor": _everywhere(Syntax(_EDITOR, "error")),
    # Measured with 0.215: references in env only, although the documentation has command and args too; an unset variable is an
    # error, an empty one is replaced by the default, and a server inherits everything. Factory-AI/factory,
    # docs/cli/configuration/mcp.mdx: references in url and headers, times and filters.
    "droid": Reading(env=_DROID, url=_DROID, headers=_DROID, times=(Time("timeoutMs", "request", 0.001),), include_wins=True),
    # Measured with 0.0.1790142911: the form, that an unset variable stays as it is, that there are no defaults, and that a server
    # inherits everything. References in url and headers are not documented; they are read in the same way.
    "amp": _everywhere(Syntax(re.compile(r"\$\{(?P<name>[^{}]+)\}"), "literal")),
    # VS Code documentation, "MCP configuration reference": inputs. microsoft/vscode,
    # src/vs/workbench/services/configurationResolver/common/variableResolver.ts: the forms, and that unset is empty;
    # src/vs/workbench/api/node/extHostMcpNode.ts: what a server inherits, PATH and ~. A variable that is null is removed there;
    # here it is inherited.
    "vscode": _everywhere(Syntax(_EDITOR, "empty"), expands_home="words", extends_path=True),
    # Windsurf documentation, "Cascade MCP Integration": the members; syllago.dev, "Windsurf - MCP Configs": ${env:NAME} and
    # ${file:PATH}. What is unset, and what a server inherits, are not documented.
    "windsurf": _everywhere(Syntax(re.compile(r"\$\{(?:env:(?P<name>[^{}]+)|file:(?P<file>[^{}]+))\}"), "error"), cwd=()),
    # zed-industries/zed, crates/context_server/src/transport/stdio_transport.rs: a server inherits everything; it is started by the
    # user's shell, with quotes, so that nothing is expanded. crates/settings_content/src/project.rs: the members and units.
    "zed": Reading(times=_SECONDS),
    # aaif-goose/goose, crates/goose/src/agents/extension_manager.rs: references in uri and headers, and that a server inherits
    # everything; extension.rs: the members; crates/goose/src/config/base.rs: env_keys are looked up in upper case.
    "goose": Reading(url=_GOOSE, headers=_GOOSE, own_variables=True, times=_SECONDS),
    # NousResearch/hermes-agent, tools/mcp_tool_config.py: the forms, what is unset, ~ in the command, and that a server gets safe
    # variables; tools/mcp_tool.py: arguments that are not strings; website/docs/reference/mcp-config-reference.md: the times and
    # filters. The variables of ~/.hermes/.env are not read here.
    "hermes": _everywhere(
        Syntax(re.compile(rf"\$\{{(?P<word>{_WORDS})\}}|\$\{{(?:env:)?(?P<name>[^{{}}]+)\}}"), "literal", empty_is_unset=True),
        environment="minimal",
        expands_home="command",
        args_are_any=True,
        include_wins=True,
        times=(*_SECONDS, Time("connect_timeout", "connect", 1.0)),
    ),
    # can1357/oh-my-pi, docs/mcp-config.md: the forms, the times and the filters;
    # packages/coding-agent/src/core/mcp/transports/stdio.ts: a server inherits everything.
    "omp": _everywhere(
        Syntax(_BRACES, "literal"),
        names_variables=True,
        runs_commands=True,
        times=_MILLISECONDS,
        zero_is_no_limit=True,
        excluded=("disabledServers",),
    ),
    # openclaw/openclaw, src/config/env-substitution.ts: upper case only, $${NAME} escapes, empty counts as unset; docs/cli/mcp.md:
    # the members; src/agents/mcp-stdio-transport.ts: a server gets the variables that the TypeScript SDK takes for safe.
    "openclaw": _everywhere(
        Syntax(re.compile(r"(?P<escaped>\$\$\{[A-Z_][A-Z0-9_]*\})|\$\{(?P<name>[A-Z_][A-Z0-9_]*)\}"), "error", empty_is_unset=True),
        environment="minimal",
        times=(
            *_SECONDS,
            Time("requestTimeoutMs", "request", 0.001),
            Time("connectTimeout", "connect", 1.0),
            Time("connectionTimeoutMs", "connect", 0.001),
        ),
    ),
    # nicobailon/pi-mcp-adapter, utils.ts: the forms, that only a URL needs its variables, and values that begin with !;
    # metadata-cache.ts: the members; server-manager.ts: a server inherits everything, and when a bearer token is sent.
    "pi": _everywhere(
        *_PI,
        words=(),
        url=tuple(each._replace(unset="error") for each in _PI),
        runs_commands=True,
        times=(Time("requestTimeoutMs", "request", 0.001),),
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
