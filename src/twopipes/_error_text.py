"""Parts of error messages: options to change, the output of a server, paths into a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

E = TypeVar("E", bound=Exception)

PYTHON_OPTIONS: Mapping[str, str] = {
    "connect": "timeouts=Timeouts(connect={value})",
    "request": "timeouts=Timeouts(request={value})",
    "total": "timeouts=Timeouts(total={value})",
    "max_pages": "limits=Limits(max_pages={value})",
    "max_listed": "limits=Limits(max_listed={value})",
    "auth": "auth=",
    "verify": "auth=",
    "public": "http_options=HttpOptions(public=True)",
    "cwd": "cwd=",
    "path": "PATH in env=",
}
"""How each option is written in a call of :func:`twopipes.connect` or ``server.run()``. The commands have their own tables."""

# Lines of a server's output that a message shows. The attributes of the error hold all lines that were kept.
_SHOWN_LINES = 30


class OptionHint(NamedTuple):
    """An option that could prevent the error."""

    option: str  # its key in a table such as PYTHON_OPTIONS
    value: float  # a value to try
    when: str  # the rest of the sentence: "if the server needs longer"

    def describe(self, options: Mapping[str, str]) -> str:
        """Return the end of an error message; empty if ``options`` does not contain the option."""
        name = options.get(self.option)
        value = self.value if isinstance(self.value, int) else f"{float(f'{self.value:.2g}'):g}"
        return "" if name is None else f"; pass {name.format(value=value)} {self.when}"


class ExitStatusLike(Protocol):
    """The part of ``twopipes._process.exit_status.ExitStatus`` that errors use. Rank 0 cannot import the class itself."""

    @property
    def code(self) -> int | None: ...
    @property
    def signal_name(self) -> str | None: ...
    def describe(self) -> str: ...


class Problem(NamedTuple):
    """One thing that is wrong with a value.

    Attributes:
        path: Where, such as ``items[0].name``; empty for the whole value.
        what: What was expected and what was received, written so that a model can act on it.
    """

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" if self.path else self.what

    def under(self, path: str) -> Problem:
        """Return the same problem with ``path`` in front of its own path."""
        return Problem(join_paths(path, self.path), self.what)


def restore(kind: type[E], args: tuple[Any, ...]) -> E:
    """Create an error without calling its ``__init__``, for copies and pickles."""
    error = kind.__new__(kind)
    error.args = args
    return error


def request(method: str | None, request_id: str | int | None) -> str:
    """Return a request as text: ``tools/call (id 7)``."""
    return f"{method}" if request_id is None else f"{method} (id {request_id!r})"


def start_failure(
    options: Mapping[str, str], *, argv: Sequence[str], reason: str, path: Sequence[str], cwd: str | None, detail: str
) -> str:
    """Return the message of :class:`twopipes.errors.StartFailed`."""
    failed = f"cannot start {argv[0]!r}"
    if reason == "sandbox":
        return f"{failed} in a sandbox: {detail}"
    detail = f" ({detail})" if detail else ""
    interpreter = f": python {' '.join(argv)} (in Python, use sys.executable for python)" if argv[0].endswith(".py") else ""
    if reason == "no such folder":
        other = f", or set another one with {options['cwd']}" if "cwd" in options else ""
        return f"{failed}: its folder {cwd} does not exist or is not a folder; create it{other}"
    if reason == "not executable":
        return f"{failed}: not executable{detail}; make it executable, or start it with its interpreter{interpreter}"
    if reason == "refused":
        return f"{failed}: the operating system refused{detail}"
    if len(words := argv[0].split()) > 1:
        fix = f"pass the command as a list of words: {[*words, *argv[1:]]!r}"
    elif not path:
        fix = f"check the path (a relative path starts at {cwd}, the folder of the child)"
    elif interpreter:
        fix = f"start it with its interpreter{interpreter}"
    else:
        fix = "install it, or give its full path" + (f", or set {options['path']}" if "path" in options else "")
    folders = "".join(f"\n  {folder}" for folder in path)
    searched = f"; searched the PATH of the child{detail}:{folders}" if folders else detail
    return f"{failed}: not found; {fix}{searched}"


def http_failure(options: Mapping[str, str], *, url: str, reason: str, status: int | None, detail: str, has_auth: bool) -> str:
    """Return the message of :class:`twopipes.errors.HttpError`."""
    failed = f"cannot connect to {url}"
    why = f" ({detail})" if detail else ""
    auth = f"; pass a token with {options['auth']}" if "auth" in options else "; it needs a token"
    match reason:
        case "dns":
            return f"{failed}: the name of the host is unknown{why}; check its spelling, and the network"
        case "refused":
            return f"{failed}: nothing listens there{why}; start the server, or check the port"
        case "timeout":
            return f"{failed}: the host does not respond{why}; check the address, the network and firewalls"
        case "tls":
            return f"{failed}: TLS failed{why}; check the certificate, or use http:// if the server has none"
        case "not HTTP":
            return f"{url} does not respond as an HTTP server{why}; check the port, and whether the URL needs https://"
        case "redirect":
            return f"{url} redirects elsewhere{why}; connect to that URL if you trust it"
        case "unauthorized" if has_auth:
            return f"{url} rejected the token: HTTP {status}{why}; get a new one"
        case "unauthorized":
            return f"{url} asks for authorization: HTTP {status}{why}{auth}"
        case "forbidden":
            return f"{url} refused the request: HTTP {status}{why}; check the rights of the token, and the Host of the URL"
        case "not found":
            return f"there is no MCP server at {url}: HTTP {status}{why}; check the path, which often is /mcp"
        case "HTML":
            return f"{url} responds with a web page, not with MCP: HTTP {status}{why}; check the path, which often is /mcp"
        case "content type":
            return f"{url} responds with neither JSON nor an event stream{why}; check that it is the URL of an MCP server"
        case "status":
            return f"{url} responded with HTTP {status}{why}; see the log of the server, or try again later"
        case _:
            return f"{failed}{why}; check the network and the address"


def public_address(options: Mapping[str, str], address: str, loopback: str) -> str:
    """Return the message for a server that would be open to other machines."""
    verify = options.get("verify")
    without, ways = (f" without {verify}", f", pass {verify}, or") if verify else ("", ", or")
    return (
        f"refused to serve on {address}{without}: everyone who can reach this address could call every tool. Serve on "
        f"{loopback}{ways} pass {options['public']} if the network is trusted"
    )


def server_exit(argv: Sequence[str], phase: str, status: ExitStatusLike | None, lived: float | None) -> str:
    """Return how a server ended: its phase, its exit status and its command."""
    from shlex import join  # only needed when an error is printed

    action = "closed its output" if status is None else "exited"
    after = "" if lived is None else f" after {lived:.3g} s"
    code = "" if status is None else f" ({status.describe()})"
    return f"the server {action} while {phase}{after}{code}: {join(argv)}"


def output_excerpt(stderr: Sequence[str], stray_stdout: Sequence[str]) -> str:
    """Return the last lines that a server wrote, as the end of an error message; empty if it wrote none."""
    text = ""
    for title, lines in (("last lines on stderr", stderr), ("lines on stdout that are not messages", stray_stdout)):
        if lines:
            omitted = len(lines) - _SHOWN_LINES
            note = f" ({omitted} earlier {'line' if omitted == 1 else 'lines'} omitted)" if omitted > 0 else ""
            text += f"\n  {title}{note}:" + "".join(f"\n    {_printable(line)}" for line in lines[-_SHOWN_LINES:])
    return text


def capability_names(required: Mapping[str, Any]) -> Iterator[str]:
    """Yield the capabilities by name, such as ``roots`` or ``elicitation.url``."""
    for name, details in required.items():
        if details and isinstance(details, Mapping):  # a peer may have sent any type
            yield from (f"{name}.{detail}" for detail in details)
        else:
            yield name


def join_paths(outer: str, inner: str) -> str:
    """Join two paths into a value, such as ``items[0]`` and ``name``."""
    return f"{outer}.{inner}" if outer and inner and not inner.startswith("[") else outer + inner


def _printable(line: str) -> str:
    # A server must not be able to send control sequences to the terminal of the reader.
    return "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in line)
