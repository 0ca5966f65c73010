"""JSON-RPC 2.0 as MCP uses it. The rules are those of sections JR and ER."""

import json

import msgspec
import pytest
from msgspec import UNSET, Raw

from twopipes._jsonrpc import Batch, ErrorObject, ErrorResponse, Notification, Request, Response, decode, encode, salvage_id
from twopipes._wire import MAX_DEPTH, LineDecoder, LineRejected

KIB = 1024
DEEP = 100_000


def refused(line: bytes, **options) -> LineRejected:
    found = decode(line, **options)
    assert isinstance(found, LineRejected)
    return found


def read(raw: Raw):
    return msgspec.json.decode(raw)


# The four kinds


def test_a_request_has_an_id_and_a_method():
    """JR-02."""
    found = decode(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}')
    assert isinstance(found, Request)
    assert (found.id, found.method, read(found.params)) == (1, "tools/call", {"name": "echo"})


def test_a_notification_has_no_id():
    """JR-09."""
    found = decode(b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}')
    assert isinstance(found, Notification)
    assert (found.method, read(found.params)) == ("notifications/progress", {"progress": 1})


def test_a_response_has_a_result():
    """JR-07."""
    found = decode(b'{"jsonrpc":"2.0","id":"a","result":{"tools":[]}}')
    assert isinstance(found, Response)
    assert (found.id, read(found.result)) == ("a", {"tools": []})


def test_an_error_response_has_an_error():
    """JR-08."""
    assert decode(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","data":[1,null]}}') == ErrorResponse(
        1, ErrorObject(-32601, "no", [1, None])
    )
    assert decode(b'{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":""}}') == ErrorResponse(1, ErrorObject(0, "", UNSET))


def test_params_and_results_stay_raw():
    """They are not parsed: numbers keep their zeros and members their order."""
    found = decode(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"b": 1.500, "a":[ ] }}')
    assert bytes(found.params) == b'{"b": 1.500, "a":[ ] }'


def test_the_order_of_the_members_does_not_matter():
    assert decode(b'{"method":"x","id":1,"jsonrpc":"2.0"}') == Request(1, "x")


def test_white_space_between_the_members_does_not_matter():
    found = decode(b' \t{ "jsonrpc" : "2.0" , "id" : 1 , "method" : "x" , "params" : { } }\r ')
    assert (found.id, found.method, bytes(found.params)) == (1, "x", b"{ }")


def test_escaped_member_names_are_the_same_names():
    assert decode(rb'{"\u006asonrpc":"2.0","\u0069d":1,"method":"\u0078"}') == Request(1, "x")


@pytest.mark.parametrize(
    "line",
    [
        b'{"zz":1,"jsonrpc":"2.0","id":1,"method":"x"}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","zz":{"id":2,"method":"y"}}',
    ],
)
def test_unknown_members_are_ignored(line):
    """JR-18."""
    assert decode(line) == Request(1, "x")


def test_unknown_members_of_an_error_are_ignored():
    """JR-18."""
    assert decode(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no","zz":[]}}') == ErrorResponse(1, ErrorObject(1, "no"))


def test_of_two_members_with_one_name_the_last_counts():
    assert decode(b'{"jsonrpc":"2.0","id":1,"id":"2","method":"x","method":"y"}') == Request("2", "y")


# Null instead of an absent member, as some libraries write


def test_null_params_count_as_absent():
    """JR-11, leniently."""
    assert decode(b'{"jsonrpc":"2.0","id":1,"method":"x","params":null}') == Request(1, "x")
    assert decode(b'{"jsonrpc":"2.0","method":"x","params":null}') == Notification("x")


def test_a_null_error_beside_a_result_counts_as_absent():
    """JR-07, leniently."""
    found = decode(b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}')
    assert isinstance(found, Response)


def test_a_null_result_beside_an_error_counts_as_absent():
    """JR-07, leniently."""
    assert decode(b'{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"no"}}') == ErrorResponse(
        1, ErrorObject(1, "no")
    )


@pytest.mark.parametrize(
    ("line", "request_id"), [(b'{"jsonrpc":"2.0","error":%s}', UNSET), (b'{"jsonrpc":"2.0","id":null,"error":%s}', None)]
)
def test_an_error_response_may_lack_its_id(line, request_id):
    """JR-17: no id, or null, from a sender that could not read ours."""
    found = decode(line % b'{"code":-32700,"message":"not JSON"}')
    assert found == ErrorResponse(request_id, ErrorObject(-32700, "not JSON"))
    assert found.id is request_id


# Ids


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (b"7", 7),
        (b'"7"', "7"),
        (b"0", 0),
        (b"-7", -7),
        (b'""', ""),
        (b'"a-b"', "a-b"),
        (b"9007199254740991", 2**53 - 1),
        (b"9007199254740993", 2**53 + 1),
        (b"18446744073709551616", 2**64),
        (b"-123456789012345678901234567890", -123456789012345678901234567890),
        (b"1" * 4000, int("1" * 4000)),
        ('"é\u2028😀"'.encode(), "é\u2028😀"),
        (rb'"\n\"\\"', '\n"\\'),
    ],
)
def test_an_id_keeps_its_value_and_its_json_type(written, value):
    """JR-02, JR-06."""
    found = decode(b'{"jsonrpc":"2.0","id":%s,"method":"x"}' % written)
    assert found == Request(value, "x")
    assert type(found.id) is type(value)
    assert b'"id":%s,' % written in encode(found)
    answer = encode(Response(found.id, {}))
    assert b'"id":%s,' % written in answer
    assert decode(answer[:-1]).id == value


def test_the_number_seven_is_not_the_string_seven():
    """JR-06."""
    number, string = (decode(b'{"jsonrpc":"2.0","id":%s,"method":"x"}' % written) for written in (b"7", b'"7"'))
    assert number != string


@pytest.mark.parametrize("written", [b"null", b"1.5", b"1.0", b"1e2", b"true", b"false", b"{}", b"[1]", b"9" * DEEP])
def test_any_other_id_makes_an_invalid_request_without_an_id(written):
    """JR-02, JR-03, ER-02."""
    found = refused(b'{"jsonrpc":"2.0","id":%s,"method":"x"}' % written)
    assert found.reason == "not JSON-RPC"
    assert found.detail.startswith(f'"id" must be a string or an integer, not {written[:40].decode()}')
    assert found.request_id is None
    assert found.code == -32600
    assert not found.is_notification
    assert not found.is_response


@pytest.mark.parametrize("written", [b"null", b"1.5", b"true"])
def test_a_response_with_such_an_id_gets_no_response(written):
    """JR-02, JR-07."""
    found = refused(b'{"jsonrpc":"2.0","id":%s,"result":{}}' % written)
    assert found.is_response
    assert found.request_id is None


def test_a_response_without_an_id_is_rejected():
    """JR-07."""
    found = refused(b'{"jsonrpc":"2.0","result":{}}')
    assert found.detail == '"id" must be a string or an integer, not absent'
    assert found.is_response


# JSON that is not a message (ER-02)


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        (b'{"id":1,"method":"x"}', '"jsonrpc" must be "2.0"'),
        (b'{"jsonrpc":"1.0","id":1,"method":"x"}', '"jsonrpc" must be "2.0"'),
        (b'{"jsonrpc":2.0,"id":1,"method":"x"}', '"jsonrpc" must be "2.0"'),
        (b'{"jsonrpc":"2.0","id":1}', 'neither a request ("method") nor a response ("result" or "error")'),
        (b'{"jsonrpc":"2.0","id":1,"params":{}}', 'neither a request ("method") nor a response ("result" or "error")'),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', '"method" must be a string, not 5'),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', '"method" must be a string, not null'),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}', '"params" must be an object, not [1]'),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":"y"}', '"params" must be an object, not "y"'),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":5}', '"params" must be an object, not 5'),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"x","params":[%s]}' % (b"1," * 50 + b"1"),
            '"params" must be an object, not [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1...',
        ),
    ],
)
def test_an_invalid_request_keeps_its_id_for_the_response(line, detail):
    """JR-01, JR-11, JR-17, ER-02."""
    found = refused(line)
    assert found.reason == "not JSON-RPC"
    assert found.detail == detail
    assert found.code == -32600
    assert found.request_id == 1
    assert not found.is_response
    assert not found.is_notification


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":5}', '"result" must be an object, not 5'),
        (b'{"jsonrpc":"2.0","id":1,"result":null}', '"result" must be an object, not null'),
        (b'{"jsonrpc":"2.0","id":1,"result":[]}', '"result" must be an object, not []'),
        (b'{"jsonrpc":"2.0","id":1,"error":null}', '"result" must be an object, not absent'),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}', 'both "result" and "error"'),
        (b'{"jsonrpc":"2.0","id":1,"result":5,"error":{"code":1,"message":"x"}}', 'both "result" and "error"'),
        (b'{"jsonrpc":"2.0","id":1,"error":5}', '"error" is malformed: Expected `object`, got `int`'),
        (b'{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}', '"error" is malformed: Object missing required field `code`'),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1}}', '"error" is malformed: Object missing required field `message`'),
        (
            b'{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"x"}}',
            '"error" is malformed: Expected `int`, got `str` - at `$.code`',
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"x"}}',
            '"error" is malformed: Expected `int`, got `float` - at `$.code`',
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":null}}',
            '"error" is malformed: Expected `str`, got `null` - at `$.message`',
        ),
        (b'{"jsonrpc":"1.0","id":1,"result":{}}', '"jsonrpc" must be "2.0"'),
    ],
)
def test_an_invalid_response_keeps_the_id_of_its_request(line, detail):
    """JR-07, JR-08. The caller learns that a response arrived and was invalid."""
    found = refused(line)
    assert found.reason == "not JSON-RPC"
    assert found.detail == detail
    assert found.request_id == 1
    assert found.is_response


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}',
        b'{"method":"notifications/cancelled"}',
        b'{"jsonrpc":"1.0","method":"x"}',
    ],
)
def test_a_malformed_notification_is_marked_so_that_it_gets_no_response(line):
    """JR-10."""
    found = refused(line)
    assert found.is_notification
    assert found.request_id is None


def test_without_a_method_it_is_not_a_notification():
    """ER-02."""
    found = refused(b'{"jsonrpc":"2.0","method":5}')
    assert not found.is_notification
    assert found.code == -32600


@pytest.mark.parametrize("line", [b"5", b"-1.5e3", b'"text"', b"null", b"true", b" 5 "])
def test_a_scalar_is_not_a_message(line):
    """ER-02, FR-01."""
    found = refused(line)
    assert found.reason == "not an object"
    assert found.code == -32600


# Not JSON (ER-01)


@pytest.mark.parametrize(
    "line",
    [
        b"{oops",
        b'{"jsonrpc":',
        b'{"jsonrpc":"2.0","id":1,"method":"x"',
        b'{"jsonrpc":"2.0","id":1,"method":"x"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"x"} {}',
        b'{"jsonrpc":"2.0","id":1,"method":"x",}',
        b'{"jsonrpc":"2.0","id":01,"method":"x"}',
        b"{'jsonrpc':'2.0'}",
        b"Server listening on port 3000",
        b"5 x",
        b"nul",
        b"[1,oops",
        b"[" * 20,
        b"\0",
        b"",
        b'{"jsonrpc":"2.0","id":1,"method":"a\x01b"}',
        b'{"jsonrpc":"2.0","id":1,"method":"\\x"}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":Infinity}}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":+1}}',
        b"\xef\xbb\xbf{}",
    ],
)
@pytest.mark.parametrize("max_batch", [0, 10])
def test_what_is_not_json_is_a_parse_error(line, max_batch):
    """ER-01."""
    found = refused(line, max_batch=max_batch)
    assert found.reason == "not JSON"
    assert found.code == -32700
    assert found.excerpt == line


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"1.0","id":7,"method":"x",oops',
        b'{"jsonrpc":"2.0","id":7,"method":5,"params":',
        b'{"jsonrpc":"2.0","id":7,"method":"x","error":5,',
    ],
)
def test_not_json_is_reported_before_other_faults(line):
    """ER-01 before ER-02: a truncated line is not JSON, even if a member before is wrong."""
    found = refused(line)
    assert found.reason == "not JSON"
    assert found.request_id == 7


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":"\xff","method":"x"}',
        b'{"jsonrpc":"2.0","id":"a","method":"\xff"}',
        b'{"jsonrpc":"2.0","id":"a","error":5,"method":"\xff"}',
    ],
)
def test_unchecked_bytes_that_are_not_utf8_are_rejected(line):
    """FR-03, ER-01. LineDecoder already rejects such a line; decode does not rely on that."""
    found = refused(line)
    assert found.reason == "not UTF-8"
    assert found.code == -32700


def test_an_id_that_is_not_utf8_is_not_an_id():
    """FR-03."""
    assert refused(b'{"jsonrpc":"1.0","id":"\xff","method":"x"}').request_id is None


def test_the_excerpt_is_bounded():
    for line in (b"x" * 1000, b"5" + b" " * 1000, b'{"a":"' + b"x" * 1000 + b'"}'):
        found = refused(line, max_excerpt=10)
        assert found.excerpt == line[:10]
        assert found.size == len(line)
        assert len(refused(line).excerpt) == 256


# Hostile lines


@pytest.mark.parametrize("max_batch", [0, None])
@pytest.mark.parametrize(
    "line",
    [
        b"[" * DEEP,
        b"[" * DEEP + b"]" * DEEP,
        b'{"a":' * DEEP,
        b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + b"[" * DEEP + b"]" * DEEP + b"}}",
        b'{"jsonrpc":"1.0","id":1,"method":"x","params":{"a":' + b"[" * DEEP + b"]" * DEEP + b"}}",
        b'{"jsonrpc":"2.0","id":1,"result":{"a":' + b"[" * DEEP + b"]" * DEEP + b"}}",
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x","data":' + b"[" * DEEP + b"]" * DEEP + b"}}",
        b'{"jsonrpc":"2.0","id":1,"result":5,"error":{"data":' + b"[" * DEEP + b"]" * DEEP + b',"code":1,"message":"x"}}',
    ],
    ids=range(9),
)
def test_a_hundred_thousand_brackets_are_too_deep(line, max_batch):
    """JR-20."""
    found = refused(line, max_batch=max_batch)
    assert found.reason == "too deep"
    assert found.code == -32600
    if b'"id":1' in line:
        assert found.request_id == 1
        assert found.is_response == (b'"method"' not in line)


def nested(levels: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b'{"a":' * (levels - 2) + b"[]" + b"}" * (levels - 1)


def test_five_hundred_levels_are_decoded_with_every_python():
    assert isinstance(decode(nested(500)), Request)


def test_one_level_more_than_the_limit_is_too_deep_with_every_python():
    """JR-20: before 3.14 CPython itself refuses it."""
    found = refused(nested(MAX_DEPTH + 1))
    assert (found.reason, found.request_id) == ("too deep", 1)
    assert str(found) == "too deep: nested too deeply to be decoded"


def test_a_number_of_a_hundred_thousand_digits_stays_raw():
    found = decode(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"n":%s}}' % (b"9" * DEEP))
    assert isinstance(found, Request)
    assert len(bytes(found.params)) == DEEP + 6


@pytest.mark.parametrize("data", [b"9" * DEEP, b"1e400"])
def test_an_error_with_a_number_out_of_range_is_malformed(data):
    """JR-08."""
    found = refused(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x","data":%s}}' % data)
    assert found.is_response
    assert found.request_id == 1


def test_nul_characters_in_strings_are_characters():
    assert decode(rb'{"jsonrpc":"2.0","id":"\u0000","method":"\u0000"}') == Request("\0", "\0")


# Lone surrogates


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (rb"\ud800", "\ufffd"),
        (rb"\uDFFF", "\ufffd"),
        (rb"\ud83d\ude00", "😀"),
        (rb"\ude00\ud83d", "\ufffd\ufffd"),
        (rb"\ud83d\ud83d\ude00", "\ufffd😀"),
        (rb"\\ud800 \ud800", "\\ud800 \ufffd"),  # the first is an escaped backslash and text
        (rb"\\\ud800", "\\\ufffd"),
        (rb"\\\\ud800\udc00", "\\\\ud800\ufffd"),
        (rb"\n\ud800\n", "\n\ufffd\n"),
        (rb"\"\ud800\"", '"\ufffd"'),
    ],
)
def test_an_escaped_lone_surrogate_becomes_a_replacement_character(written, text):
    """FR-03. JavaScript and Python both write such escapes for broken strings."""
    found = decode(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"%s":"%s"}}' % (written, written))
    assert read(found.params) == {text: text}
    assert decode(b'{"jsonrpc":"2.0","id":"%s","method":"%s"}' % (written, written)) == Request(text, text)
    assert decode(b'[{"jsonrpc":"2.0","method":"%s"}]' % written, max_batch=1) == Batch([Notification(text)])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (rb'{"jsonrpc":"2.0","id":1.5,"method":"\ud800"}', "not JSON-RPC"),
        (rb'{"jsonrpc":"2.0","id":1,"method":"\ud800",', "not JSON"),
        (rb'"\ud800"', "not an object"),
        (rb'["\ud800"]', "not an object"),
    ],
)
def test_a_rejected_line_with_a_lone_surrogate_is_reported_unchanged(line, reason):
    found = refused(line)
    assert found.reason == reason
    assert found.excerpt == line
    assert found.size == len(line)


def test_millions_of_escapes_around_a_lone_surrogate_are_fast():
    found = decode(rb'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"%s\ud800"}}' % (rb"\n\\" * 250_000))
    assert read(found.params)["a"] == "\n\\" * 250_000 + "\ufffd"


# Batches


def test_a_batch_is_rejected_unless_the_revision_has_batches():
    """JR-15."""
    found = refused(b'[{"jsonrpc":"2.0","id":1,"method":"x"}]')
    assert found.reason == "not an object"
    assert "2025-03-26" in found.detail
    assert found.code == -32600
    assert found.request_id is None


def test_a_batch_is_read_member_by_member():
    """JR-12."""
    found = decode(
        b' [{"jsonrpc":"2.0","id":10,"method":"ping"}, {"jsonrpc":"2.0","method":"notifications/x"},'
        b'{"jsonrpc":"2.0","id":11,"result":{}},{"jsonrpc":"2.0","id":12,"error":{"code":1,"message":"x"}}]',
        max_batch=10,
    )
    assert found == Batch(
        [Request(10, "ping"), Notification("notifications/x"), Response(11, Raw(b"{}")), ErrorResponse(12, ErrorObject(1, "x"))]
    )


def test_an_invalid_member_of_a_batch_does_not_affect_the_others():
    """JR-12, JR-13."""
    first, scalar, nested, last = decode(
        b'[{"jsonrpc":"2.0","id":1},5,[],{"jsonrpc":"2.0","id":2,"method":"x"}]', max_batch=10
    ).members
    assert first.request_id == 1
    assert (scalar.reason, scalar.excerpt) == ("not an object", b"5")
    assert (nested.reason, nested.excerpt) == ("not an object", b"[]")
    assert last == Request(2, "x")


def test_an_empty_batch_is_an_empty_batch():
    """JR-13: the session decides how to respond."""
    assert decode(b"[ ]", max_batch=10) == Batch([])


@pytest.mark.parametrize(("most", "served"), [(2, False), (3, True), (None, True)])
def test_a_batch_has_a_limit(most, served):
    """JR-12."""
    found = decode(b"[%s]" % b",".join([b'{"jsonrpc":"2.0","method":"x"}'] * 3), max_batch=most)
    assert isinstance(found, Batch) is served
    if not served:
        assert found.reason == "too long"
        assert found.detail == "a batch of 3 messages; the limit is 2"


def test_a_batch_of_nothing_but_commas_is_rejected_undecoded():
    found = refused(b"[%s1]" % (b"1," * 250_001), max_batch=None)
    assert found.reason == "too long"
    assert "commas" in found.detail


# Finding the id in a line that cannot be decoded (JR-17)


def unread(head: bytes, tail: bytes = b"", reason: str = "not JSON") -> LineRejected:
    return salvage_id(LineRejected(reason=reason, detail="", excerpt=head, tail=tail, size=len(head)))


@pytest.mark.parametrize(
    ("head", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":', 7),
        (b'{"jsonrpc":"2.0","id":"7","method":"x","params":{"a":', "7"),
        (b'{"method":"x","id":-7,"params":{"a":', -7),
        (b' { "id" : 123456789012345678901234567890 , "method" : "x" , "params" : {', 123456789012345678901234567890),
        (b'{"jsonrpc":"2.0","id":7,"params":{"a":', 7),
        (b'{"jsonrpc":"2.0","id":7', None),  # the number may be incomplete
        (b'{"jsonrpc":"2.0","id":"7', None),
        (b'{"jsonrpc":"2.0","id":7.5,"method":"x",', None),
        (b'{"jsonrpc":"2.0","id":null,"method":"x",', None),
        (b'{"jsonrpc":"2.0","id":07,"method":"x",', None),
        (b'{"jsonrpc":"2.0","method":"x","id":07,"params":{', None),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"x","params":{', None),
        (rb'{"jsonrpc":"2.0","id":"a\"b","method":"x","params":{', None),
        (b'{"jsonrpc":"2.0","method":"x","params":{"id":7,', None),  # not at the top level
        (b'{"jsonrpc":"2.0","id":7}', None),  # neither a request nor a response
        (b"[7]", None),
        (b"", None),
    ],
)
def test_the_id_is_found_at_the_start_of_a_broken_line(head, request_id):
    """JR-17."""
    found = unread(head)
    assert found.request_id == request_id
    assert type(found.request_id) is type(request_id)
    assert not found.is_response


@pytest.mark.parametrize(
    ("tail", "request_id"),
    [
        (b'xxx"},"jsonrpc":"2.0","id":42}', 42),
        (b'xxx"}, "id" : "42" , "jsonrpc":"2.0" } ', "42"),
        (b'xxx"},"id":42,"method":"x"}', 42),
        (b'xxx"},"id":4.2}', None),
        (b'xxx","id":42}}', None),  # not at the top level
        (b'xxx","id":42', None),
    ],
)
def test_the_id_is_found_at_the_end_of_a_line_that_was_too_long(tail, request_id):
    """JR-17. The TypeScript SDK writes the id last."""
    head = b'{"method":"tools/call","params":{"text":"xxx'
    assert unread(head, tail, "too long").request_id == request_id
    assert unread(head, tail, "too deep").request_id == request_id
    assert unread(head, tail, "not JSON").request_id is None


@pytest.mark.parametrize("member", [b"result", b"error"])
def test_a_broken_response_is_recognised_as_a_response(member):
    """JR-17."""
    found = unread(b'{"jsonrpc":"2.0","id":7,"%s":{"a":' % member)
    assert found.is_response
    assert found.request_id == 7


def test_a_broken_notification_is_recognised_by_its_method():
    """JR-10."""
    assert unread(b'{"jsonrpc":"2.0","method":"notifications/progress","params":{').is_notification
    assert not unread(b'{"jsonrpc":"2.0","method":"tools/call","params":{').is_notification


def test_a_line_over_the_limit_still_keeps_its_id():
    """JR-17, JR-20."""
    decoder = LineDecoder(max_line=1000)
    line = b'{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{"text":"' + b"x" * 5000 + b'"}}\n'
    (event,) = decoder.feed(line)
    assert salvage_id(event).request_id == "big"


# Writing


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (Request(1, "ping"), b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'),
        (Request("1", "x", {"a": 1}), b'{"jsonrpc":"2.0","id":"1","method":"x","params":{"a":1}}\n'),
        (Notification("x"), b'{"jsonrpc":"2.0","method":"x"}\n'),
        (Notification("x", Raw(b'{"a":1}')), b'{"jsonrpc":"2.0","method":"x","params":{"a":1}}\n'),
        (Response(1, {}), b'{"jsonrpc":"2.0","id":1,"result":{}}\n'),
        (ErrorResponse(1, ErrorObject(-32601, "no")), b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}\n'),
        (ErrorResponse(1, ErrorObject(1, "no", None)), b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no","data":null}}\n'),
        (ErrorResponse(UNSET, ErrorObject(1, "no")), b'{"jsonrpc":"2.0","error":{"code":1,"message":"no"}}\n'),
        (ErrorResponse(None, ErrorObject(1, "no")), b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}\n'),
    ],
)
def test_a_message_is_written_with_its_version_first(message, line):
    """JR-01, JR-07, JR-08, JR-09, JR-17."""
    assert encode(message) == line


def test_the_responses_to_a_batch_are_written_as_one_array_on_one_line():
    """JR-13."""
    line = encode([Response(1, {"a": "\n"}), ErrorResponse(2, ErrorObject(1, "no"))])
    assert line.count(b"\n") == 1
    assert [each["id"] for each in json.loads(line)] == [1, 2]
