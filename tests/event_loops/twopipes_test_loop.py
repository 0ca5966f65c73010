"""Let every Python of an environment use another event loop: noxfile.py copies this file there, with a .pth file that imports it.

Tests start servers and clients with little of the environment, so a variable would not reach them. TWOPIPES_LOOP in the file
twopipes_test_loop.txt beside this one says which loop: uvloop, or eager for tasks that start at once.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

KIND = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").strip()


class Finder:
    """Changes asyncio when it is imported, because many programs under test never import it."""

    def find_spec(self, name, path=None, target=None):
        """Find asyncio as usual, and change it after its import."""
        if name != "asyncio":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def execute_and_change(module):
            execute(module)
            change(module)

        spec.loader.exec_module = execute_and_change
        return spec


def change(asyncio):
    """Replace what makes event loops, for asyncio.run() and everybody else."""
    original = asyncio.events.new_event_loop

    def new_uvloop():
        if sys.modules.get("ssl", sys) is None:  # twopipes keep does without OpenSSL, which uvloop needs
            return original()
        import uvloop  # noqa: PLC0415 - only programs with a loop need it

        return uvloop.new_event_loop()

    def new_eager_loop():
        loop = original()
        loop.set_task_factory(asyncio.eager_task_factory)
        return loop

    asyncio.events.new_event_loop = asyncio.new_event_loop = {"uvloop": new_uvloop, "eager": new_eager_loop}[KIND]


sys.meta_path.insert(0, Finder())
