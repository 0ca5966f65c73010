"""Choose the engine that enforces the policy of a server, and build the command that starts it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import Final

from twopipes._process.command import ServerCommand
from twopipes._process.process_group import Launch
from twopipes._process.sandbox.engine import Engine, Unusable
from twopipes._process.sandbox.view import ViewProblem, view_of
from twopipes.settings import Sandbox

_INSTALL: Final = {
    "bubblewrap": "install bubblewrap (apt install bubblewrap, dnf install bubblewrap)",
    "landlock": 'pip install "twopipes[landlock]"',
}


async def confined(command: ServerCommand, executable: str, environment: Mapping[str, str]) -> Launch:
    """Return the command that starts a server with the policy of ``command.sandbox``. The caller closes its descriptors.

    Raises:
        StartFailed: No engine can enforce the policy here, or the server cannot work with it.
    """
    assert command.sandbox is not None
    argv = [executable, *command.argv[1:]]
    try:
        engine = await asyncio.to_thread(_find_engine, command.sandbox)
        view = view_of(command.sandbox, argv, environment, command.folder())
    except (Unusable, ViewProblem) as problem:
        raise command.failure("sandbox", detail=str(problem)) from None
    return engine.launch(view, argv)


if sys.platform == "linux":
    from twopipes._process.sandbox import bubblewrap, landlock

    _FINDERS: Final[dict[str, Callable[[], Engine]]] = {"bubblewrap": bubblewrap.find, "landlock": landlock.find}
else:
    _FINDERS: Final[dict[str, Callable[[], Engine]]] = {}


def _find_engine(policy: Sandbox) -> Engine:
    """Return the first engine that works here, of those that the policy accepts."""
    if not _FINDERS:
        system = {"darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)
        raise Unusable(f"there is no supported engine on {system}, only on Linux; run it without a sandbox, or in a container")
    wanted = list(_FINDERS) if policy.engine == "auto" else [policy.engine]
    problems = []
    for name in wanted:
        try:
            return _FINDERS[name]()
        except Unusable as problem:
            problems.append(str(problem))
    raise Unusable(f"{'; '.join(problems)}. To fix it: {', or '.join(_INSTALL[name] for name in wanted)}")
