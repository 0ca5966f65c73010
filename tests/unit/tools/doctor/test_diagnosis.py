"""What the doctor makes of what it sees. Nothing is started here."""

import pytest
from msgspec import structs

from twopipes import _jsonrpc as jsonrpc
from twopipes._cli import main
from twopipes._process.command import ServerCommand
from twopipes._rules.table import RULES
from twopipes._tools.doctor.clues import clue_in, error_line, relevant_lines
from twopipes._tools.doctor.codes import CODES
from twopipes._tools.doctor.diagnose import diagnose
from twopipes._tools.doctor.display import steps_of_attempt, steps_of_resolution
from twopipes._tools.doctor.observations import Attempt, Ending, Exit, Listed, Observations, Reply, Resolution, StrayLine
from twopipes._tools.doctor.resolve import resolve
from twopipes._tools.doctor.stdout_reader import StdoutReader
from twopipes._tools.doctor.stray_lines import kind_of, source_of
from twopipes._tools.doctor.wrappers import layers_of
from twopipes._wire import LineRejected

HEALTHY_END = Ending(asked_by="eof", took=0.1, exit=Exit(0, None, "exit code 0"), ended_by="eof")
GOOD = Attempt(
    purpose="handshake",
    revision="2025-11-25",
    outcome="agreed",
    chosen=("2025-11-25",),
    first_byte=0.1,
    answered=0.1,
    answers=(Reply(method="initialize", took=0.1, usable=True),),
    ending=HEALTHY_END,
)
PROBE = structs.replace(GOOD, purpose="discover", revision="2026-07-28", chosen=("2026-07-28",))
SILENT = structs.replace(GOOD, outcome="silent", chosen=(), first_byte=None, answered=None, answers=(Reply(method="initialize"),))


def observed(*attempts, argv=("python", "server.py"), **options):
    resolution = Resolution(argv=argv, folder="/", found=f"/usr/bin/{argv[0]}", layers=layers_of(argv))
    return Observations(resolution=resolution, attempts=attempts, **options)


def codes(*attempts, **options):
    return [each.code for each in diagnose(observed(*attempts, **options))]


# Commands


@pytest.mark.parametrize(
    ("line", "programs", "runtime", "script", "package"),
    [
        ("python server.py --x", ["python"], "python", "server.py", None),
        ("/opt/py/bin/python3.12 -u -X utf8 server.py", ["python3.12"], "python", "server.py", None),
        ("python -m weather", ["python"], "python", None, "weather"),
        ("node --import tsx dist/index.js", ["node"], "node", "dist/index.js", None),
        ("npx -y @scope/server@1.2 /tmp", ["npx"], "node", None, "@scope/server@1.2"),
        ("npx -p package-of-it command", ["npx"], "node", None, "package-of-it"),
        ("uvx --from git+x mcp-server-time", ["uvx"], "python", None, "git+x"),
        ("uv run --directory /p server.py", ["uv"], "python", "server.py", None),
        ("uv --directory /p run python -u main.py", ["uv", "python"], "python", "main.py", None),
        ("uv tool run mcp-server-time", ["uv"], "python", None, "mcp-server-time"),
        ("env A=1 B=2 nice -n 5 python3 s.py", ["env", "nice", "python3"], "python", "s.py", None),
        ("timeout -k 1 5 node s.mjs", ["timeout", "node"], "node", "s.mjs", None),
        ("npm run --silent start", ["npm"], "node", None, None),
        ("docker run -i --rm -e KEY image:1 arg", ["docker"], None, None, "image:1"),
        ("docker exec -i box python s.py", ["docker"], None, None, None),
        ("twopipes tap -o x.jsonl -- python s.py", ["twopipes", "python"], "python", "s.py", None),
        ("cmd.exe /c npx.cmd -y thing", ["cmd", "npx"], "node", None, "thing"),
        ("weather-server --stdio", ["weather-server"], None, None, None),
    ],
)
def test_a_command_is_unwrapped(line, programs, runtime, script, package):
    resolution = Resolution(argv=tuple(line.split()), folder="/", layers=layers_of(line.split()))
    assert [layer.program for layer in resolution.layers] == programs
    assert (resolution.runtime, resolution.script) == (runtime, script)
    assert next((layer.package for layer in resolution.layers if layer.package), None) == package


def test_the_line_of_a_shell_is_unwrapped():
    layers = layers_of(["bash", "-lc", "cd /srv && A=1 exec python 'my server.py'"])
    assert [layer.program for layer in layers] == ["bash", "python"]
    assert layers[-1].script == "my server.py"
    assert [layer.program for layer in layers_of(["sh", "-c", "echo 'unbalanced"])] == ["sh"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("docker run --rm image", "docker-without-stdin"),
        ("docker run -it image", "docker-with-terminal"),
        ("podman run --interactive --tty image", "docker-with-terminal"),
        ("docker run -i --rm image", None),
        ("docker run -eTERM=xterm -i image -t", None),
        ("docker run -uinit image", "docker-without-stdin"),
        ("docker run --interactive=false image", "docker-without-stdin"),
        ("docker --context there container run image", "docker-without-stdin"),
        ("docker exec -i container server", None),
        ("docker exec container server -i", "docker-without-stdin"),
        ("podman exec -u me -ti container server", "docker-with-terminal"),
        ("kubectl exec -i -c app notes-0 -- server -t", None),
        ("kubectl exec notes-0 --stdin -- server", None),
        ("kubectl -n there exec notes-0 -- server -i", "docker-without-stdin"),
        ("kubectl exec -it notes-0 -- server", "docker-with-terminal"),
        ("kubectl get pods", None),
        ("docker compose -f c.yaml exec -T notes server", None),
        ("docker compose exec --no-tty notes server", None),
        ("docker compose exec notes server -T", "compose-without-no-tty"),
        ("docker-compose -p x run --rm notes", "compose-without-no-tty"),
        ("docker compose up", None),
        ("docker", None),
        ("kubectl", None),
    ],
)
def test_a_container_gets_its_input_and_no_terminal(line, code):
    assert codes(GOOD, PROBE, argv=tuple(line.split())) == ([code] if code else [])


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("docker run image", "docker run -i --rm image"),
        ("podman exec box server", "podman exec -i box COMMAND"),
        ("kubectl exec notes-0 -- server", "kubectl exec -i notes-0 -- COMMAND"),
        ("docker compose exec notes server", "docker compose exec -T notes COMMAND"),
        ("docker-compose run notes", "docker-compose run -T notes"),
    ],
)
def test_the_fix_for_a_container_is_shown(line, right):
    (found,) = diagnose(observed(GOOD, PROBE, argv=tuple(line.split())))
    assert found.fix == right


def test_words_that_a_shell_would_expand_are_reported():
    assert resolve(ServerCommand(["ls", "~/x", "$HOME_OF_IT/y", "a$b"])).not_expanded == ("~/x", "$HOME_OF_IT/y")
    assert resolve(ServerCommand(["sh", "-c", "echo $HOME"])).not_expanded == ()


# Last words


@pytest.mark.parametrize(
    ("lines", "code", "about"),
    [
        (["ModuleNotFoundError: No module named 'mcp'"], "module-not-found", "mcp"),
        (["/usr/bin/python3: No module named weather"], "module-not-found", "weather"),
        (["Error: Cannot find module 'express'"], "module-not-found", "express"),
        (["Error: Cannot find module '/srv/dist/index.js'"], "script-not-found", "/srv/dist/index.js"),
        (["python: can't open file '/x/y.py': [Errno 2] No such file or directory"], "script-not-found", "/x/y.py"),
        (["Error: GITHUB_TOKEN environment variable is required"], "environment-variable-missing", "GITHUB_TOKEN"),
        (["Please set the environment variable API_KEY"], "environment-variable-missing", "API_KEY"),
        (["ValueError: OPENAI_API_KEY is not set"], "environment-variable-missing", "OPENAI_API_KEY"),
        (["Missing required BRAVE_API_KEY"], "environment-variable-missing", "BRAVE_API_KEY"),
        (['  X = os.environ["TOKEN"]', "KeyError: 'TOKEN'"], "environment-variable-missing", "TOKEN"),
        (["Error: listen EADDRINUSE: address already in use :::3000"], "address-in-use", ": address already in use :::3000"),
        (["OSError: [WinError 10048] only one usage"], "address-in-use", "] only one usage"),
        (["npm error 404 Not Found - GET x"], "package-not-found", "404 Not Found - GET x"),
        (["npm error code E404"], "package-not-found", "E404"),
        (["getaddrinfo ENOTFOUND registry"], "no-network", ""),
        (["  File x", "SyntaxError: invalid syntax"], "syntax-error", "SyntaxError: invalid syntax"),
        (["PermissionError: [Errno 13]: '/x'"], "permission-denied", "PermissionError: [Errno 13]: '/x'"),
        (["usage: server [-h] --allow A", "server: error: the following arguments are required: --allow"], "wrong-arguments",
         "error: the following arguments are required: --allow"),
        (["Error: a token is required. Set PRIVATE_APP_TOKEN in your environment variables and retry."],
         "environment-variable-missing", "PRIVATE_APP_TOKEN"),
        (["npm error code E404", "npm error 404  The requested resource 'no-such@*' could not be found or you do not",
          "npm error 404 Note that you can also install from a"], "package-not-found", "no-such"),
        (["Usage: server FOLDER", "", "Error: Missing argument 'FOLDER'."], "wrong-arguments", "Missing argument 'FOLDER'."),
        (["error: unexpected argument '-x' found", "", "Usage: server"], "wrong-arguments",
         "error: unexpected argument '-x' found"),
        (["TypeError [ERR_PARSE_ARGS_UNKNOWN_OPTION]: Unknown option '-x'"], "wrong-arguments", "Unknown option '-x'"),
        (["flag provided but not defined: -x", "Usage of server:"], "wrong-arguments", "flag provided but not defined: -x"),
    ],
)  # fmt: skip
def test_known_error_messages_are_recognised(lines, code, about):
    found = clue_in(lines)
    assert (found.code, found.about) == (code, about)
    assert code in CODES


@pytest.mark.parametrize("line", ["KeyError: 'TOKEN'", "it just broke", "HTTP_1_1 connection to SOME_HOST", ""])
def test_other_messages_are_not_clues(line):
    assert clue_in([line]) is None


NODE = [
    "node:internal/modules/cjs/loader:1210",
    "  throw err;",
    "  ^",
    "",
    "Error: Cannot find module 'express'",
    "Require stack:",
    "- /srv/server.js",
    *(f"    at Module.load{number} (node:internal/modules/cjs/loader:{number}:32)" for number in range(20)),
    "    at node:internal/main/run_main_module:28:49 {",
    "  code: 'MODULE_NOT_FOUND',",
    "  requireStack: [ '/srv/server.js' ]",
    "}",
    "",
    "Node.js v20.20.2",
]
PYTHON = [
    "Traceback (most recent call last):",
    *(f'  File "/srv/server.py", line {number}, in <module>' for number in range(20)),
    "    serve()",
    "    ~~~~~^^",
    "ValueError: no such folder: /data",
]


@pytest.mark.parametrize(
    ("lines", "main"),
    [
        (NODE, "Error: Cannot find module 'express'"),
        (PYTHON, "ValueError: no such folder: /data"),
        (
            ["FATAL: no database", *(f"    at f{number} (x.js:1:2)" for number in range(20)), "Node.js v20.20.2"],
            "FATAL: no database",
        ),
        (["2026-01-02 ERROR: disk full", "cleaning up", "bye"], "2026-01-02 ERROR: disk full"),
        (["Usage: server FOLDER", "the folder does not exist"], "the folder does not exist"),
        (["something is wrong", "}"], "something is wrong"),
        (["    indented", ""], "indented"),
    ],
)
def test_the_line_that_states_the_error_is_found_wherever_it_is(lines, main):
    assert error_line(lines) == main
    assert main in [line.strip() for line in relevant_lines(lines)]


@pytest.mark.parametrize("lines", [[], ["", "  "], ["}", "Node.js v20.20.2"]])
def test_filler_does_not_state_an_error(lines):
    assert error_line(lines) is None
    assert relevant_lines(lines) == tuple(line for line in lines if line.strip())


def test_what_is_quoted_of_a_failure_is_short_and_in_order():
    assert relevant_lines(NODE) == (
        "node:internal/modules/cjs/loader:1210",
        "  throw err;",
        "Error: Cannot find module 'express'",
        "Require stack:",
        "- /srv/server.js",
    )
    assert relevant_lines(PYTHON)[-2:] == ("    serve()", "ValueError: no such folder: /data")
    assert [len(line) for line in relevant_lines(["Error: " + "x" * 10_000])] == [240]


def test_every_error_among_many_lines_is_quoted_before_what_is_around_it():
    lines = ["FATAL: no database", *(f"retrying {number}" for number in range(20)), "Error: gave up"]
    assert relevant_lines(lines) == ("FATAL: no database", "retrying 17", "retrying 18", "retrying 19", "Error: gave up")


# Lines on stdout


def refused(line):
    return jsonrpc.decode(line.encode())


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Server is running", "text"),
        ("2026-01-02 03:04:05,678 - INFO - ready", "log"),
        ("INFO:root:ready", "log"),
        ("[info] ready", "text"),
        ('{"level":30,"time":1,"msg":"ready"}', "log"),
        ('{"ready":true}', "other JSON"),
        ("[1]", "other JSON"),
        ("42", "text"),
        ("added 12 packages in 3s", "installer"),
        ("> weather@1.0.0 start", "installer"),
        ("\x1b[32mready\x1b[0m", "terminal codes"),
        ("Traceback (most recent call last):", "traceback"),
        ("Content-Length: 12", "content-length"),
        ('{"jsonrpc":"2.0","id":null,"result":{}}', "malformed message"),
        ('{"id":1,"result":{}}', "malformed message"),
    ],
)
def test_a_line_that_is_not_a_message_is_classified(line, kind):
    found = refused(line)
    assert isinstance(found, LineRejected)
    assert kind_of(found) == kind


def test_the_line_that_prints_a_text_is_found():
    source = 'import x\nname = "Weather"\nprint(f"Weather server {version} is up")\n'
    assert source_of("Weather server 1.2 is up", "s.py", source) == 's.py:3: print(f"Weather server {version} is up")'
    assert source_of("something else entirely", "s.py", source) is None
    assert source_of("12", "s.py", source) is None


def test_a_response_over_several_lines_ends_the_wait():
    reader = StdoutReader()
    reader.expect(1, "initialize")
    reader.feed(b'{\n  "jsonrpc": "2.0",\n  "id": 1,\n  "result": {}\n', 0.1)
    assert reader.response is None
    reader.feed(b"}\n", 0.2)
    assert reader.response.fault is not None


def test_requests_of_the_server_get_a_response():
    reader = StdoutReader()
    reader.feed(b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n{"jsonrpc":"2.0","id":8,"method":"roots/list"}\n', 0.1)
    assert [jsonrpc.decode(line).id for line in reader.to_send] == [7, 8]
    assert reader.strays == []


def test_a_crlf_split_between_two_reads_is_seen():
    reader = StdoutReader()
    reader.feed(b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"x"}\r', 0.1)
    reader.feed(b"\n", 0.2)
    assert (reader.byte_order_mark, reader.carriage_returns, reader.messages) == (True, True, 1)


def test_the_line_ends_of_noise_are_not_those_of_messages():
    reader = StdoutReader()
    reader.feed(b'starting\r\n{"jsonrpc":"2.0","method":"x"}\n', 0.1)
    assert (reader.carriage_returns, reader.stray_count, reader.messages) == (False, 1, 1)
    reader.feed(b'{"jsonrpc":"2.0","method":"x"}\r\n', 0.2)
    assert reader.carriage_returns


# Judgements


def test_a_healthy_server_gets_no_diagnosis():
    assert codes(GOOD, PROBE) == []


def test_errors_come_first():
    stray = StrayLine(at=0.0, kind="text", text="hello", before_messages=True)
    noisy = structs.replace(
        GOOD, strays=(stray,), stray_count=1, ending=structs.replace(HEALTHY_END, took=None, ended_by="SIGTERM")
    )
    assert codes(noisy, PROBE) == ["noise-on-stdout", "ignores-eof"]


def test_every_rule_that_a_diagnosis_cites_applies_to_servers():
    cited = {rule for code in CODES.values() for rule in code.rules}
    assert {rule: RULES[rule].side for rule in cited if RULES[rule].side == "client"} == {}


def gone(*stderr, code=1):
    return structs.replace(
        SILENT, outcome="gone", stderr=stderr, exit=Exit(code, None, f"exit code {code}"), lived=0.1, ending=None
    )


def test_a_missing_module_is_installed_with_the_tools_of_its_language():
    (node,) = diagnose(observed(gone(*NODE), argv=("node", "server.js")))
    (python,) = diagnose(observed(gone("ModuleNotFoundError: No module named 'mcp'")))
    assert ("npm install" in node.fix, ".venv/bin/python" in node.fix) == (True, False)
    assert ("npm install" in python.fix, ".venv/bin/python" in python.fix) == (False, True)


def test_the_cause_does_not_repeat_the_error():
    (found,) = diagnose(observed(gone("Usage: server FOLDER", "", "Error: Missing argument 'FOLDER'.", code=2)))
    assert found.what == "it exits (exit code 2) before it responds: Error: Missing argument 'FOLDER'."
    assert "FOLDER" not in found.cause
    (found,) = diagnose(observed(gone("Usage: server FOLDER")))
    assert (found.code, "FOLDER" in found.what + found.cause) == ("wrong-arguments", False)


def test_usage_with_exit_code_0_is_help_and_an_error_with_exit_code_0_is_an_error():
    assert [each.code for each in diagnose(observed(gone("Usage: server FOLDER", code=0)))] == ["exits-at-once"]
    assert [each.code for each in diagnose(observed(gone("Error: Missing argument 'X'.", code=0)))] == ["wrong-arguments"]


def test_the_error_line_is_quoted_in_the_cause():
    (found,) = diagnose(observed(gone("the flux capacitor is empty", "}")))
    assert found.cause == "it wrote: the flux capacitor is empty"
    (found,) = diagnose(observed(gone()))
    assert found.cause == "it wrote nothing to stderr"


@pytest.mark.parametrize(
    ("answer", "rules"),
    [
        (Reply(method="tools/list"), ("JR-16",)),
        (Reply(method="tools/list", took=0.1, code=-32601, message="Method not found"), ()),
        (Reply(method="tools/list", took=0.1, code=-32603, message="Internal error"), ()),
        (Reply(method="prompts/list", took=0.1, message="its result has no list 'prompts'"), ("PM-01",)),
    ],
)
def test_a_failed_list_cites_a_rule_only_if_it_breaks_one(answer, rules):
    (found,) = diagnose(observed(structs.replace(GOOD, answers=(*GOOD.answers, answer)), PROBE))
    assert (found.code, found.rules) == ("list-failed", rules)


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ('{"id":1,"result":{}}', ("JR-01",)),
        ('{"jsonrpc":"2.0","id":null,"result":{}}', ("JR-06",)),
        ('{"jsonrpc":"2.0","id":1,"result":5}', ("JR-07",)),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":"no","message":"x"}}', ("JR-08",)),
    ],
)
def test_a_malformed_message_cites_the_rule_about_the_faulty_member(line, rules):
    reader = StdoutReader()
    reader.expect(1, "initialize")
    reader.feed(f"{line}\n".encode(), 0.1)
    (found,) = diagnose(observed(structs.replace(GOOD, outcome="unusable", strays=tuple(reader.strays), stray_count=1), PROBE))[:1]
    assert (found.code, found.rules) == ("malformed-message", rules)


def test_every_list_that_fails_is_named():
    failed = [Reply(method=f"{kind}/list", took=0.1, code=-32601, message="Method not found") for kind in ("resources", "prompts")]
    (found,) = diagnose(observed(structs.replace(GOOD, answers=(*GOOD.answers, *failed)), PROBE))
    assert found.what == ("resources/list fails: Method not found (-32601); prompts/list fails: Method not found (-32601)")


def test_only_a_server_that_declares_nothing_is_reported_to_offer_nothing():
    empty = structs.replace(GOOD, listed=Listed())
    assert "offers" in [step.label for step in steps_of_attempt(empty)]
    tried = structs.replace(empty, answers=(*GOOD.answers, Reply(method="tools/list")))
    assert "offers" not in [step.label for step in steps_of_attempt(tried)]
    unreached = structs.replace(GOOD, answers=(*GOOD.answers, Reply(method="ping")))
    assert "ping" in [step.label for step in steps_of_attempt(unreached)]


def test_a_modern_server_that_refuses_the_handshake_breaks_no_rule():
    refusing = structs.replace(GOOD, outcome="refused", chosen=(), answers=(Reply(method="initialize", took=0.1, code=-32022),))
    (found,) = diagnose(observed(refusing, PROBE))
    assert (found.code, found.rules) == ("modern-only", ())  # DE-09


def test_noise_while_the_server_runs_takes_precedence_over_noise_at_exit():
    stray = StrayLine(at=0.0, kind="text", text="bye", while_ending=True)
    running = StrayLine(at=0.0, kind="text", text="hello")
    assert codes(structs.replace(GOOD, strays=(stray,), stray_count=1), PROBE) == ["noise-at-exit"]
    assert codes(structs.replace(GOOD, strays=(running, stray), stray_count=2), PROBE) == ["noise-on-stdout"]
    # What was in a buffer until the end was not written there because of the end.
    buffered = structs.replace(stray, before_messages=True)
    assert codes(structs.replace(GOOD, strays=(buffered,), stray_count=1), PROBE) == ["noise-on-stdout"]


def test_a_line_after_the_server_was_asked_to_exit_is_marked():
    reader = StdoutReader()
    reader.feed(b"hello\n", 0.1)
    reader.is_ending = True
    reader.feed(b"bye\n", 0.2)
    assert [stray.while_ending for stray in reader.strays] == [False, True]


def test_silence_is_not_blamed_on_the_revision():
    assert codes(SILENT, structs.replace(SILENT, purpose="discover", revision="2026-07-28")) == ["never-answers"]


def test_a_server_that_never_responded_is_not_reported_for_ignoring_eof():
    slow = structs.replace(SILENT, ending=structs.replace(HEALTHY_END, took=None, ended_by="SIGTERM"))
    assert codes(slow, structs.replace(SILENT, purpose="discover", revision="2026-07-28")) == ["never-answers"]
    staying = structs.replace(GOOD, ending=slow.ending)
    assert codes(staying, PROBE) == ["ignores-eof"]


def test_a_response_at_eof_is_blamed_on_buffering_only_with_proof():
    late = structs.replace(SILENT, outcome="at eof")
    unbuffered = structs.replace(GOOD, purpose="unbuffered")
    assert codes(late, unbuffered) == ["stdout-not-flushed"]
    assert codes(late, structs.replace(late, purpose="unbuffered")) == ["reads-until-eof"]
    assert codes(late, argv=("weather-server",)) == ["stdout-not-flushed"]


def test_a_slow_start_is_slow_in_every_process():
    slow = structs.replace(GOOD, answered=9.0)
    assert codes(slow, structs.replace(PROBE, answered=9.0), slow=5.0) == ["slow-start"]
    assert codes(slow, PROBE, slow=5.0) == []


def test_each_step_has_a_text():
    assert [step.mark for step in steps_of_attempt(GOOD)] == ["good", "good", "good", "good"]
    assert next(steps_of_resolution(observed().resolution)).mark == "good"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--"],
        ["--timeout", "soon", "--", "x"],
        ["--grace", "-1", "--", "x"],
        ["--slow", "nan", "--", "x"],
        ["--server", "x", "--", "y"],
        ["--config", "/nowhere.json"],
        ["--unix", "x"],
    ],
)
def test_a_wrong_command_line_is_rejected_in_one_line(words, capsys):
    assert main(["doctor", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
