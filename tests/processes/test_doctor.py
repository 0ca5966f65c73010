"""The doctor examines broken servers. The tests compare the diagnosis, not its words."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from processes.children import is_running
from processes.launching import ENVIRONMENT, EXAMPLES, NET
from systems import WINDOWS, WINE
from twopipes._process.command import ServerCommand
from twopipes._tools.doctor.codes import CODES
from twopipes._tools.doctor.diagnose import diagnose
from twopipes._tools.doctor.display import steps_of_attempt
from twopipes._tools.doctor.examination import DoctorTimeouts, Examination

if sys.platform != "win32":
    import pty

BROKEN = Path(__file__).parent / "broken_servers"
GUIDE = Path(__file__).parents[2] / "docs" / "howto" / "a-server-that-will-not-connect.md"
# Servers that are examined concurrently. They mostly wait.
AT_ONCE = 6

# Long enough for a busy machine; a server that behaves as expected never reaches these limits.
PATIENT = DoctorTimeouts(answer=30, grace=10, total=60, slow=30, quick=True)
# For servers that let the doctor run into one of the limits.
SHORT_RESPONSE = DoctorTimeouts(answer=2, grace=10, total=60, slow=30, quick=True)
VERY_SHORT_RESPONSE = DoctorTimeouts(answer=0.7, grace=10, total=60, slow=30, quick=True)
SHORT_CLEANUP = DoctorTimeouts(answer=30, grace=2, total=60, slow=30, quick=True)
SHORT_GRACE = DoctorTimeouts(answer=30, grace=0.3, total=60, slow=30, quick=True)
ALL_REVISIONS = DoctorTimeouts(answer=30, grace=10, total=60, slow=30)

EXITING = {
    "missing_module": (PATIENT, {"module-not-found"}),
    "syntax_error": (PATIENT, {"syntax-error"}),
    "crashes": (PATIENT, {"crashes-at-start"}),
    "usage": (PATIENT, {"wrong-arguments"}),
    "port_taken": (PATIENT, {"address-in-use"}),
    "exits_at_once": (PATIENT, {"exits-at-once"}),
    "one_response": (PATIENT, {"exits-after-opening"}),
    "needs_variable": (PATIENT, {"environment-variable-missing"}),
    "closes_stdout": (PATIENT, {"closes-stdout"}),
    "dies_on_probe": (PATIENT, {"dies-on-probe"}),
    "crashes_at_list": (PATIENT, {"exits-after-opening"}),
    "npm_package_missing": (PATIENT, {"module-not-found"}),
    "usage_and_error": (PATIENT, {"wrong-arguments"}),
    "error_and_exit_0": (PATIENT, {"wrong-arguments"}),
}
WAITING = {
    "silent": (VERY_SHORT_RESPONSE, {"never-answers"}),
    "unflushed": (SHORT_RESPONSE, {"stdout-not-flushed"}),
    "reads_until_eof": (VERY_SHORT_RESPONSE, {"reads-until-eof"}),
    "newline_missing": (SHORT_RESPONSE, {"newline-missing"}),
    "content_length": (SHORT_RESPONSE, {"content-length-framing"}),
    "ignores_probe": (SHORT_RESPONSE, {"probe-unanswered"}),
    "stubborn": (SHORT_GRACE, {"ignores-eof", "ignores-sigterm"}),
    "leaves_a_child": (SHORT_CLEANUP, {"leaves-processes-behind"}),
    "leaves_a_daemon": (SHORT_CLEANUP, {"leaves-processes-behind"}),
    "slow_start": (DoctorTimeouts(answer=30, grace=10, total=60, slow=0.5, quick=True), {"slow-start"}),
}
TALKING = {
    "polite": (PATIENT, set()),
    "fails_at_eof": (PATIENT, set()),
    "banner": (PATIENT, {"noise-on-stdout"}),
    "logs_to_stdout": (PATIENT, {"noise-on-stdout"}),
    "pretty_printed": (PATIENT, {"pretty-printed-json"}),
    "latin_1": (PATIENT, {"not-utf-8"}),
    "windows_output": (PATIENT, {"byte-order-mark", "carriage-returns"}),
    "string_id": (PATIENT, {"wrong-id"}),
    "null_id": (PATIENT, {"malformed-message"}),
    "strange_revision": (PATIENT, {"strange-revision"}),
    "refuses_everything": (PATIENT, {"no-common-revision"}),
    "refuses_older": (ALL_REVISIONS, {"revision-refused"}),
    "modern_only": (PATIENT, {"modern-only"}),
    "bad_tools": (PATIENT, {"bad-tool"}),
    "no_list": (PATIENT, {"list-failed"}),
    "internal_error": (PATIENT, {"list-failed"}),
    "watched": (PATIENT, set()),
    "prints_at_sigterm": (PATIENT, {"noise-at-exit"}),
}


# Windows has no SIGTERM and passes no descriptors on, and only Linux shows which processes a server leaves behind.
NOT_HERE = {"stubborn", "leaves_a_child", "leaves_a_daemon", "prints_at_sigterm", "watched"} if WINDOWS else set()
# A process there keeps copies of its standard streams, so closing one is not the end of the stream.
NOT_HERE |= {"closes_stdout"} if WINE else set()


def command(*words, **options):
    return ServerCommand(words, **options)


def broken(name, **options):
    return command(sys.executable, str(BROKEN / f"{name}.py"), **options)


async def examined(given, patience=PATIENT):
    return await Examination(given, patience).run()


def problems(seen):
    return {each.code for each in diagnose(seen) if each.severity != "note"}


def examine(given, patience=PATIENT):
    seen = asyncio.run(examined(given, patience))
    return seen, diagnose(seen)


def test_every_broken_server_is_tested():
    used = {*EXITING, *WAITING, *TALKING, "needs_variable_silently", "stdio_server"}
    assert used == {path.stem for path in BROKEN.glob("*.py")}


@pytest.mark.parametrize("group", [EXITING, WAITING, TALKING], ids=["dying", "waiting", "talking"])
def test_each_fault_is_named(group):
    group = {name: group[name] for name in group.keys() - NOT_HERE}

    async def all_of_them():
        room = asyncio.Semaphore(AT_ONCE)

        async def one(name, patience):
            async with room:
                return name, problems(await examined(broken(name), patience))

        async with asyncio.timeout(NET):
            return dict(await asyncio.gather(*(one(name, patience) for name, (patience, _) in group.items())))

    assert asyncio.run(all_of_them()) == {name: expected for name, (_, expected) in group.items()}


@pytest.mark.parametrize("example", ["hello.py", "everything.py"])
def test_a_healthy_server_has_no_problem_and_speaks_all_five_revisions(example):
    seen, found = examine(command(sys.executable, str(EXAMPLES / example)), ALL_REVISIONS)
    assert found == []
    assert [each.outcome for each in seen.attempts] == ["agreed"] * 5
    assert len({each.revision for each in seen.attempts}) == 5
    assert all(each.ending.took is not None and each.ending.exit.code == 0 for each in seen.attempts)


def steps(seen, purpose):
    return {step.label: step for step in steps_of_attempt(seen.of(purpose))}


def test_a_server_that_crashes_at_tools_list_is_not_reported_as_declaring_no_tools():
    seen, (found,) = examine(broken("crashes_at_list"))
    shown = steps(seen, "handshake")
    assert "offers" not in shown
    assert (shown["tools"].mark, shown["tools"].text) == ("bad", "tools/list: it exited without a response: exit code 1")
    fatal = "FATAL: cannot reach the database at db.example:5432"
    assert fatal in shown["stderr"].lines
    assert found.cause == f"it wrote: {fatal}"
    assert found.rules == ()


def test_a_list_that_fails_is_a_step_of_its_own_and_breaks_no_rule_about_unknown_methods():
    for name, text in (
        ("internal_error", "tools/list failed: Internal error (-32603)"),
        ("no_list", "tools/list failed: Method not found (-32601)"),
    ):
        seen, (found,) = examine(broken(name))
        shown = steps(seen, "handshake")
        assert "offers" not in shown
        assert (shown["tools"].mark, shown["tools"].text) == ("bad", text)
        assert found.rules == ()


def test_output_while_the_server_exits_is_shown():
    seen, (found,) = examine(broken("prints_at_sigterm"))
    assert steps(seen, "handshake")["stdout"].mark == "good"
    shown = steps(seen, "discover")["stdout"]
    assert (shown.text, shown.lines) == ("1 line is not a message, written after SIGTERM:", ("shutting down",))
    assert (found.code, found.severity) == ("noise-at-exit", "warning")
    assert "at SIGTERM" in found.what
    assert "prints_at_sigterm.py:13: print(" in found.cause


# The environment


def test_a_variable_that_only_the_shell_has_is_proven(monkeypatch):
    monkeypatch.setenv("WEATHER_API_KEY", "a secret")
    seen, (found,) = examine(broken("needs_variable"))
    assert found.code == "environment-variable-missing"
    assert seen.attempts[-1].variables == ("WEATHER_API_KEY",)
    assert seen.attempts[-1].works


def test_a_variable_that_stderr_does_not_name_is_found_by_bisection(monkeypatch):
    monkeypatch.setenv("DOCTOR_TEST_REGION", "north")
    seen, (found,) = examine(broken("needs_variable_silently"))
    assert found.code == "environment-variable-missing"
    assert "DOCTOR_TEST_REGION" in found.what
    assert min((each.variables for each in seen.attempts if each.works), key=len) == ("DOCTOR_TEST_REGION",)


def test_no_value_of_the_environment_is_shown(monkeypatch):
    monkeypatch.setenv("WEATHER_API_KEY", "sesame-open")
    done = doctor(
        "--format", "json", "--quick", "--env", "OTHER=sesame-close", "--", sys.executable, str(BROKEN / "needs_variable.py")
    )
    assert b"WEATHER_API_KEY" in done.stdout
    assert b"sesame" not in done.stdout + done.stderr


# The command


def test_a_missing_command_is_looked_for_elsewhere(tmp_path):
    place = tmp_path / "project" / ".venv" / "bin" / "weather-server"
    place.parent.mkdir(parents=True)
    place.write_text("#!/bin/sh\n")
    place.chmod(0o755)
    seen, (found,) = examine(command("weather-server", cwd=tmp_path / "project"))
    assert found.code == "command-not-found"
    assert [each.path for each in seen.resolution.elsewhere] == [str(place)]
    assert str(place) in found.fix


def test_a_misspelled_command_gets_a_suggestion(tmp_path):
    good = tmp_path / "weather-server"
    good.write_text("#!/bin/sh\n")
    good.chmod(0o755)
    seen, (found,) = examine(command("wether-server", env={"PATH": str(tmp_path)}))
    assert found.code == "command-not-found"
    assert seen.resolution.similar == ("weather-server",)


def test_a_command_in_one_word_is_split():
    _, (found,) = examine(command("sh server.sh --stdio"))
    assert found.code == "command-not-found"
    assert '"args": ["server.sh", "--stdio"]' in found.fix


@pytest.mark.parametrize(
    ("mode", "text", "code"),
    [
        (0o644, "#!/bin/sh\n", "not-executable"),
        (0o755, "print('no shebang')\n", "not-a-program"),
        (0o755, "#!/nowhere/python3\n", "interpreter-not-found"),
        (0o755, "#!/bin/sh\r\necho windows\r\n", "interpreter-not-found"),
    ],
)
def test_a_file_that_cannot_be_started_is_named(tmp_path, mode, text, code):
    path = tmp_path / "server"
    path.write_text(text, newline="")
    path.chmod(mode)
    _, (found,) = examine(command(str(path)))
    assert found.code == code


def test_a_missing_script_and_a_missing_folder_are_named(tmp_path):
    _, (found,) = examine(command(sys.executable, "nowhere.py", cwd=tmp_path))
    assert found.code == "script-not-found"
    _, (found,) = examine(command(sys.executable, "nowhere.py", cwd=tmp_path / "nowhere"))
    assert found.code == "folder-not-found"


def test_noise_of_a_wrapper_is_distinguished_from_noise_of_the_server(tmp_path):
    script = f"echo '> weather@1.0.0 start'; exec {shlex.quote(sys.executable)} {shlex.quote(str(BROKEN / 'polite.py'))}"
    seen, found = examine(command("sh", "-c", script))
    assert [each.code for each in found if each.severity != "note"] == ["noise-on-stdout"]
    assert seen.resolution.layers[0].program == "sh"
    assert {stray.kind for attempt in seen.attempts for stray in attempt.strays} == {"installer"}


@pytest.mark.parametrize(("program", "code"), [("cat", "echoes-input"), ("true", "exits-at-once"), ("false", "crashes-at-start")])
def test_a_program_that_is_not_a_server_is_reported(program, code):
    _, found = examine(command(program))
    assert [each.code for each in found if each.severity != "note"] == [code]


def test_a_flood_on_stdout_does_not_slow_the_doctor_down():
    seen, found = examine(command("yes"), DoctorTimeouts(answer=0.5, grace=0.3, total=60, quick=True))
    assert {"noise-on-stdout", "never-answers"} <= {each.code for each in found}
    assert all(len(attempt.strays) <= 200 for attempt in seen.attempts)


def test_noise_is_traced_to_the_line_that_prints_it():
    seen, (found,) = examine(broken("banner"))
    assert seen.attempts[0].strays[0].source.startswith("banner.py:4: print(")
    assert "banner.py:4" in found.cause


# As a process


def doctor(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "twopipes", "doctor", *words],
        env={**ENVIRONMENT, "WEATHER_API_KEY": "sesame-open"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=NET,
        check=False,
        **options,
    )


def test_exit_codes_distinguish_healthy_broken_and_wrong_usage():
    healthy = doctor("--quick", "--", sys.executable, str(BROKEN / "polite.py"))
    assert (healthy.returncode, b"No problem found." in healthy.stdout) == (0, True)
    ill = doctor("--", sys.executable, str(BROKEN / "crashes.py"))
    assert (ill.returncode, b"crashes-at-start" in ill.stdout) == (1, True)
    misunderstood = doctor("--nonsense")
    assert misunderstood.returncode == 2
    assert misunderstood.stderr.startswith(b"Error: ")
    assert misunderstood.stderr.count(b"\n") == 1


def test_a_crash_is_explained_by_the_line_that_states_the_error_and_quoted_once():
    shown = doctor("--quick", "--", sys.executable, str(BROKEN / "npm_package_missing.py")).stdout.decode()
    steps, _, verdict = shown.partition("What to do:")
    assert "| Error [ERR_MODULE_NOT_FOUND]: Cannot find package" in steps
    assert "| }" not in steps
    assert "Node does not find the package or file weather-of-tomorrow" in verdict
    assert "npm install" in verdict
    assert ".venv" not in verdict
    assert "|" not in verdict
    assert "below" not in shown


def test_the_help_has_examples_and_exit_codes():
    done = doctor("--help")
    assert done.returncode == 0
    assert b"examples:" in done.stdout
    assert b"exit codes:" in done.stdout


def test_every_server_of_a_configuration_is_examined(tmp_path):
    config = tmp_path / "mcp.json"
    servers = {name: {"command": sys.executable, "args": [str(BROKEN / f"{name}.py")]} for name in ("polite", "crashes")}
    config.write_text(json.dumps({"mcpServers": servers}))
    done = doctor("--quick", "--format", "json", "--config", str(config))
    assert done.returncode == 1
    reports = json.loads(done.stdout)["servers"]
    assert [(each["server"], [found["code"] for found in each["diagnoses"]]) for each in reports] == [
        ("polite", []),
        ("crashes", ["crashes-at-start"]),
    ]
    assert doctor("--quick", "--config", str(config), "--server", "polite").returncode == 0


def test_output_of_a_server_cannot_control_the_terminal(tmp_path):
    rude = tmp_path / "rude.py"
    rude.write_text("import sys\nprint('\\x1b]0;owned\\x07 \\x1b[2J')\nsys.exit('\\x1b[31mdead')\n")
    done = doctor("--", sys.executable, str(rude))
    assert done.returncode == 1
    assert b"\x1b]0" not in done.stdout
    assert b"\x1b[2J" not in done.stdout
    assert b"\x1b[31m" not in done.stdout
    assert b"\\x1b[2J" in done.stdout


def test_the_whole_examination_ends_in_time():
    done = doctor("--total", "0.5", "--format", "json", "--", sys.executable, str(BROKEN / "silent.py"))
    found = {each["code"] for each in json.loads(done.stdout)["servers"][0]["diagnoses"]}
    assert found == {"out-of-time", "never-answers"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_doctor_leaves_nothing_running(tmp_path, number, code):
    noted = tmp_path / "pid"
    os.mkfifo(noted)
    server = tmp_path / "server.py"
    # It ignores the end of its input and SIGTERM.
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    write_pid = f"open({str(noted)!r}, 'w').write(str(os.getpid()))"
    server.write_text(f"import os, signal\n{stubborn}\n{write_pid}\nwhile True:\n    signal.pause()\n")
    words = [sys.executable, "-m", "twopipes", "doctor", "--timeout", str(NET), "--", sys.executable, str(server)]
    with subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            pid = int(noted.read_text())  # waits for the server to be there
            process.send_signal(number)
            _, errors = process.communicate(timeout=NET)
        finally:
            process.kill()
    assert process.returncode == code
    assert errors.endswith(b"no process is left running\n")
    assert not is_running(pid)


def test_a_code_page_without_the_characters_of_a_server(tmp_path):
    """The pipes of Windows have such code pages."""
    server = tmp_path / "server.py"
    server.write_text('from twopipes import Server\nServer("Größe \N{SPARKLES}", version="1").run()\n', encoding="utf-8")
    env = {**ENVIRONMENT, "PYTHONIOENCODING": "cp1252"}
    command = [sys.executable, "-m", "twopipes", "doctor", "--quick", "--", sys.executable, str(server)]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=NET, check=False)
    assert done.stderr == b""
    assert b"Gr\xf6\xdfe \\u2728 1" in done.stdout


def test_at_a_terminal_the_steps_have_marks_and_colours():
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "twopipes", "doctor", "--quick", "--", sys.executable, str(BROKEN / "banner.py")]
    env = {**ENVIRONMENT, "TERM": "xterm-256color", "COLUMNS": "100", "PYTHONUTF8": "1"}
    env.pop("NO_COLOR", None)
    with subprocess.Popen(words, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        with suppress(OSError):  # the end of a terminal is an error
            while piece := os.read(ours, 65536):
                said += piece
        process.wait(NET)
    os.close(ours)
    assert process.returncode == 1
    assert "✓".encode() in said
    assert "✗".encode() in said
    assert b"\x1b[" in said
    assert b"noise-on-stdout" in said


# The documentation


def table_of_codes():
    rows = [f"| `{name}` | {code.severity} | {code.means} | {', '.join(code.rules)} |" for name, code in CODES.items()]
    return "\n".join(["| code | severity | means | rules |", "|---|---|---|---|", *rows]) + "\n"


def test_the_guide_has_every_code():
    assert table_of_codes() in GUIDE.read_text(encoding="utf-8")


def test_every_code_that_is_used_is_in_the_table():
    sources = Path(sys.modules["twopipes._tools.doctor.diagnose"].__file__).parent
    text = "".join(source.read_text() for source in [*sources.glob("diagnose*.py"), sources / "clues.py"])
    assert all(f'"{code}"' in text for code in CODES)
