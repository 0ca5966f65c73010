"""Cannot be read by Python; its mistake is behind a door, so that no tool of ours stumbles over it."""

from pathlib import Path

exec(compile("def serve(:\n    pass\n", Path(__file__).name, "exec"))
