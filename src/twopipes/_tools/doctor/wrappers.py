"""Reads from the words of a command which programs start one another."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from msgspec import structs

from twopipes._tools.doctor.observations import Layer

# Stop after this many programs.
_MAX_LENGTH = 8
# Options whose value is a separate word, which must not be mistaken for the program.
_WITH_VALUE = {
    "uv": {"--directory", "--project", "--with", "--python", "-p", "--from", "--env-file", "--extra", "--group", "--index-url"},
    "uvx": {"--from", "--with", "--python", "-p", "--index-url", "--directory"},
    "npx": {"-p", "--package", "--prefix", "-c", "--call"},
    "docker": {"-e", "--env", "-v", "--volume", "--mount", "--name", "-w", "--workdir", "-u", "--user", "--network", "--env-file",
               "-p", "--publish", "--entrypoint", "--platform", "--add-host", "-l", "--label", "-m", "--memory", "-H", "--host",
               "--context", "--config", "-c", "--detach-keys"},
    "compose": {"-f", "--file", "-p", "--project-name", "--project-directory", "--profile", "--env-file", "--index", "-e",
                "--env", "-u", "--user", "-w", "--workdir", "--name", "--entrypoint", "-v", "--volume", "-l", "--label", "--ansi",
                "--progress"},
    "kubectl": {"-n", "--namespace", "-c", "--container", "--context", "--kubeconfig", "--cluster", "--user", "--as", "-f",
                "--filename", "-s", "--server", "--token", "--request-timeout", "--pod-running-timeout", "-v"},
    "python": {"-W", "-X"},
    "node": {"-r", "--require", "--import", "--loader", "--env-file"},
    "timeout": {"-s", "--signal", "-k", "--kill-after"},
    "conda": {"-n", "--name", "-p", "--prefix"},
    "env": {"-u", "--unset", "-C", "--chdir"},
    "nice": {"-n", "--adjustment"},
    "stdbuf": {"-i", "-o", "-e"},
    "sudo": {"-u", "--user", "-g", "--group"},
}  # fmt: skip


def layers_of(argv: Sequence[str]) -> tuple[Layer, ...]:
    """Return the programs that start one another, the outermost first; one layer if there is no wrapper."""
    found: list[Layer] = []
    words = list(argv)
    while words and len(found) < _MAX_LENGTH:
        layer, words = _read_layer(words)
        found.append(layer)
    return tuple(found)


def plain_name(word: str) -> str:
    """Return the name of a program without its folder and without the extension of Windows."""
    name = word.replace("\\", "/").rpartition("/")[2]
    stem, dot, extension = name.rpartition(".")
    return stem if dot and extension.lower() in {"exe", "cmd", "bat", "com"} else name


def _read_layer(words: list[str]) -> tuple[Layer, list[str]]:
    name = plain_name(words[0])
    reader = _python if name.startswith(("python", "pypy")) else _READERS.get(name)
    if reader is not None:
        return reader(name, words[1:])
    return Layer(program=name, does="the server itself, as far as the command shows", script=_if_script(words[0])), []


def _last(name: str, does: str, options: Sequence[str] = (), **facts: str | None) -> tuple[Layer, list[str]]:
    """Return a layer that starts no other program that the command shows."""
    return Layer(program=name, does=does, flags=tuple(options), **facts), []


def _split(name: str, words: list[str]) -> tuple[list[str], list[str]]:
    """Split the words into the options of the program and the rest."""
    with_value = _WITH_VALUE.get(name, set())
    taken = 0
    while taken < len(words) and words[taken].startswith("-") and words[taken] not in {"-", "--"}:
        taken += 2 if words[taken] in with_value else 1
    options, rest = words[:taken], words[taken:]
    return options, rest[1:] if rest[:1] == ["--"] else rest


def _python(name: str, words: list[str]) -> tuple[Layer, list[str]]:
    for position, word in enumerate(words):
        if word in {"-m", "-c"} or (word.startswith("-") and not word.startswith("--") and word[-1:] in {"m", "c"}):
            given = next(iter(words[position + 1 :]), None)
            does = f"runs the module {given}" if word.endswith("m") and given else "runs the code in its arguments"
            return _last(name, does, words[: position + 1], runtime="python", package=given)
        if not word.startswith("-"):
            break
    options, rest = _split("python", words)
    if not rest:
        return _last(name, "reads its program from stdin: no script is given", options, runtime="python")
    return _last(name, f"runs {rest[0]}", options, runtime="python", script=rest[0])


def _node(name: str, words: list[str]) -> tuple[Layer, list[str]]:
    options, rest = _split("node", words)
    if not rest or {"-e", "--eval"} & set(options):
        return _last(name, "runs the code in its arguments", options, runtime="node")
    return _last(name, f"runs {rest[0]}", options, runtime="node", script=rest[0])


def _shell(name: str, words: list[str]) -> tuple[Layer, list[str]]:
    for position, word in enumerate(words):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            text = "".join(words[position + 1 : position + 2])
            return Layer(program=name, does="a shell that runs a line of text", flags=(word,)), _simple_command(text)
    options, rest = _split(name, words)
    script = rest[0] if rest else None
    return _last(name, f"a shell that runs {script or 'what it reads'}", options, script=script)


def _simple_command(text: str) -> list[str]:
    """Return the words of the last command of a shell line, if it is a simple one."""
    try:
        words = shlex.split(text.replace("&&", ";").rpartition(";")[2])
    except ValueError:
        return []
    while words and (words[0] == "exec" or "=" in words[0].partition("/")[0]):
        words = words[1:]
    return words


def _env(name: str, words: list[str]) -> tuple[Layer, list[str]]:
    if words[:1] == ["-S"]:
        words = [*shlex.split(" ".join(words[1:2])), *words[2:]]
    options, rest = _split(name, words)
    while rest and "=" in rest[0]:
        rest = rest[1:]
    return Layer(program=name, does="sets variables and searches PATH", flags=(*options,)), rest


def _plain(name: str, words: list[str]) -> tuple[Layer, list[str]]:
    options, rest = _split(name, words)
    if name == "timeout":
        rest = rest[1:]
    return Layer(program=name, does="starts what follows", flags=(*options,)), rest


def _fetcher(name: str, words: list[str]) -> tuple[Layer, list[str]]:
    options, rest = _split(name, words)
    return _fetch(name, options, rest, "--from", "-p", "--package")


def _fetch(name: str, options: Sequence[str], rest: Sequence[str], *package_options: str) -> tuple[Layer, list[str]]:
    package = _value_of(options, *package_options) or next(iter(rest), None)
    runtime = "python" if name in {"uv", "uvx", "pipx"} else "node"
    return _last(
        name, f"fetches the package {package} if it is not installed, and runs it", options, runtime=runtime, package=package
    )


def _runner(name: str, words: list[str]) -> tuple[Layer, list[str]]:
    before, rest = _split(name, words)
    verb = rest[0] if rest else ""
    options, rest = _split(name, rest[1:])
    options = [*before, *options]
    if verb in {"x", "dlx", "exec"} or (name == "pipx" and verb == "run") or (name == "uv" and verb == "tool"):
        return _fetch(name, options, rest[1:] if verb == "tool" else rest, "--from", "--package")
    if name in {"npm", "pnpm", "yarn"}:
        does = f"runs the script {(rest or [verb])[0]!r} of package.json, and may print its name first"
        return _last(name, does, options, runtime="node")
    if name in {"bun", "deno"}:
        script = (rest or [verb])[0] if verb == "run" else verb
        return _last(name, f"runs {script}", options, runtime="node", script=_if_script(script))
    if verb != "run":
        return _last(name, "starts something", options)
    if rest and rest[0].endswith(".py"):  # uv runs a file by itself
        return _last(name, f"prepares an environment and runs {rest[0]}", options, runtime="python", script=rest[0])
    does = "prepares an environment, maybe by installing into it, and starts what follows"
    return Layer(program=name, does=does, runtime="python", flags=(*options,)), rest


def _docker(name: str, words: list[str]) -> tuple[Layer, list[str]]:
    _, rest = _split("docker", words)
    if rest[:1] == ["compose"]:
        layer, rest = _compose(name, rest[1:])
        return structs.replace(layer, verb=f"compose {layer.verb}"), rest
    if rest[:1] == ["container"]:
        rest = rest[1:]
    verb = rest[0] if rest else ""
    options, rest = _split("docker", rest[1:])
    given = rest[0] if rest else None
    if verb == "exec":
        return _last(name, f"starts a program in the container {given}", options, verb=verb, inside=given)
    does = f"runs the image {given} in a container" if verb == "run" else f"{verb} {given or ''}".strip()
    return _last(name, does, options, package=given, verb=verb or None)


def _compose(name: str, words: list[str]) -> tuple[Layer, list[str]]:
    _, rest = _split("compose", words)
    verb = rest[0] if rest else ""
    options, rest = _split("compose", rest[1:])
    service = rest[0] if rest else None
    does = {"exec": f"starts a program in the service {service}", "run": f"runs the service {service} in a new container"}
    return _last(name, does.get(verb, f"{verb} {service or ''}".strip()), options, verb=verb, inside=service)


def _kubectl(name: str, words: list[str]) -> tuple[Layer, list[str]]:
    # Unlike docker, it allows options anywhere before the command.
    words = words[: words.index("--")] if "--" in words else words
    options: list[str] = []
    plain: list[str] = []
    while words:
        more, words = _split("kubectl", words)
        options += more
        plain += words[:1]
        words = words[1:]
    verb, pod = [*plain, None, None][:2]
    does = f"starts a program in the pod {pod}" if verb == "exec" else " ".join(plain[:2])
    return _last(name, does, options, verb=verb, inside=pod)


def _twopipes(name: str, words: list[str]) -> tuple[Layer, list[str]]:
    rest = words[words.index("--") + 1 :] if words[:1] == ["tap"] and "--" in words else []
    does = {"tap": "records what passes", "run": "serves a Server object", "mock": "answers from a recording"}
    script = words[1].split(":")[0] if words[:1] == ["run"] and len(words) > 1 else None
    layer = Layer(program=name, does=does.get("".join(words[:1]), "twopipes"), runtime=None if rest else "python", script=script)
    return layer, rest


def _cmd(name: str, words: list[str]) -> tuple[Layer, list[str]]:
    while words and words[0].startswith("/"):
        words = words[1:]
    return Layer(program=name, does="the Windows shell, which runs what follows"), words


_READERS: dict[str, Callable[[str, list[str]], tuple[Layer, list[str]]]] = {
    "py": _python,
    "env": _env,
    "kubectl": _kubectl,
    "twopipes": _twopipes,
    "cmd": _cmd,
    **dict.fromkeys(("node", "nodejs", "tsx", "ts-node"), _node),
    **dict.fromkeys(("sh", "bash", "zsh", "dash", "ksh", "fish"), _shell),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _docker),
    **dict.fromkeys(("docker-compose", "podman-compose"), _compose),
    **dict.fromkeys(("npx", "uvx", "bunx", "pnpx"), _fetcher),
    **dict.fromkeys(("uv", "poetry", "pdm", "pipenv", "hatch", "rye", "pipx", "conda", "mamba"), _runner),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun", "deno"), _runner),
    # These only start the command after their own options.
    **dict.fromkeys(("nice", "nohup", "stdbuf", "timeout", "sudo", "time", "ionice", "setsid", "winpty", "xvfb-run"), _plain),
}


def _value_of(options: Sequence[str], *names: str) -> str | None:
    for position, option in enumerate(options):
        name, equals, value = option.partition("=")
        if name in names:
            return value if equals else "".join(options[position + 1 : position + 2]) or None
    return None


def _if_script(word: str) -> str | None:
    return word if word.endswith((".py", ".js", ".mjs", ".cjs", ".ts", ".sh")) else None
