"""Whether a program for containers connects the server's input, and puts no terminal in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from twopipes._tools.doctor.codes import Diagnosis, diagnosis
from twopipes._tools.doctor.observations import Layer, Resolution

__all__ = ["judge_containers"]

# What stands behind the options of each, for people to copy.
_NEED_INPUT: Final = {
    **dict.fromkeys(("docker run", "podman run", "nerdctl run"), "--rm {package}"),
    **dict.fromkeys(("docker exec", "podman exec", "nerdctl exec"), "{inside} COMMAND"),
    "kubectl exec": "{inside} -- COMMAND",
}
# These connect the input by themselves, and some versions of them put a terminal there as well.
_NEED_NO_TERMINAL: Final = {
    f"{program} {verb}"
    for program in ("docker compose", "podman compose", "nerdctl compose", "docker-compose", "podman-compose")
    for verb in ("exec", "run")
}
# Letters of options with a value, which may follow at once: -eTERM=xterm holds no -t.
_LETTERS_WITH_VALUE: Final = "acefhlmnpsuvw"


def judge_containers(resolution: Resolution) -> Iterator[Diagnosis]:
    """What is wrong with the options of ``docker run``, ``kubectl exec`` and their like."""
    for layer in resolution.layers:
        how = f"{layer.program} {layer.verb}"
        if how in _NEED_INPUT:
            rest = _NEED_INPUT[how].format(package=layer.package or "IMAGE", inside=layer.inside or "NAME")
            yield from _judge(layer, how, right=f"{how} -i {rest}")
        elif how in _NEED_NO_TERMINAL and not _has(layer, "T", "--no-tty", "--no-TTY"):
            yield diagnosis(
                "compose-without-no-tty",
                f"{how} without -T",
                "older versions make a terminal unless they are told not to: they refuse to start, or it echoes what is sent",
                f"{how} -T {layer.inside or 'SERVICE'}{' COMMAND' if how.endswith('exec') else ''}",
            )


def _judge(layer: Layer, how: str, *, right: str) -> Iterator[Diagnosis]:
    if not _has(layer, "i", "--interactive", "--stdin"):
        yield diagnosis(
            "docker-without-stdin",
            f"{how} without -i",
            "the server's standard input is not connected, so it reads its end at once",
            right,
        )
    if _has(layer, "t", "--tty"):
        yield diagnosis(
            "docker-with-terminal",
            f"{how} with -t",
            "a terminal echoes what is sent and changes the ends of lines",
            f"leave -t out: {right}",
        )


def _has(layer: Layer, letter: str, *names: str) -> bool:
    """Whether a switch is on: by ``-i``, ``-it``, ``--interactive`` or ``--interactive=true``."""
    for flag in layer.flags:
        name, _, value = flag.partition("=")
        if name in (f"-{letter}", *names):
            if value not in {"false", "False", "FALSE", "f", "F", "0"}:
                return True
        elif name.startswith("-") and not name.startswith("--") and letter in _switches(name):
            return True
    return False


def _switches(word: str) -> Iterator[str]:
    """The letters of a word such as ``-it``, up to one that has a value."""
    for letter in word[1:]:
        yield letter
        if letter in _LETTERS_WITH_VALUE:
            return
