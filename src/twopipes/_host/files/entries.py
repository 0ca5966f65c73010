"""One server in the configuration file of a host: what its members mean."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import ValidationError, convert
from msgspec.structs import astuple

from twopipes._host.files.env_file import read_env_file
from twopipes._host.files.expansion import Scope, Syntax, expand
from twopipes._host.files.reading import Reading
from twopipes._host.files.values import found_at
from twopipes._host.filters import ToolFilter
from twopipes._host.references import literal
from twopipes._process.environment import SHELL_FUNCTION, environment_of
from twopipes.errors import ConfigError
from twopipes.settings import Sandbox, Timeouts

_HTTP_TYPES = ("http", "sse", "streamable-http", "streamable_http", "remote")
_URL_MEMBERS = ("url", "serverUrl", "httpUrl", "uri")
_SCHEMES = ("http://", "https://")
_OUR_SCHEMES = (*_SCHEMES, "unix:", "tcp://")
# Members with the names of tools, in the words of different hosts.
_INCLUDE = ("includeTools", "enabled_tools", "enabledTools", "available_tools")
_EXCLUDE = ("excludeTools", "disabled_tools", "disabledTools")
# A larger number is not meant as a time, and may be too large for arithmetic.
_FOREVER = 1e12
# A name that a reference can have.
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_OUR_FILTERS = {"include": "include", "exclude": "exclude", "readOnly": "read_only", "destructive": "destructive"}


class Entry(NamedTuple):
    """An entry of a file, and how its host reads it. Errors have the rest of a sentence that begins with the server."""

    content: Mapping[str, Any]
    reading: Reading
    scope: Scope

    @property
    def enabled(self) -> bool:
        """Whether the server is switched on."""
        return self.content.get("enabled") is not False and self.content.get("disabled") is not True

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``ServerConfig``. Raises ``ConfigError``."""
        content = _normalized(self.content)
        url = self._url(content)
        found = {"url": url, "headers": self._headers(content)} if url is not None else self._process(content)
        found |= {"timeouts": self._timeouts(), "tools": self._tools()}
        return {name: value for name, value in found.items() if value is not None and value != {}}

    def _process(self, content: Mapping[str, Any]) -> dict[str, Any]:
        command, folder = content.get("command"), content.get("cwd", content.get("workingDirectory"))
        if not isinstance(command, str) or not command:
            raise ConfigError('has no command; add "command": "...", or for a server at a URL "url": "..."')
        if not isinstance(folder, str | None):
            raise ConfigError("has a cwd that is not a string")
        words = [command, *self._args(content)]
        return {
            "command": [self._word(position, word) for position, word in enumerate(words)],
            "env": self._inherited([*words, folder or ""]) | self._env(content),
            "cwd": None if folder is None else self._folder(folder),
            "environment": self.reading.environment,
            "sandbox": self._sandbox(),
        }

    def _args(self, content: Mapping[str, Any]) -> list[str]:
        given = content.get("args") or []
        if isinstance(given, list) and self.reading.args_are_any:
            given = [str(each) if isinstance(each, int | float) else each for each in given]
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            raise ConfigError("has args that are not a list of strings")
        return given

    def _word(self, position: int, word: str) -> str:
        """Return a word of the command as the host passes it on."""
        expanded = self._expanded(word, self.reading.words)
        has_home = self.reading.expands_home == "words" or (self.reading.expands_home == "command" and position == 0)
        return os.path.expanduser(expanded) if has_home and (expanded == "~" or expanded.startswith("~/")) else expanded

    def _folder(self, folder: str) -> str:
        expanded = os.path.expanduser(self._expanded(folder, self.reading.cwd))
        # A host starts in its project; a file of ours can be used from anywhere.
        return str(self.scope.folder / expanded) if self.reading.is_ours else expanded

    def _inherited(self, words: Sequence[str]) -> dict[str, str]:
        """Return the variables that a server gets from the host, beside those of the policy."""
        ours, hidden = self.scope.environment, self.reading.hidden
        names = [name for name in self.reading.passed if ours.get(name)]
        if self.reading.passes_references:
            names += [name for word in words for syntax in self.reading.words for name in syntax.names(word) if name in ours]
        if hidden is not None:
            safe = environment_of("minimal", {}, ours=ours)
            shown = [name for name, value in ours.items() if not hidden.match(f"{name}={value}")]
            names += [name for name in shown if _can_be_passed(name, ours[name], safe)]
        return {name: f"${{{name}}}" for name in names}

    def _env(self, content: Mapping[str, Any]) -> dict[str, str]:
        found = {name: f"${{{name}}}" for name in _passed_names(content) if name in self.scope.environment}
        found |= {name: f"${{{variable}}}" for name, variable in self._secrets(content).items()}
        file = content.get("envFile")
        if file is not None:
            if not isinstance(file, str):
                raise ConfigError("has an envFile that is not a string")
            path = self.scope.project / Path(self._expanded(file, self.reading.words)).expanduser()
            found |= {name: literal(value) for name, value in read_env_file(path).items()}
        return found | {name: self._variable(name, text) for name, text in _texts(content).items()}

    def _variable(self, name: str, text: str) -> str:
        """Return the value of a variable."""
        before = self.scope.environment.get("PATH")
        if self.reading.extends_path and name.upper() == "PATH" and before:
            return literal(before + os.pathsep + self._expanded(text, self.reading.env))
        return self._value(name, text, self.reading.env, self.scope)

    def _secrets(self, content: Mapping[str, Any]) -> dict[str, str]:
        """Return the secrets that an entry of goose names, each with the variable that replaces it."""
        names, env = content.get("env_keys"), _texts(content)
        wanted = [name for name in names if isinstance(name, str) and name not in env] if isinstance(names, list) else []
        for name in wanted:
            if name.upper() not in self.scope.environment:
                raise ConfigError(f"needs the secret {name} of goose, which is not read here; set the variable {name.upper()}")
        return {name: name.upper() for name in wanted}

    def _url(self, content: Mapping[str, Any]) -> str | None:
        if "command" in content:
            return None
        url = next((content[key] for key in _URL_MEMBERS if key in content), None)
        if content.get("socket"):  # goose, Pi
            raise ConfigError("is reached through a socket, which is not supported here")
        if url is None:
            if content.get("type") in _HTTP_TYPES:
                raise ConfigError('has no URL; add "url": "https://..."')
            return None
        expanded = expand(url, self.reading.url, self._scope_of(content)) if isinstance(url, str) else ""
        if not expanded.startswith(_OUR_SCHEMES if self.reading.is_ours else _SCHEMES):
            raise ConfigError("has a url that does not begin with http:// or https://")
        return expanded

    def _scope_of(self, content: Mapping[str, Any]) -> Scope:
        """Return what references in the URL and the headers refer to."""
        if not self.reading.own_variables:
            return self.scope
        secrets = {name: self.scope.environment[variable] for name, variable in self._secrets(content).items()}
        return self.scope._replace(environment=_texts(content) | secrets)

    def _headers(self, content: Mapping[str, Any]) -> dict[str, str]:
        headers = content.get("headers") or content.get("http_headers") or {}
        if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
            raise ConfigError("has headers that are not an object with string values")
        for key in ("http_headers_helper", "requestHeadersCommand"):  # Codex, Pi
            if content.get(key):
                raise ConfigError(f"gets headers from the command in {key}, which is not run here; set the headers yourself")
        scope = self._scope_of(content)
        found = {name: self._value(name, value, self.reading.headers, scope) for name, value in headers.items()}
        from_variables = content.get("env_http_headers")  # Codex
        for name, variable in from_variables.items() if isinstance(from_variables, dict) else ():
            if isinstance(variable, str) and self.scope.environment.get(variable, "").strip():
                found[name] = f"${{{variable}}}"
        token = self._bearer_token(content)
        return found if token is None else {"Authorization": token} | found

    def _bearer_token(self, content: Mapping[str, Any]) -> str | None:
        """Return the header that Codex and Pi make from a token."""
        variable = content.get("bearer_token_env_var")
        if content.get("auth") == "bearer":  # Pi
            if content.get("bearerTokenStore"):
                raise ConfigError("has its token in a store that is not read here; set bearerTokenEnv to the name of a variable")
            if isinstance(content.get("bearerToken"), str):
                return literal("Bearer " + self._plain("bearerToken", content["bearerToken"], self.reading.headers, self.scope))
            variable = content.get("bearerTokenEnv")
        return f"Bearer ${{{variable}}}" if isinstance(variable, str) else None

    def _value(self, name: str, text: str, passes: Sequence[Syntax], scope: Scope) -> str:
        """Return the value of a variable or a header, which the references of twopipes do not change."""
        if self.reading.is_ours:
            return expand(text, passes, scope)
        expanded = self._plain(name, text, passes, scope)
        if self.reading.names_variables and self.scope.environment.get(expanded):
            return f"${{{expanded}}}"
        return literal(expanded)

    def _plain(self, name: str, text: str, passes: Sequence[Syntax], scope: Scope) -> str:
        """Return a value in which references are replaced. Raises ``ConfigError`` if it is the output of a command."""
        if not self.reading.runs_commands or not text.startswith("!"):
            return expand(text, passes, scope)
        if not text.startswith("!!"):
            raise ConfigError(f"gets {name} from a shell command, which is not run here; use a reference, or set it yourself")
        return expand(text[1:], passes, scope)

    def _expanded(self, text: str, passes: Sequence[Syntax]) -> str:
        return expand(text, passes, self.scope)

    def _timeouts(self) -> Timeouts | None:
        if self.reading.is_ours:
            return _our_timeouts(self.content.get("timeouts"))
        found: dict[str, Any] = {}
        for time in self.reading.times:
            value = found_at(self.content, time.member.split("."))
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _FOREVER:
                raise ConfigError(f"has a {time.member} that is not a number")
            if value or self.reading.zero_is_no_limit:
                found.setdefault(time.limit, value * time.unit or None)
        if not found:
            return None
        # An idle limit that is longer than the hard limit would have no effect.
        request = found.get("request", 0.0)
        return Timeouts(**{**found, "total": None if request is None else max(request, Timeouts().total or 0.0)})

    def _tools(self) -> ToolFilter | None:
        tools = self.content.get("toolFilter", self.content.get("tools"))
        if isinstance(tools, Mapping):  # ours, Hermes, OpenClaw
            given = {name: tools[key] for key, name in _OUR_FILTERS.items() if key in tools}
            return _filter(given | ({"exclude": None} if given.get("include") and self.reading.include_wins else {}))
        include: Any = next((self.content[key] for key in _INCLUDE if self.content.get(key) is not None), tools)
        exclude: Any = next((self.content[key] for key in _EXCLUDE if self.content.get(key)), None)
        if include == [] and self.reading.no_tool_is_listed:
            return ToolFilter(exclude=["*"])
        return _filter({"include": include, "exclude": None if include and self.reading.include_wins else exclude})

    def _sandbox(self) -> Sandbox | Literal[False] | None:
        given = self.content.get("sandbox") if self.reading.is_ours else None
        if given is None or given is False:
            return given
        if given is True:
            return Sandbox()
        if not isinstance(given, Mapping) or given.keys() - set(Sandbox.__struct_fields__):
            members = ", ".join(Sandbox.__struct_fields__)
            raise ConfigError(f"has a sandbox that is not true, false or an object with {members}")
        policy: dict[str, Any] = {key: self._paths(value) if key in {"read", "write"} else value for key, value in given.items()}
        return Sandbox(**policy)

    def _paths(self, given: Any) -> list[str]:
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            raise ConfigError("has a sandbox whose paths are not lists of strings")
        expanded = [os.path.expanduser(self._expanded(each, self.reading.words)) for each in given]
        return [str(self.scope.folder / each) for each in expanded]


def _our_timeouts(given: Any) -> Timeouts | None:
    """Return the limits of the member ``timeouts``, in seconds; ``null`` means no limit."""
    if given is None:
        return None
    names = Timeouts.__struct_fields__
    try:
        found = convert(given, Timeouts)
    except ValidationError:
        found = None
    if found is None or given.keys() - set(names) or not all(value is None or 0 <= value < _FOREVER for value in astuple(found)):
        raise ConfigError(f"has timeouts that are not an object with seconds for some of {', '.join(names)}")
    return found


def _filter(given: Mapping[str, Any]) -> ToolFilter | None:
    found: dict[str, Any] = {
        name: [value] if isinstance(value, str) else value for name, value in given.items() if value not in (None, [])
    }
    for name, value in found.items():
        is_valid = (
            isinstance(value, list) and all(isinstance(each, str) for each in value)
            if name in {"include", "exclude"}
            else isinstance(value, bool)
        )
        if not is_valid:
            raise ConfigError("has a filter for tools that is not valid: patterns are lists of strings, conditions true or false")
    return None if found in ({}, {"include": ["*"]}) else ToolFilter(**found)


def _normalized(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an entry with the usual members: command, args and env."""
    found = dict(content)
    for own, common in {"environment": "env", "envs": "env", "cmd": "command"}.items():
        if own in found and common not in found:
            found[common] = found.pop(own)
    command = found.get("command")
    if isinstance(command, list) and command and "args" not in found:  # opencode
        found["command"], found["args"] = command[0], command[1:]
    elif isinstance(command, dict) and "path" in command:  # Zed until 2025
        found |= {"command": command["path"]} | {key: command[key] for key in ("args", "env") if command.get(key) is not None}
    return found


def _passed_names(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the variables that Codex passes on from its environment."""
    names = content.get("env_vars")
    for each in names if isinstance(names, list) else ():
        name = each.get("name") if isinstance(each, dict) else each
        if isinstance(name, str):
            yield name


def _can_be_passed(name: str, value: str, safe: Mapping[str, str]) -> bool:
    """Return whether a reference can pass a variable on, and the safe ones do not have it already."""
    is_safe = name in safe or name.upper() in safe
    return _NAME.fullmatch(name) is not None and not is_safe and not value.startswith(SHELL_FUNCTION)


def _texts(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of an entry as they are written."""
    env = content.get("env") or {}
    if not isinstance(env, dict) or not all(isinstance(value, str | int | float | None) for value in env.values()):
        raise ConfigError("has an env that is not an object with string values")
    return {name: _text(value) for name, value in env.items() if value is not None}


def _text(value: Any) -> str:
    # Hosts pass numbers and booleans on in their JSON form.
    return value if isinstance(value, str) else json.dumps(value)
