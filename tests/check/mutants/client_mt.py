"""Clients that break the rules of metadata, one each."""

from check.mutation import Wire, message_mutant, wire_mutant


def with_key(message, key, value=1):
    if message.get("method") == "tools/call":
        message["params"].setdefault("_meta", {})[key] = value
    return message


@message_mutant("MT-01")
def writes_an_invalid_key(message):
    return with_key(message, "-bad key-")


@message_mutant("MT-01", revision="2025-06-18")
def writes_an_invalid_prefix(message):
    return with_key(message, "com.example-/key")


@message_mutant("MT-02")
def takes_a_key_of_the_protocol(message):
    return with_key(message, "com.mcp.tools/key")


@message_mutant("MT-02", revision="2025-11-25")
def takes_a_key_of_the_protocol_in_a_session(message):
    return with_key(message, "io.modelcontextprotocol/mine")


@message_mutant("MT-03")
def takes_a_key_of_the_older_protocol(message):
    return with_key(message, "tools.mcp.com/key")


@message_mutant("MT-05")
def sends_an_invalid_trace(message):
    return with_key(message, "traceparent", "00-" + "0" * 32 + "-" + "1" * 16 + "-01")


@message_mutant("MT-07", revision="2025-11-25")
def writes_metadata_as_text(message):
    if message.get("method") == "tools/call":
        message["params"]["_meta"] = "text"
    return message


def stops_at(wire: Wire, word):
    deaf = []

    def stop(line):
        if word.encode() in line:
            deaf.append(line)
        return b"" if deaf else None

    wire.to_subject = stop


@wire_mutant("MT-04")
def exits_at_a_reserved_key(wire: Wire):
    stops_at(wire, "io.modelcontextprotocol/future")


@wire_mutant("MT-06")
def exits_at_a_broken_trace(wire: Wire):
    stops_at(wire, '"junk"')


@wire_mutant("MT-06", revision="2025-03-26")
def exits_at_a_broken_trace_in_a_session(wire: Wire):
    stops_at(wire, '"junk"')
