"""The GitHub Action: its script runs the check as a workflow would, and passes on what it finds."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BASH = shutil.which("bash")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.walkthrough,
    pytest.mark.skipif(BASH is None or sys.platform == "win32", reason="the script needs bash"),
]

LOUD = 'print("hello", flush=True)\nfor line in __import__("sys").stdin:\n    pass\n'


@pytest.fixture
def run_action(tmp_path):
    """A function that runs the last step of the action with these inputs, in a folder of its own."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "check")
    defaults = {name: value["default"] for name, value in action["inputs"].items()}
    (tmp_path / "twopipes").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m twopipes "$@"\n')
    (tmp_path / "twopipes").chmod(0o755)

    def run(**inputs):
        values = {**defaults, **inputs}
        inputs_of_step = {name: text for name, text in step["env"].items() if text.startswith("${{ inputs.")}
        given = {name: values[text.removeprefix("${{ inputs.").removesuffix(" }}")] for name, text in inputs_of_step.items()}
        files = {name: str(tmp_path / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            Path(file).write_text("")
        done = subprocess.run(
            [BASH, "-e", "-o", "pipefail", "-c", step["run"]],
            env={**os.environ, **given, **files, "TWOPIPES": str(tmp_path / "twopipes")},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        return done, Path(files["GITHUB_OUTPUT"]).read_text(), Path(files["GITHUB_STEP_SUMMARY"]).read_text()

    return run


def test_a_correct_server_passes(run_action, tmp_path):
    server = ROOT / "examples" / "hello.py"
    done, outputs, summary = run_action(command=f'"{sys.executable}" "{server}"', options="--only FR-04 --revision 2025-11-25")
    assert done.returncode == 0, done.stdout + done.stderr
    assert outputs == "reports=mcp-check\nsarif=mcp-check/report.sarif\n"
    assert json.loads((tmp_path / "mcp-check" / "badge.json").read_text())["message"] == "1 rule passed"
    reports = sorted(path.name for path in (tmp_path / "mcp-check").iterdir())
    assert reports == ["badge.json", "junit.xml", "report.md", "report.sarif", "report.txt"]
    assert "1 rule: 1 passed" in summary


def test_a_server_that_breaks_a_rule_fails_the_job(run_action, tmp_path):
    (tmp_path / "my server.py").write_text(LOUD)
    done, _, summary = run_action(command=f"'{sys.executable}' 'my server.py'", options="--only FR-04 --timeout 2", reports="out")
    assert done.returncode != 0
    assert "```text\n" in summary


@pytest.mark.parametrize("inputs", [{}, {"command": "x", "url": "http://127.0.0.1:1/mcp"}])
def test_exactly_one_server_must_be_given(inputs, run_action):
    done, _, _ = run_action(**inputs)
    assert done.returncode == 2
    assert "::error::Set exactly one of the inputs command and url." in done.stdout


def test_no_input_is_put_into_a_script():
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert [step["run"] for step in action["runs"]["steps"] if "${{" in step.get("run", "")] == []
