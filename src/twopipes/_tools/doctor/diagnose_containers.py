"""Checks the options of docker, podman, nerdctl and kubectl: stdin must be connected, without a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from twopipes._tools.doctor.codes import Diagnosis, diagnosis
from twopipes._tools.doctor.observations import Layer, Resolution

# What follows the options of each, for the fix that people copy.
_NEED_INPUT: Final = {
    **dict.fromkeys(("docker run", "podman run", "nerdctl run"), "--rm {package}"),
    **dict.fromkeys(("docker exec", "podman exec", "nerdctl exec"), "{inside} COMMAND"),
    "kubectl exec": "{inside} -- COMMAND",
}
# These connect stdin without an option, but some versions allocate a terminal as well.
_NEED_NO_TERMINAL: Final = {
    f"{program} {verb}"
    for program in ("docker compose", "podman compose", "nerdctl compose", "docker-compose", "podman-compose")
    for verb in ("exec", "run")
}
# Short options with a value, which may follow directly: -eTERM=xterm does not contain -t.
_LETTERS_WITH_VALUE: Final = "acefhlmnpsuvw"


def diagnose_containers(resolution: Resolution) -> Iterator[Diagnosis]:
    """Diagnose the options of ``docker run``, ``kubectl exec`` and similar commands."""
    for layer in resolution.layers:
        how = f"{layer.program} {layer.verb}"
        if how in _NEED_INPUT:
            rest = _NEED_INPUT[how].format(package=layer.package or "IMAGE", inside=layer.inside or "NAME")
            yield from _diagnose_options(layer, how, right=f"{how} -i {rest}")
        elif how in _NEED_NO_TERMINAL and not _has(layer, "T", "--no-tty", "--no-TTY"):
            yield diagnosis(
                "compose-without-no-tty",
                f"{how} without -T",
                "older versions allocate a terminal by default; then they refuse to start, or the terminal echoes what is sent",
                f"{how} -T {layer.inside or 'SERVICE'}{' COMMAND' if how.endswith('exec') else ''}",
            )


def _diagnose_options(layer: Layer, how: str, *, right: str) -> Iterator[Diagnosis]:
    if not _has(layer, "i", "--interactive", "--stdin"):
        yield diagnosis(
            "docker-without-stdin",
            f"{how} without -i",
            "the server's standard input is not connected, so it reads EOF at once",
            right,
        )
    if _has(layer, "t", "--tty"):
        yield diagnosis(
            "docker-with-terminal",
            f"{how} with -t",
            "a terminal echoes what is sent and changes line endings",
            f"leave -t out: {right}",
        )


def _has(layer: Layer, letter: str, *names: str) -> bool:
    """Whether a switch is on, as ``-i``, ``-it``, ``--interactive`` or ``--interactive=true``."""
    for flag in layer.flags:
        name, _, value = flag.partition("=")
        if name in (f"-{letter}", *names):
            if value not in {"false", "False", "FALSE", "f", "F", "0"}:
                return True
        elif name.startswith("-") and not name.startswith("--") and letter in _switches(name):
            return True
    return False


def _switches(word: str) -> Iterator[str]:
    """Yield the letters of a word such as ``-it``, up to one that has a value."""
    for letter in word[1:]:
        yield letter
        if letter in _LETTERS_WITH_VALUE:
            return
