"""Each server of a hub has the sandbox of its entry, or that of the options."""

import json
from pathlib import Path

from processes.launching import python, text_of
from processes.sandboxes import with_every_engine
from processes.test_bridge import modern_call, twopipes
from processes.test_sandbox import CODE


@with_every_engine
def test_each_server_has_the_sandbox_of_the_file_or_of_the_options(engine, launch, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("the secret")
    (tmp_path / "folder").mkdir()
    command, *arguments = python(Path(__file__).with_name("sandboxed_server.py"))
    curious = {"command": command, "args": [*map(str, arguments)], "cwd": str(tmp_path / "folder")}
    open_ = {"read": [*map(str, CODE), str(tmp_path / "outside")], "engine": engine}
    closed = {"read": [*map(str, CODE)], "engine": engine}
    entries = {"plain": curious, "opened": {**curious, "sandbox": open_}, "closed": {**curious, "sandbox": closed}}
    entries["free"] = {**curious, "sandbox": False}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": entries}))
    reading = [option for path in CODE for option in ("--sandbox-read", path)]
    found = {}
    for words in ([], ["--sandbox", *reading]):
        child = launch(twopipes("hub", tmp_path / "servers.json", *words))
        for name in entries:
            answer = child.ask(modern_call(name, f"{name}__read", path=str(tmp_path / "outside" / "secret")))
            found[name, bool(words)] = text_of(answer).partition(":")[0]
        child.finish()
    assert found == {
        ("plain", False): "the secret",
        ("opened", False): "the secret",
        ("closed", False): "refused",
        ("free", False): "the secret",
        ("plain", True): "refused",
        ("opened", True): "the secret",
        ("closed", True): "refused",
        ("free", True): "the secret",
    }
