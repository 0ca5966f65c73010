"""The doctor's output about a URL: the steps as they happen. The diagnoses are printed as for a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twopipes._tools.doctor.display import Step, TerminalReport, list_steps, opening_step, seconds_text
from twopipes._tools.doctor.http_observations import HttpReply
from twopipes._tools.doctor.observations import Attempt, Purpose

_LABELS: dict[Purpose, str] = {"discover": "stateless", "handshake": "handshake", "revision": "older"}


class HttpReport(TerminalReport):
    """Prints what happens at a URL."""

    def looked_up(self, host: str, addresses: Sequence[str]) -> None:
        """Print the addresses of the host."""
        text = host if list(addresses) == [host] else f"{host} is {', '.join(addresses)}"
        self.print_steps(iter([Step("good", "address", text)]))

    def begins_http(self, purpose: Purpose, revision: str) -> None:
        """Show a status line while a request is open, on a terminal."""
        self.show_status(f"sending {'server/discover' if purpose == 'discover' else 'initialize'} ({revision})")

    def tried_http(self, attempt: Attempt, reply: HttpReply, replies: Sequence[HttpReply], *, with_lists: bool) -> None:
        """Print what one opening showed: ``reply`` is the response to it, and ``replies`` are all so far."""
        self.quiet()
        if reply.failure is None:
            self.print_steps(steps_of_opening(attempt, reply, with_lists=with_lists))
        if attempt.purpose == "discover":
            self.print_steps(step for each in replies if each.purpose == "subscriptions/listen" for step in steps_of_stream(each))

    def http_failed(self, reply: HttpReply) -> None:
        """Print why there is no response."""
        self.quiet()
        assert reply.failure is not None
        label = "address" if reply.purpose == "lookup" else "connection" if reply.connected is None else "response"
        kind, detail = reply.failure.kind, reply.failure.detail
        text = detail if kind in {"lookup", "refused", "unreachable", "timeout"} else f"{kind}: {detail}"
        self.print_steps(iter([Step("bad", label, text)]))


def steps_of_opening(attempt: Attempt, reply: HttpReply, *, with_lists: bool) -> Iterator[Step]:
    """Yield what one opening showed: the connection, the response, the lists."""
    label = _LABELS[attempt.purpose]
    if attempt.purpose == "discover" and reply.connected is not None:
        server = f"; the server names itself {reply.server}" if reply.server else ""
        yield Step("good", "connection", f"open after {seconds_text(reply.connected)}{server}")
    if attempt.outcome == "silent":
        # Over HTTP a server without that opening responds with a status only.
        kind = f" with {reply.kind}" if reply.kind else ""
        yield Step("plain" if label == "stateless" else "bad", label, f"{attempt.revision}: {reply.status_line}{kind}")
    else:
        yield opening_step(attempt, label)
    if with_lists:
        yield from list_steps(attempt)


def steps_of_stream(reply: HttpReply) -> Iterator[Step]:
    """Yield whether the events of a stream arrive."""
    if reply.first_event is not None:
        yield Step("good", "events", f"the first arrived {seconds_text(reply.first_event)} after the status")
    elif reply.failure is not None:
        yield Step("warning", "events", f"subscriptions/listen: {reply.failure.detail}")
    elif reply.kind == "text/event-stream":
        yield Step("warning", "events", "none in time, although the stream is open")
    else:
        yield Step("plain", "events", f"subscriptions/listen: {reply.status_line}")
