"""Clients that break the rules of framing, one each."""

import json
import sys
from pathlib import Path

from check.mutation import Wire, line_mutant, nothing_from, raw_mutant, wire_mutant
from check.raw_tasks_client import hand_to
from twopipes._tools.check.client_run import CommandDriver, InProcessDriver

RAW = Path(__file__).parents[1] / "raw_client.py"


@line_mutant("FR-01")
def writes_two_messages_on_a_line(line):
    return line + b'{"jsonrpc":"2.0","method":"notifications/nothing"}\n'


@line_mutant("FR-02")
def writes_pretty_json(line):
    return json.dumps(json.loads(line), indent=2).encode() + b"\n"


@line_mutant("FR-03")
def begins_with_a_byte_order_mark(line):
    return b"\xef\xbb\xbf" + line + b"\n"


@line_mutant("FR-02", revision="2025-11-25")
def does_not_escape_newlines(line):
    return line.replace(b"\\n", b"\n") + b"\n"


@line_mutant("FR-03", revision="2025-11-25")
def does_not_know_letters(line):
    return line.decode().encode("ascii", "replace") + b"\n"


@line_mutant("FR-05")
def writes_what_is_no_message(line):
    return b"please:\n" + line + b"\n"


@raw_mutant("FR-07")
def never_reads_stderr():
    return CommandDriver([sys.executable, str(RAW), "never-reads-stderr", "{server}"])


@raw_mutant("FR-08")
def gives_up_at_the_word_error():
    return CommandDriver([sys.executable, str(RAW), "gives-up-at-an-error", "{server}"])


@raw_mutant("FR-08")
def hangs_when_all_is_done():
    return CommandDriver([sys.executable, str(RAW), "hangs-at-an-error", "{server}"])


@wire_mutant("FR-10")
def answers_requests_in_a_modern_revision(wire: Wire):
    def answer(line):
        message = json.loads(line)
        if "method" in message and "id" in message:
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {}})

    wire.to_subject = answer


@wire_mutant("FR-13")
def treats_each_read_as_a_message(wire: Wire):
    wire.chunk_to_subject = lambda data: data if data.startswith(b"{") and data.endswith(b"\n") else b""


@wire_mutant("FR-13")
def takes_one_line_of_each_read(wire: Wire):
    wire.chunk_to_subject = lambda data: data[: data.find(b"\n") + 1] or data


@wire_mutant("FR-13")
def reads_nothing_after_a_very_long_line(wire: Wire):
    wire.to_subject = nothing_from(lambda line: len(line) > 32 * 1024 * 1024)


@wire_mutant("FR-14")
def mistakes_the_next_answer_for_its_own(wire: Wire):
    asked = []

    def ask(line):
        message = json.loads(line)
        if "id" in message and "method" in message:
            asked.append(message["id"])

    def answer(line):
        message = json.loads(line)
        if "method" in message or not asked:
            return None
        return json.dumps({**message, "id": asked.pop(0)}).encode() + b"\n"

    wire.from_subject, wire.to_subject = ask, answer


@wire_mutant("FR-15")
def does_not_understand_a_carriage_return(wire: Wire):
    wire.to_subject = lambda line: b"" if line.endswith(b"\r") else None


@raw_mutant("FR-15")
def forgets_the_last_newline():
    async def leave(launcher):
        async with hand_to(launcher) as peer:
            await peer.request("server/discover", {})
            peer.start("tools/list", {})
            peer.channel.write(b'{"jsonrpc":"2.0","method":"notifications/nothing"}')

    return InProcessDriver(leave)
