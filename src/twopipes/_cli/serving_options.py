"""Where a gateway serves its hosts: the options that ``bridge`` and ``hub`` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from twopipes._tools.usage import UsageError, tcp_address
from twopipes.errors import LocalProtocolError

if TYPE_CHECKING:
    from twopipes._http.options import HttpOptions

Options = dict[str, list[str]]
WITH_VALUE: Final = ("--http", "--unix", "--tcp", "--allow-host", "--allow-origin")
SWITCHES: Final = ("--public",)
WHERE_HELP: Final = """\
where to serve it (default: stdin and stdout, as a host expects):
  --http [HOST:]PORT over HTTP, on 127.0.0.1 unless HOST is given;
                     needs: pip install "twopipes[http]"
  --unix PATH        on a Unix socket
  --tcp HOST:PORT    on a TCP port, such as 127.0.0.1:9000
"""
HTTP_HELP: Final = """\
  --allow-host NAME  with --http: accept requests for this host name, such as
                     that of a proxy; may be repeated
  --allow-origin URL with --http: accept web pages of this origin; may be
                     repeated
  --public           with --http: allow an address that other machines can
                     reach. Everyone who can reach it can call every tool
"""


def where_to_serve(options: Options) -> dict[str, Any]:
    """Return the arguments of ``Server.run()`` for the side of the hosts; none for stdin and stdout.

    Raises:
        UsageError: The options are wrong, or do not fit together.
    """
    ways = [name for name in ("--http", "--unix", "--tcp") if name in options]
    if len(ways) > 1:
        raise UsageError(f"{' and '.join(ways)} exclude each other; give one of them")
    if "--http" in options:
        return {"http": _http_address(options["--http"][-1]), "http_options": _http_options(options)}
    for name in ("--allow-host", "--allow-origin", "--public"):
        if name in options:
            raise UsageError(f"{name} is for clients over HTTP; give it with --http PORT")
    if "--tcp" in options:
        return {"tcp": tcp_address(options["--tcp"][-1])}
    return {"unix": options["--unix"][-1]} if "--unix" in options else {}


def last_of(options: Options, name: str) -> str | None:
    """Return the value of an option, which may be repeated."""
    return options[name][-1] if name in options else None


def _http_address(given: str) -> str:
    from twopipes._server.http.listen import parse_http_address  # only for HTTP

    try:
        parse_http_address(given)
    except LocalProtocolError:
        raise UsageError(f"--http needs a port or HOST:PORT, such as 8000 or 127.0.0.1:8000, not {given!r}") from None
    return given


def _http_options(options: Options) -> HttpOptions:
    from twopipes._http.options import HttpOptions  # only for HTTP

    hosts, origins = tuple(options.get("--allow-host", ())), tuple(options.get("--allow-origin", ()))
    try:
        return HttpOptions(hosts=hosts, origins=origins, public="--public" in options)
    except ValueError as error:
        raise UsageError(f"--allow-host or --allow-origin: {error}") from error
