"""Servers that break the rules of framing, one each."""

from check.mutants.server_sd import raw
from check.mutation import Wire, line_mutant, nothing_from, raw_mutant, wire_mutant

# Bytes. What no other line is as long as.
VERY_LONG = 32 * 1024 * 1024


@line_mutant("FR-01")
def writes_two_messages_on_a_line(line):
    return line + b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n'


@line_mutant("FR-02")
def writes_newlines_in_strings_as_they_are(line):
    return line.replace(b"\\n", b"\n") + b"\n"


@line_mutant("FR-03")
def writes_latin_1(line):
    return line.decode().encode("latin-1", "replace") + b"\n"


@wire_mutant("FR-03", revision="2025-11-25")
def forgets_half_of_a_pair_of_surrogates(wire: Wire):
    wire.to_subject = lambda line: None if line.isascii() is False else line.replace(b"\\ud83d", b"") + b"\n"


@line_mutant("FR-03")
def begins_with_a_byte_order_mark(line):
    return b"\xef\xbb\xbf" + line + b"\n"


@line_mutant("FR-04")
def prints_while_it_works(line):
    return b"working...\n" + line + b"\n"


@wire_mutant("FR-04")
def prints_what_is_wrong_with_a_line(wire: Wire):
    def complain(line):
        if not line.startswith(b"{") or b"oops" in line:
            wire.send_to_check(b"Traceback (most recent call last): ...\n")

    wire.to_subject = complain


@wire_mutant("FR-09")
def asks_by_a_request(wire: Wire):
    def ask(line):
        if b'"tools/call"' in line:
            wire.send_to_check({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})

    wire.to_subject = ask


@wire_mutant("FR-11")
def mistakes_a_write_for_a_message_of_a_socket(wire: Wire):
    wire.chunk_to_subject = _only_whole_lines


@wire_mutant("FR-12", revision="2025-11-25")
def mistakes_a_write_for_a_message_of_a_transport(wire: Wire):
    wire.chunk_to_subject = _only_whole_lines


@wire_mutant("FR-13")
def mistakes_a_write_for_a_message(wire: Wire):
    wire.chunk_to_subject = _only_whole_lines


def _only_whole_lines(data: bytes) -> bytes:
    return data if data.startswith(b"{") and data.endswith(b"\n") else b""


@wire_mutant("FR-13")
def loses_all_but_the_first_of_a_crowd(wire: Wire):
    wire.chunk_to_subject = lambda data: data[: data.find(b"\n") + 1] or data


@wire_mutant("FR-13")
def cuts_off_long_lines(wire: Wire):
    wire.to_subject = lambda line: b"" if len(line) > 64 * 1024 else None


@wire_mutant("FR-13")
def loses_very_long_lines(wire: Wire):
    wire.to_subject = lambda line: b"" if len(line) > VERY_LONG else None


@wire_mutant("FR-13")
def reads_nothing_after_a_very_long_line(wire: Wire):
    wire.to_subject = nothing_from(lambda line: len(line) > VERY_LONG)


@wire_mutant("FR-13")
def loses_unread_output(wire: Wire):
    wire.from_subject = lambda _line: b"" if wire.unread > 8 else None


@raw_mutant("FR-15")
def requires_a_newline_after_the_last_line():
    return raw("wants-a-newline")


@line_mutant("FR-15")
def ends_lines_with_a_carriage_return(line):
    return line + b"\r\n"


@wire_mutant("FR-15")
def does_not_understand_a_carriage_return(wire: Wire):
    wire.to_subject = lambda line: b"" if line.endswith(b"\r") else None


@wire_mutant("FR-15")
def complains_about_blank_lines(wire: Wire):
    def complain(line):
        if not line.strip():
            wire.send_to_check({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no JSON"}})

    wire.to_subject = complain
