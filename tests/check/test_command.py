"""The command line: ``twopipes check``."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from check.healthy import EXAMPLE, new_server
from http_server import serve_asgi
from twopipes._cli import main
from twopipes._tools.check.client_run import CommandDriver, filled_in
from twopipes.errors import LocalProtocolError

FULL_TOUR = Path(__file__).parent / "full_tour.py"
LEGACY_AND_LOUD = """
import json, sys
print("hello", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        info = {"name": "x", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
    elif "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
"""


def check(capsys, *words):
    code = main(["check", *words])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_a_good_server_passes(capsys, tmp_path):
    trace = tmp_path / "trace.jsonl"
    code, out, _ = check(
        capsys, "--only", "FR-02,FR-04,FR-13", "--revision", "2026-07-28", "--trace", str(trace), "--", sys.executable, str(EXAMPLE)
    )
    assert code == 0
    assert "3 rules: 3 passed, 0 failed" in out
    assert trace.stat().st_size > 64 * 1024 * 1024  # the longest line is there as well
    assert b'"lost"' not in trace.read_bytes()
    code, out, _ = check(capsys, "--trace-file", str(trace), "--only", "FR-04", "--format", "json")
    assert code == 0
    assert json.loads(out)["counts"]["passed"] == 1


def test_a_server_that_prints_fails(capsys):
    code, out, _ = check(capsys, "--only", "FR-04", "--", sys.executable, "-c", LEGACY_AND_LOUD)
    assert code == 1
    assert "FAIL  FR-04" in out
    assert "received  hello" in out
    assert "speaks: 2025-06-18" in out


def test_a_client_is_run_with_a_fake_server_in_its_command(capsys):
    code, out, err = check(
        capsys, "--client", "--only", "FR-10,FR-05", "--revision", "2026-07-28", "--", sys.executable, str(FULL_TOUR), "{server}"
    )
    assert (code, err) == (0, "")
    assert "2 rules: 2 passed" in out


def test_a_server_is_checked_at_its_url(capsys):
    with serve_asgi(new_server().asgi()) as port:
        code, out, err = check(capsys, "--only", "HT-10,HT-56", f"http://127.0.0.1:{port}/mcp")
    assert (code, err) == (0, "")
    assert "2 rules: 2 passed, 0 failed" in out


def test_a_client_is_given_the_url_of_a_fake_server(capsys):
    command = [sys.executable, str(FULL_TOUR), "{url}"]
    code, out, err = check(capsys, "--client", "--only", "HT-07,HT-59", "--revision", "2026-07-28", "--", *command)
    assert (code, err) == (0, "")
    assert "2 rules: 2 passed" in out


def test_the_rules_of_http_do_not_count_for_other_transports(capsys):
    _, out, _ = check(capsys, "--only", "HT,PI-01", "--format", "json", "--", sys.executable, "-c", LEGACY_AND_LOUD)
    assert {rule["id"] for rule in json.loads(out)["rules"]} == {"PI-01"}


def test_the_placeholder_is_replaced_by_words_or_quoted_inside_a_word():
    assert filled_in(["run", "{server}", "x"], ["a b", "c"]) == ["run", "a b", "c", "x"]
    assert filled_in(["sh", "-c", "exec client {server}"], ["a b", "c"]) == ["sh", "-c", "exec client 'a b' c"]
    with pytest.raises(LocalProtocolError, match=r"has no \{server\}"):
        CommandDriver(["client"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no server given"),
        (("--only", "XX", "--", "a"), "unknown rule or section 'XX'"),
        (("--explain", "nonsense"), "unknown rule 'nonsense'"),
        (("--call", "echo:{", "--", "a"), "is not JSON"),
        (("--call", "echo", "--", "a"), "NAME:{JSON}"),
        (("--client", "--", "client"), "has no {server}; put it where"),
        (("--client",), "no client given"),
        (("--print", "x"), "--client"),
        (("--client", "--print", "nonsense"), "unknown scenario 'nonsense'"),
        (("--trace-file", "/nowhere"), "cannot be read"),
        (("--revision", "2020-01-01", "--", "a"), "invalid choice"),
        (("--list", "--format", "junit"), "--list has no format junit"),
    ],
)
def test_a_mistake_is_reported_in_one_line(capsys, words, said):
    code, out, err = check(capsys, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_failed_start_has_its_own_exit_code(capsys):
    assert check(capsys, "--", "/nowhere/to/be/found")[0] == 3
    assert check(capsys, "--unix", "/nowhere/to/be/found")[0] == 3
    assert check(capsys, "--client", "--", "/nowhere/to/be/found", "{server}")[0] == 3


def test_the_table_can_be_listed(capsys):
    code, out, _ = check(capsys, "--list", "--only", "FR")
    assert code == 0
    assert out.splitlines()[3].startswith("FR-04  MUST    server")
    code, out, _ = check(capsys, "--explain", "fr-13")
    assert code == 0
    assert "cut_and_joined_messages_are_read" in out
    code, out, _ = check(capsys, "--list", "--only", "FR-04", "--format", "json")
    assert (code, json.loads(out)[0]["id"]) == (0, "FR-04")


def test_a_manually_started_host_is_reported_after_it_disconnects():
    name = "sends-a-request-in-a-modern-revision"
    words = [sys.executable, "-m", "twopipes", "check", "--client", "--print", name, "--only", "FR-10"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as checking:
        shown = next(line for line in checking.stderr if "twopipes._tools.check.relay_process" in line)
        entry = json.loads(next(line for line in checking.stderr if "mcpServers" in line))["mcpServers"]["twopipes-check"]
        assert [entry["command"], *entry["args"]] == shlex.split(shown)
        subprocess.run([sys.executable, str(FULL_TOUR), *shlex.split(shown)], timeout=60, check=True)
        out, _ = checking.communicate(timeout=60)
    assert checking.returncode == 0
    assert "1 rule: 1 passed" in out


def test_one_run_writes_several_reports(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text(LEGACY_AND_LOUD)
    files = [word for form in ("junit", "sarif", "badge", "json") for word in ("--write", f"{form}:report.{form}")]
    code, out, _ = check(capsys, "--only", "FR-04", *files, "--", sys.executable, "server.py")
    assert code == 1
    assert out.startswith("FAIL  FR-04")
    (result,) = json.loads((tmp_path / "report.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "server.py"}
    assert json.loads((tmp_path / "report.badge").read_text())["color"] == "red"
    assert json.loads((tmp_path / "report.json").read_text())["counts"]["error"] == 1
    assert 'failures="1"' in (tmp_path / "report.junit").read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("junit", "write FORMAT:FILE"),
        ("xml:a", "formats: text, json"),
        ("junit:", "write FORMAT:FILE"),
        ("junit:no/a", "no does not exist"),
    ],
)
def test_a_report_that_cannot_be_written(text, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = check(capsys, "--write", text, "--", sys.executable, "server.py")
    assert (code, out) == (2, "")
    assert f"--write {text}: " in err
    assert said in err
