"""The tree of errors: base classes, messages, copies and pickles."""

import copy
import inspect
import pickle
import re

import pytest

from twopipes import Server, connect, errors, http, settings
from twopipes._error_text import PYTHON_OPTIONS, OptionHint
from twopipes._process.exit_status import ExitStatus
from twopipes.errors import (
    CallDenied,
    CapabilityMissing,
    ChannelBroken,
    ChannelClosed,
    ClientClosed,
    ConfigError,
    ConnectionLost,
    HeaderMismatch,
    HttpError,
    InternalError,
    InvalidOutput,
    InvalidParams,
    InvalidRequest,
    ListenFailed,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    NotFound,
    OpeningFailed,
    QuestionFailed,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimedOut,
    ServerExited,
    StartFailed,
    ToolError,
    TwopipesError,
    UnsupportedRevision,
    UrlsRequired,
    UserRefused,
)

# Each error with its message.
MESSAGES = [
    (LocalProtocolError("ids must be unique"), "ids must be unique"),
    (RemoteProtocolError("a second response"), "a second response"),
    (RemoteProtocolError("not JSON", excerpt=b"\xffoops"), "not JSON: b'\\xffoops'"),
    (ChannelClosed(), "the channel was closed on this side"),
    (ChannelClosed("closed while reading"), "closed while reading"),
    (ChannelBroken("the pipe is broken"), "the pipe is broken"),
    (ClientClosed(), "the client is closed; call connect() to get a new one"),
    (ConfigError("servers.json has no servers"), "servers.json has no servers"),
    (ClientClosed(is_group=True), "the group is closed; create another ServerGroup"),
    (CallDenied("git", "git__push"), "the call of 'git__push' was denied; nothing was sent"),
    (CallDenied("git", "git__push", "not on main"), "the call of 'git__push' was denied: not on main; nothing was sent"),
    (ClientClosed("tools/call", 7), "the client was closed before the response to tools/call (id 7)"),
    (
        QuestionFailed("elicitation/create", "tools/call", "KeyError('name')"),
        "the callback for elicitation/create failed during tools/call: KeyError('name')",
    ),
    (
        InvalidOutput("add", "result: Expected a number", None),
        "the result of the tool 'add' does not match its output schema: result: Expected a number",
    ),
    (ListenFailed("the port is taken"), "the port is taken"),
    (
        StartFailed(["npx", "-y", "x"], "not found", path=["/usr/bin", "/bin"], cwd="/"),
        (
            "cannot start 'npx': not found; install it, or give its full path, or set PATH in env=; "
            "searched the PATH of the child:\n  /usr/bin\n  /bin"
        ),
    ),
    (
        StartFailed(["python server.py"], "not found", path=["/bin"], cwd="/"),
        (
            "cannot start 'python server.py': not found; pass the command as a list of words: "
            "['python', 'server.py']; "
            "searched the PATH of the child:\n  /bin"
        ),
    ),
    (
        StartFailed(["./server"], "not found", cwd="/srv"),
        "cannot start './server': not found; check the path (a relative path starts at /srv, the folder of the child)",
    ),
    (
        StartFailed(["server"], "no such folder", cwd="/srv"),
        "cannot start 'server': its folder /srv does not exist or is not a folder; create it, or set another one with cwd=",
    ),
    (
        StartFailed(["server.py"], "not executable", detail="/srv/server.py: the permission is missing"),
        (
            "cannot start 'server.py': not executable (/srv/server.py: the permission is missing); make it executable, "
            "or start it with its interpreter: python server.py (in Python, use sys.executable for python)"
        ),
    ),
    (
        StartFailed(["server"], "refused", detail="too many files"),
        "cannot start 'server': the operating system refused (too many files)",
    ),
    (
        ServerExited(
            ["python", "server.py"],
            phase="opening",
            exit=ExitStatus(code=3),
            stderr=["Traceback", "\x1b[31mKeyError: 7"],
            stray_stdout=["hello"],
            lived=0.25,
            method="initialize",
            request_id=0,
        ),
        (
            "the server exited while opening after 0.25 s (exit code 3): python server.py; "
            "no response to initialize (id 0)"
            "\n  last lines on stderr:\n    Traceback\n    \\x1b[31mKeyError: 7"
            "\n  lines on stdout that are not messages:\n    hello"
        ),
    ),
    (
        ServerExited(["server"], phase="serving", exit=ExitStatus(signal=9), retryable=True),
        "the server exited while serving (signal SIGKILL): server; it wrote nothing to stderr",
    ),
    (
        ServerExited(["server"], phase="starting", stderr=[str(number) for number in range(31)], method="tools/call"),
        "the server closed its output while starting: server; no response to tools/call"
        "\n  last lines on stderr (1 earlier line omitted):" + "".join(f"\n    {number}" for number in range(1, 31)),
    ),
    (ToolError("no such city"), "no such city"),
    (ConnectionLost("tools/call", 7), "the connection ended before the response to tools/call (id 7)"),
    (
        HttpError("https://x/mcp", "dns", detail="Name or service not known"),
        (
            "cannot connect to https://x/mcp: the name of the host is unknown (Name or service not known); "
            "check its spelling, and the network"
        ),
    ),
    (
        HttpError("http://x/mcp", "refused", detail="Connection refused"),
        "cannot connect to http://x/mcp: nothing listens there (Connection refused); start the server, or check the port",
    ),
    (
        HttpError("http://x/mcp", "network", detail="No route"),
        "cannot connect to http://x/mcp (No route); check the network and the address",
    ),
    (
        HttpError("https://x/mcp", "timeout"),
        "cannot connect to https://x/mcp: the host does not respond; check the address, the network and firewalls",
    ),
    (
        HttpError("https://x/mcp", "tls", detail="certificate has expired"),
        (
            "cannot connect to https://x/mcp: TLS failed (certificate has expired); "
            "check the certificate, or use http:// if the server has none"
        ),
    ),
    (
        HttpError("http://x/mcp", "not HTTP", detail="Bad status line"),
        "http://x/mcp does not respond as an HTTP server (Bad status line); check the port, and whether the URL needs https://",
    ),
    (
        HttpError("http://x/mcp", "redirect", detail="http://y/mcp"),
        "http://x/mcp redirects elsewhere (http://y/mcp); connect to that URL if you trust it",
    ),
    (
        HttpError("http://x/mcp", "unauthorized", status=401, detail="Unauthorized"),
        "http://x/mcp asks for authorization: HTTP 401 (Unauthorized); pass a token with auth=",
    ),
    (
        HttpError("http://x/mcp", "unauthorized", status=401, has_auth=True),
        "http://x/mcp rejected the token: HTTP 401; get a new one",
    ),
    (
        HttpError("http://x/mcp", "forbidden", status=403),
        "http://x/mcp refused the request: HTTP 403; check the rights of the token, and the Host of the URL",
    ),
    (
        HttpError("http://x/api", "not found", status=404, detail="Not Found"),
        "there is no MCP server at http://x/api: HTTP 404 (Not Found); check the path, which often is /mcp",
    ),
    (
        HttpError("http://x/", "HTML", status=200),
        "http://x/ responds with a web page, not with MCP: HTTP 200; check the path, which often is /mcp",
    ),
    (
        HttpError("http://x/", "content type", status=200, detail="HTTP 200, image/png"),
        "http://x/ responds with neither JSON nor an event stream (HTTP 200, image/png); check that it is the URL of an MCP server",
    ),
    (
        HttpError("http://x/mcp", "status", status=503, detail="Service Unavailable"),
        "http://x/mcp responded with HTTP 503 (Service Unavailable); see the log of the server, or try again later",
    ),
    (
        RequestTimedOut("tools/call", "7", waited=60.0123, limit="idle"),
        (
            "tools/call (id '7') timed out after 60 s: no response within the idle limit; "
            "pass timeouts=Timeouts(request=120) to wait longer"
        ),
    ),
    (
        RemoteProtocolError("too many pages", hint=OptionHint("max_pages", 2000, "if there are so many")),
        "too many pages; pass limits=Limits(max_pages=2000) if there are so many",
    ),
    (
        OpeningFailed("no response in 30 s", stderr=["Loading"], hint=OptionHint("connect", 60.0, "if it needs longer")),
        ("no response in 30 s; pass timeouts=Timeouts(connect=60) if it needs longer\n  last lines on stderr:\n    Loading"),
    ),
    (RequestCancelled("tools/call", 7), "tools/call (id 7) was cancelled"),
    (RequestCancelled("tools/call", 7, "user"), "tools/call (id 7) was cancelled: user"),
    (OpeningFailed("no revision in common"), "no revision in common"),
    (
        OpeningFailed("no revision in common", offered=["2099-01-01", "2098-01-01"]),
        "no revision in common (the server offers 2099-01-01, 2098-01-01)",
    ),
    (McpError("it broke"), "it broke (code -32603)"),
    (McpError("it broke", code=0, data=[1]), "it broke (code 0)"),
    (InvalidRequest("not now"), "not now (code -32600)"),
    (MethodNotFound("nope"), "nope (code -32601)"),
    (InvalidParams("no name"), "no name (code -32602)"),
    (InternalError("it broke"), "it broke (code -32603)"),
    (NotFound("tool", "echo"), "Unknown tool: echo (code -32602)"),
    (NotFound("resource", "file:///x", message="gone", code=-32002, data={"uri": "file:///x"}), "gone (code -32002)"),
    (
        CapabilityMissing({"sampling": {}, "elicitation": {}}),
        "This request needs a client that declares the capability elicitation, sampling (code -32021)",
    ),
    (HeaderMismatch("Missing header Mcp-Method"), "Missing header Mcp-Method (code -32020)"),
    (CapabilityMissing({"roots": {}}, message="no roots"), "no roots (code -32021)"),
    (
        CapabilityMissing({"sampling": {"tools": {}, "context": {}}, "roots": 3}),
        "This request needs a client that declares the capability roots, sampling.context, sampling.tools (code -32021)",
    ),
    (
        UnsupportedRevision("1900-01-01", ["2026-07-28"]),
        "Unsupported protocol version '1900-01-01'; supported: 2026-07-28 (code -32022)",
    ),
    (UrlsRequired([{"mode": "url"}]), "This request needs the user to visit a URL first (code -32042)"),
    (UserRefused("no"), "no (code -1)"),
]
each_error = pytest.mark.parametrize(("error", "sentence"), MESSAGES, ids=[type(error).__name__ for error, _ in MESSAGES])


@each_error
def test_an_error_formats_its_message(error, sentence):
    assert str(error) == sentence


@each_error
def test_an_error_survives_a_copy_and_a_trip_to_another_process(error, sentence):
    for twin in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert str(twin) == sentence
        assert twin.args == error.args
        assert vars(twin) == vars(error)


@each_error
def test_one_except_clause_catches_them_all(error, sentence):
    assert isinstance(error, TwopipesError)


@each_error
def test_a_message_for_a_reader_without_options_names_none(error, sentence):
    text = error.describe({})
    assert sentence.startswith(text.partition(";")[0].partition("\n")[0])
    assert not {"timeouts=", "limits=", "cwd=", "env="} & set(re.findall(r"\w+=", text))


def test_every_option_that_an_error_can_name_is_an_argument_of_connect_or_run():
    accepted = {*inspect.signature(connect).parameters, *inspect.signature(Server.run).parameters}
    for text in PYTHON_OPTIONS.values():
        name, group = re.search(r"(\w+)=(\w+)?", text).groups()
        assert name in accepted
        if group:
            group_class, field = re.search(r"=(\w+)\((\w+)=", text).groups()
            assert field in getattr(http if group_class == "HttpOptions" else settings, group_class).__struct_fields__


TESTED_WITH_SCHEMAS = {errors.FormRejected, errors.SignatureRejected, errors.ValueRejected}


def test_every_error_has_a_message_in_the_table():
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TwopipesError)}
    assert kinds - {type(error) for error, _ in MESSAGES} == {TwopipesError, *TESTED_WITH_SCHEMAS}
    assert {kind.__name__ for kind in kinds} | {"Problem", "RequestId"} == set(errors.__all__)


def test_a_traceback_names_the_public_module():
    kinds = [value for name in errors.__all__ if isinstance(value := getattr(errors, name), type) and issubclass(value, Exception)]
    assert {kind.__module__ for kind in kinds} == {"twopipes.errors"}


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLost("tools/call", 7),
        HttpError("http://x/mcp", "refused"),
        RequestTimedOut("tools/call", 7, waited=1.0, limit="total"),
        RequestCancelled("tools/call", 7),
        ChannelClosed(),
        ChannelBroken(),
        OpeningFailed("no"),
        LocalProtocolError("no"),
        RemoteProtocolError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_without_a_response_does_not_look_like_one(error):
    """ER-16."""
    assert not isinstance(error, McpError)
    assert not hasattr(error, "code")


def test_errors_also_have_the_matching_builtin_base_class():
    timed_out = RequestTimedOut("tools/call", 7, waited=1.0, limit="total")
    assert isinstance(timed_out, TimeoutError)
    assert isinstance(ChannelBroken("gone"), ConnectionError)


def test_a_timeout_has_no_errno_because_it_is_not_a_system_error():
    timed_out = RequestTimedOut("tools/call", 7, waited=1.5, limit="total")
    assert timed_out.errno is None
    assert timed_out.filename is None
    assert timed_out.args == ("tools/call", 7, 1.5, "total")
    assert (timed_out.method, timed_out.request_id, timed_out.waited, timed_out.limit) == ("tools/call", 7, 1.5, "total")


def test_an_error_response_keeps_code_message_and_data():
    """JR-08."""
    error = McpError("no", code=-5, data={"a": None})
    assert (error.message, error.code, error.data) == ("no", -5, {"a": None})


def test_an_exited_server_has_an_exit_code_or_the_name_of_a_signal():
    by_code = ServerExited(["x"], phase="serving", exit=ExitStatus(code=3))
    assert (by_code.exit_code, by_code.signal) == (3, None)
    by_signal = ServerExited(["x"], phase="serving", exit=ExitStatus(signal=11))
    assert (by_signal.exit_code, by_signal.signal) == (None, "SIGSEGV")
    still_running = ServerExited(["x"], phase="serving")
    assert (still_running.exit_code, still_running.signal) == (None, None)


def test_zero_is_a_valid_code():
    """JR-08."""
    assert McpError("no", code=0).code == 0


def test_not_found_names_the_kind_and_the_name():
    error = NotFound("resource", "file:///x")
    assert (error.kind, error.name, error.code, error.data) == ("resource", "file:///x", -32602, None)


def test_a_missing_capability_is_sent_as_an_object():
    """ER-10."""
    error = CapabilityMissing({"elicitation": {"url": {}}})
    assert error.code == -32021
    assert error.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    assert error.required == {"elicitation": {"url": {}}}


def test_an_unsupported_revision_lists_the_supported_ones():
    """ER-09."""
    error = UnsupportedRevision("1900-01-01", ("2026-07-28", "2025-11-25"))
    assert error.code == -32022
    assert error.data == {"supported": ["2026-07-28", "2025-11-25"], "requested": "1900-01-01"}
    assert (error.requested, error.supported) == ("1900-01-01", ("2026-07-28", "2025-11-25"))


def test_urls_to_visit_are_sent_in_the_data():
    """ER-11."""
    question = {"mode": "url", "elicitationId": "1", "url": "https://example.com", "message": "please"}
    assert UrlsRequired([question]).data == {"elicitations": [question]}
    assert UrlsRequired([question]).code == -32042
