"""``twopipes tap URL``: record the messages between HTTP clients and a server."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from twopipes._tools.exit_codes import OK
from twopipes._tools.usage import UsageError
from twopipes._trace.recorder import Recorder, default_path, header_for, names_to_redact

if TYPE_CHECKING:
    from twopipes._tools.tap.http_proxy import HttpTap, Upstream

# Seconds that a slow disk may delay the exit.
_CLOSE_TIMEOUT = 3.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def tap_http(url: str, listen: str | None, output: str | None, redact: Sequence[str], *, is_quiet: bool) -> int:
    """Forward and record until a signal ends it."""
    try:
        from twopipes._tools.tap.http_proxy import HttpTap, Upstream
        from twopipes._tools.tap.http_recording import HttpRecording
    except ModuleNotFoundError as error:
        raise UsageError(f'{error.name} is not installed; run: pip install "twopipes[http]"') from error
    try:
        upstream = Upstream.parse(url)
    except ValueError as error:
        raise UsageError(str(error)) from error
    host, port = _address(listen)
    names = names_to_redact(redact)
    try:
        path = os.path.abspath(output or default_path(upstream.host))
        header = header_for("tap", target=upstream.url, environment=(), redact=names)
        recorder = Recorder(path, header, names, on_loss=_report, must_open=True)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"cannot record: {error}") from error
    try:
        tap = HttpTap(upstream, HttpRecording(recorder, upstream.path))
        asyncio.run(_run(tap, host, port, upstream, "" if is_quiet else recorder.path))
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    finally:
        recorder.close(_CLOSE_TIMEOUT)
    return OK


async def _run(tap: HttpTap, host: str, port: int, upstream: Upstream, shown_path: str) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Also on Windows, which has no loop.add_signal_handler().
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stopped.set))
    bound = await tap.start(host, port)
    if shown_path:
        shown_host = f"[{host}]" if ":" in host else host
        _report(f"recording to {shown_path}")
        _report(
            f"connect to http://{shown_host}:{bound}{upstream.path} instead of {upstream.scheme}://{upstream.netloc}{upstream.path}"
        )
    try:
        await stopped.wait()
    finally:
        await tap.close()


def _address(listen: str | None) -> tuple[str, int]:
    """Return the host and the port to listen on; port 0 is a free one."""
    if listen is None:
        return _LOOPBACK[0], 0
    host, _, port = listen.rpartition(":")
    host = host.strip("[]") or _LOOPBACK[0]
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--http needs a port, such as 9000, not {listen!r}")
    if host not in _LOOPBACK:
        raise UsageError(f"--http {listen}: a tap listens on this machine only, because it forwards requests without checking them")
    return host, int(port)


def _report(sentence: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"twopipes tap: {sentence}\n")
        sys.stderr.flush()
