"""The table of diagnoses: each has a code for programs and a text for people."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Severity = Literal["error", "warning", "note"]
"""``error``: hosts cannot use the server. ``warning``: some cannot, or it does harm. ``note``: worth knowing, not a problem."""


class Code(Struct, frozen=True):
    """One kind of diagnosis: its severity, its meaning in a few words, and the protocol rules it is about."""

    severity: Severity
    means: str
    rules: tuple[str, ...] = ()


CODES: Final[dict[str, Code]] = {
    # Before anything runs
    "command-not-found": Code("error", "the server's PATH has no file of that name"),
    "not-executable": Code("error", "the file exists but may not be executed"),
    "not-a-program": Code("error", "the system cannot execute the file: no shebang line, or made for another machine"),
    "interpreter-not-found": Code("error", "the program named by the script's first line does not exist"),
    "folder-not-found": Code("error", "the folder to start in does not exist"),
    "script-not-found": Code("error", "the script that the command names does not exist"),
    "start-refused": Code("error", "the system refused to start it"),
    "word-not-expanded": Code("warning", "an argument contains ~ or $NAME, which only a shell expands"),
    "docker-without-stdin": Code("error", "docker or kubectl without -i: the server's input is not connected"),
    "docker-with-terminal": Code("error", "docker or kubectl with -t: a terminal between host and server changes the messages"),
    "compose-without-no-tty": Code("warning", "docker compose without -T: it may put a terminal between host and server"),
    "path-of-your-shell": Code("note", "found in a folder that programs started from a desktop do not search"),
    # It exits too early
    "environment-variable-missing": Code("error", "it needs an environment variable that is not set for it"),
    "module-not-found": Code("error", "a module that it imports is not installed where it runs"),
    "package-not-found": Code("error", "the package or image to fetch does not exist"),
    "no-network": Code("error", "the package registry cannot be reached"),
    "runtime-too-old": Code("error", "it needs a newer Python or Node"),
    "syntax-error": Code("error", "its source has a syntax error"),
    "address-in-use": Code("error", "a port that it needs is in use, often by an older copy of the server"),
    "permission-denied": Code("error", "it lacks a permission"),
    "wrong-arguments": Code("error", "it does not accept its arguments"),
    "docker-not-running": Code("error", "the Docker daemon is not running"),
    "crashes-at-start": Code("error", "it exits before it responds, for another reason"),
    "exits-at-once": Code("error", "it exits with code 0 before it responds"),
    "exits-after-opening": Code("error", "it responds to the first request and exits soon after"),
    "closes-stdout": Code("error", "it closes its output and keeps running"),
    # It does not respond
    "never-answers": Code("error", "no response in time"),
    "stdout-not-flushed": Code("error", "its responses stay in a buffer until it exits"),
    "reads-until-eof": Code("error", "it responds only when its input has ended"),
    "newline-missing": Code("error", "its messages do not end with a newline", ("FR-01",)),
    "content-length-framing": Code("error", "it frames messages with headers, as language servers do", ("FR-01", "FR-04")),
    "slow-start": Code("warning", "the first response comes late"),
    # Its output
    "noise-on-stdout": Code("error", "lines on stdout that are not messages", ("FR-04",)),
    "noise-at-exit": Code("warning", "lines on stdout that are not messages, written while it exits", ("FR-04",)),
    "pretty-printed-json": Code("error", "messages spread over several lines", ("FR-01", "FR-02")),
    "not-utf-8": Code("error", "bytes on stdout that are not UTF-8", ("FR-03",)),
    "byte-order-mark": Code("warning", "a byte order mark before the first message", ("FR-03",)),
    "carriage-returns": Code("warning", "messages that end with CR LF", ("FR-15",)),
    "malformed-message": Code("error", "JSON that is not a JSON-RPC message", ("JR-01", "JR-06", "JR-07", "JR-08", "JR-11")),
    "echoes-input": Code("error", "it sends back what it receives", ("FR-04",)),
    "wrong-id": Code("error", "responses with another id than the request", ("JR-06",)),
    # LC-03 for initialize, VN-06 for server/discover.
    "bad-answer": Code("error", "a response that does not fit its request", ("LC-03", "VN-06")),
    # Its revisions
    "strange-revision": Code("error", "it chose a revision that does not exist", ("LC-08", "LC-09")),
    "no-common-revision": Code("error", "it refuses every revision", ("LC-09",)),
    "revision-refused": Code("warning", "it refuses an older revision with an error instead of naming another", ("LC-09",)),
    # DE-09: it may refuse the handshake, but must do so with an error.
    "modern-only": Code("warning", "it supports no revision with a handshake, and most hosts support only those", ("DE-09",)),
    "dies-on-probe": Code("warning", "it exits on server/discover; hosts that send it first must start it twice", ("LC-14",)),
    "probe-unanswered": Code(
        "warning", "server/discover gets no response; hosts that send it first wait for seconds", ("LC-14", "ER-03")
    ),
    "incomplete-result": Code("warning", "members that strict clients require are missing", ("VN-09", "CH-01")),
    # Its lists
    # The rule depends on how the list fails: JR-16 if there is no response, the rule of the entries if they are malformed.
    "list-failed": Code("error", "a list that it declares cannot be read", ("JR-16", "TL-01", "RS-01", "PM-01")),
    "bad-tool": Code("warning", "a tool that hosts refuse or cannot call", ("TL-01", "TL-15")),
    # Its exit
    "ignores-eof": Code("warning", "it keeps running when its input has ended", ("SD-02",)),
    "ignores-sigterm": Code("warning", "it keeps running when it receives SIGTERM"),
    "fails-at-eof": Code("note", "it exits at the end of its input, but with an error code", ("SD-02",)),
    "leaves-processes-behind": Code("warning", "processes that it started keep running without it"),
    # A server at a URL
    "host-not-found": Code("error", "the name of the host cannot be resolved"),
    "connection-refused": Code("error", "nothing listens on the port"),
    "host-unreachable": Code("error", "there is no connection to the host"),
    "certificate-expired": Code("error", "the certificate is not valid now"),
    "certificate-not-trusted": Code("error", "the certificate is self-signed, or its issuer is unknown here"),
    "certificate-of-another-host": Code("error", "the certificate is for another name"),
    "tls-failed": Code("error", "no TLS connection, for another reason"),
    "plain-http-port": Code("error", "the URL has https, but the port serves plain HTTP"),
    "tls-port": Code("error", "the URL has http, but the port expects TLS"),
    "not-http": Code("error", "the port serves another protocol, or closes the connection without a response"),
    "no-http-response": Code("error", "connected, but no response in time"),
    "token-required": Code("error", "it requires a token (401)"),
    "token-refused": Code("error", "it refuses the token (401)"),
    "forbidden": Code("error", "it refuses the request (403)"),
    "no-endpoint": Code("error", "the path does not exist (404)", ("HT-01",)),
    "post-not-allowed": Code("error", "the path does not accept POST (405)", ("HT-01",)),
    "old-sse-transport": Code("error", "it serves only the transport of 2024-11-05, with a stream of GET"),
    "redirected": Code("error", "it redirects to another URL"),
    "html-instead-of-mcp": Code("error", "it responds with a web page", ("HT-12",)),
    "wrong-content-type": Code("error", "the response is neither JSON nor a stream of events", ("HT-12",)),
    "not-mcp": Code("error", "it responds with JSON that is not a message", ("HT-12",)),
    "gateway-error": Code("error", "a proxy responds that the server behind it does not (502, 503, 504)"),
    "http-error": Code("error", "it responds with another HTTP error"),
    "stream-buffered": Code("warning", "the events of a stream do not arrive"),
    "probe-fails": Code("warning", "server/discover gets an error of HTTP that does not let a client fall back"),
    # The examination
    "out-of-time": Code("note", "the time ran out before everything was examined"),
}


# The probable cause and the fix, where they are always the same; {about} is the subject of an error message.
_ADVICE: Final[dict[str, tuple[str, str]]] = {
    "newline-missing": ("the JSON is written without a newline after it", "write a newline after each message, then flush"),
    "folder-not-found": ("cwd names a folder that was moved, or a path of another machine", "correct cwd, or remove it"),
    "script-not-found": (
        "{about} does not exist; a relative path is resolved against the folder in which the host starts the server",
        "write the absolute path of the script, or set cwd",
    ),
    "start-refused": ("the system refused to start it", "see the reason above"),
    "word-not-expanded": (
        "only shells expand ~ and $NAME, and hosts start servers without a shell",
        "write the full path, or put the variable into env",
    ),
    "environment-variable-missing": (
        "it is a key or a setting that every user must supply",
        'put it into the configuration: "env": {{"{about}": "..."}}; to try it here: --env {about}=...',
    ),
    "module-not-found": (
        "the Python that starts the server does not have {about}",
        "install it for that Python, or use the Python of the server's own environment: /path/to/.venv/bin/python server.py",
    ),
    "package-not-found": (
        "the name {about} is misspelled, or the package is private",
        "look up the exact name where the package is published",
    ),
    "no-network": (
        "the package registry cannot be reached: this machine is offline, or the proxy is set only in your shell",
        "install the server once and start it directly, or set the proxy in the env of its configuration",
    ),
    "runtime-too-old": (
        "the wrapper picked an older Python or Node than the server needs",
        "name the version: uvx --python 3.12, or nvm use",
    ),
    "syntax-error": (
        "a mistake in the source, or an older Python or Node than the source was written for",
        "fix the source, or start the server with a newer version",
    ),
    "address-in-use": (
        "another process uses the port, often an older copy of this server that was never stopped",
        "stop that process (ss -ltnp names it), or let the server choose a free port",
    ),
    "permission-denied": (
        "the user that starts the server may not read, write or execute that file, or open that port",
        "give that user the permission, or point the server at a folder of its own",
    ),
    "wrong-arguments": (
        "an argument is missing, misspelled or unknown to this version of the server",
        "compare args in the configuration with the server's --help; each word is one entry of args",
    ),
    "docker-not-running": ("the Docker daemon is not running, or this user may not use it", "start Docker, then try again"),
    "exits-at-once": (
        "the script defines a server but does not run it, prints its help, or starts another process and exits",
        'end the script with a call that serves, such as server.run(), outside of any "if" that is false here',
    ),
    "closes-stdout": (
        "stdout was closed or replaced, as daemons do",
        "stay in the foreground and keep stdout open: the messages go there",
    ),
    "reads-until-eof": (
        "it reads all of its input at once (sys.stdin.read(), json.load(sys.stdin)), or it needs longer than --timeout",
        "read line by line and respond to each line at once: for line in sys.stdin",
    ),
    "content-length-framing": (
        "its library uses the framing of the Language Server Protocol, which MCP does not use",
        "write and read each message as one line of JSON, with a newline at its end and without headers",
    ),
    "byte-order-mark": (
        "stdout was opened as 'utf-8-sig', or by a Windows shell",
        "open it as plain UTF-8; JSON must not begin with this mark",
    ),
    "carriage-returns": (
        "text mode on Windows, println of a library made for terminals, or a terminal in between (docker run -t)",
        "write a bare newline; in Python: sys.stdout.reconfigure(newline='\\n')",
    ),
    "malformed-message": (
        "the message is built by hand, or by a library for another version of JSON-RPC",
        'every message has "jsonrpc": "2.0"; a response has the id of its request and either "result", an object, or "error"',
    ),
    "echoes-input": (
        "a terminal between host and server echoes (docker run -t, ssh -t, script), or the program is not an MCP server",
        "connect it through pipes, without -t, and check that the command starts the server",
    ),
    "wrong-id": (
        "the server converts the id to a string, or numbers its responses itself",
        "send the id back unchanged: the same value and the same JSON type",
    ),
    "bad-answer": (
        "the result was built by hand, or belongs to another protocol",
        "the result of initialize has protocolVersion, capabilities and serverInfo (name, version)",
    ),
    "no-common-revision": (
        "it compares the version with a list of its own, or requires something else first",
        "respond to initialize with a result that names a supported version; the client decides whether to go on",
    ),
    "revision-refused": (
        "it compares the version with a list of its own",
        "respond with a result that names a supported version; older hosts can then decide",
    ),
    "modern-only": (
        "its library supports only the stateless revision",
        "support both eras: most hosts still begin with initialize",
    ),
    "dies-on-probe": (
        "it treats an unknown first message as a fatal error",
        "respond to an unknown method with error -32601 and go on, also before initialize",
    ),
    "probe-unanswered": (
        "it ignores messages before initialize instead of refusing them",
        "respond to unknown methods with error -32601, also before initialize; some hosts send this first and wait for seconds",
    ),
    "bad-tool": (
        "the definition of the tool was written by hand, or generated from a type that is not an object",
        'give each tool a unique name of A-Z a-z 0-9 _ - . and an inputSchema with "type": "object"',
    ),
    "ignores-eof": (
        "it no longer reads stdin, or a thread or a timer keeps the process alive",
        "exit when stdin ends; several hosts never kill a server, so copies of it accumulate",
    ),
    "ignores-sigterm": (
        "a signal handler that does not exit, or a wrapper (a shell, a container) that does not forward the signal",
        "exit on SIGTERM; in a shell script start the server with exec; in a container use --init",
    ),
    "fails-at-eof": (
        "it treats the end of the input as an error",
        "every conversation ends with the end of the input: exit with code 0",
    ),
    "leaves-processes-behind": (
        "it starts programs that outlive it, or a wrapper exits before the server does",
        "stop these programs when stdin ends, or start the server without the wrapper",
    ),
    "host-not-found": (
        "{about} is misspelled, or only known in another network (a VPN, a container)",
        "correct the host in the URL, or connect to that network",
    ),
    "connection-refused": (
        "the server is not running, listens on another port, or in a container only inside of it",
        "start the server, or correct the port; in a container listen on 0.0.0.0 and publish the port",
    ),
    "host-unreachable": (
        "a firewall drops the connection, or the address is in a network that cannot be reached from here",
        "check the address, the firewall and the VPN",
    ),
    "certificate-expired": (
        "the certificate was not renewed, or the clock of this machine is wrong",
        "renew the certificate of the server, or correct the clock",
    ),
    "certificate-not-trusted": (
        "the certificate is self-signed or issued by a private authority, or an intermediate certificate is missing",
        "let the server send its whole chain; for a private authority set SSL_CERT_FILE=/path/to/ca.pem",
    ),
    "certificate-of-another-host": (
        "the URL has another name than the certificate, often an address or an alias",
        "use the name in the certificate, or get a certificate for this name",
    ),
    "tls-failed": ("the server supports only old versions of TLS, or requires a certificate of the client", "see the reason above"),
    "plain-http-port": (
        "the server has no TLS; a proxy in front of it usually has it, on another port",
        "write http:// for a server on this machine, or use the URL of the proxy",
    ),
    "tls-port": ("the server expects TLS on this port", "write https:// in the URL"),
    "not-http": ("another program listens on that port", "correct the port in the URL"),
    "no-http-response": (
        "the server accepts connections and does not respond: it is overloaded, hangs, or waits for something else",
        "look at the log of the server; if it is slow, give it more time: --timeout SECONDS",
    ),
    "token-required": (
        "the server is only for users who have signed in",
        "give a token: --bearer TOKEN, or TWOPIPES_BEARER=TOKEN in the environment; hosts that support OAuth sign in by themselves",
    ),
    "token-refused": (
        "the token is expired or misspelled, or was issued for another server",
        "get a new token for this server; the challenge and the log of the server say what is wrong with it",
    ),
    "forbidden": (
        "the server does not accept this Host or Origin, or the token lacks a permission",
        "add the name of the host to the allow-list of the server, or get a token with the scope that the challenge names",
    ),
    "no-endpoint": (
        "the URL lacks the path of the endpoint, or has another one",
        "use the path that the server prints at its start; most servers have /mcp",
    ),
    "post-not-allowed": (
        "the path belongs to something else, such as a web page, or to the transport of 2024-11-05",
        "use the path of the MCP endpoint; most servers have /mcp",
    ),
    "old-sse-transport": (
        "the server was written for HTTP with SSE, which 2025-03-26 replaced",
        "update the server, and use its endpoint for Streamable HTTP, often /mcp; twopipes does not support the old transport",
    ),
    "redirected": (
        "the server moved, requires https, or its framework adds or removes a slash at the end of a path",
        "use {about} as the URL",
    ),
    "html-instead-of-mcp": (
        "the URL is that of a web page: a login, the documentation, or the page of a proxy for every path",
        "use the URL of the MCP endpoint; most servers have /mcp",
    ),
    "wrong-content-type": (
        "the path belongs to something else, or the server does not set the content type",
        "use the URL of the MCP endpoint; a server sends application/json or text/event-stream",
    ),
    "not-mcp": (
        "the path belongs to another API",
        "use the URL of the MCP endpoint; most servers have /mcp",
    ),
    "gateway-error": (
        "the proxy runs, but the server behind it is stopped, overloaded or too slow",
        "start the server behind the proxy, and compare its address with the configuration of the proxy",
    ),
    "http-error": ("the server failed, or does not accept the request", "look at the log of the server"),
    "stream-buffered": (
        "a proxy collects a response before it forwards it, so progress, logs and changes arrive late or never",
        "turn buffering off for this path: in nginx proxy_buffering off; other proxies have a similar option",
    ),
    "probe-fails": (
        "the server fails on a method that it does not know",
        "respond to unknown methods with 404 and error -32601, or with 400",
    ),
    "out-of-time": ("the server is slow, or does not respond at all", "give it more time: --total SECONDS"),
}


class Diagnosis(Struct, frozen=True, kw_only=True):
    """One problem, or one thing worth knowing."""

    code: str  # one of :data:`CODES`
    severity: Severity  # its severity
    what: str  # what was observed
    cause: str  # the probable cause
    fix: str  # what to do
    evidence: tuple[str, ...] = ()  # lines that show it. They come from the server: pass them through `visible` before printing
    rules: tuple[str, ...] = ()  # the ids of the protocol rules that are broken


def advice(code: str, about: str = "") -> tuple[str, str]:
    """Return the probable cause and the fix for a code."""
    cause, fix = _ADVICE[code]
    return cause.format(about=about), fix.format(about=about)


def diagnosis(
    code: str,
    what: str,
    evidence: tuple[str, ...] = (),
    *,
    cause: str | None = None,
    fix: str | None = None,
    rules: tuple[str, ...] | None = None,
) -> Diagnosis:
    """Return a diagnosis of the table. ``cause``, ``fix`` and ``rules`` replace those of the table."""
    if cause is None or fix is None:
        cause, fix = advice(code)
    severity, own = CODES[code].severity, CODES[code].rules
    rules = own if rules is None else rules
    return Diagnosis(code=code, severity=severity, what=what, cause=cause, fix=fix, evidence=evidence, rules=rules)
