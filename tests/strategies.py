"""Hypothesis strategies: ids, JSON, messages, and valid and broken streams."""

from hypothesis import strategies as st
from msgspec import UNSET

from twopipes._jsonrpc import ErrorObject, ErrorResponse, Notification, Request, Response, encode

# Every character that UTF-8 can represent, including newlines, NUL and U+2028.
texts = st.text(st.characters(exclude_categories=["Cs"]))
# Those, and lone surrogates.
texts_with_surrogates = st.text(st.characters() | st.characters(categories=["Cs"]))

request_ids = st.integers() | st.integers(min_value=-(10**40), max_value=10**40) | st.integers(0, 9).map(str) | texts

json_scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values = st.recursive(
    json_scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
json_objects = st.dictionaries(texts, json_values, max_size=4)

maybe_params = st.just(UNSET) | json_objects
error_objects = st.builds(ErrorObject, st.integers(min_value=-(2**63), max_value=2**63 - 1), texts, st.just(UNSET) | json_values)

requests = st.builds(Request, request_ids, texts, maybe_params)
notifications = st.builds(Notification, texts, maybe_params)
responses = st.builds(Response, request_ids, json_objects)
error_responses = st.builds(ErrorResponse, st.just(UNSET) | st.none() | request_ids, error_objects)
messages = requests | notifications | responses | error_responses

# Parts of streams: valid lines, and everything that has been seen instead of them.
fragments = st.one_of(
    messages.map(encode),
    messages.map(lambda message: encode(message)[:-1]),
    st.lists(messages, max_size=3).map(encode),
    json_values.map(lambda value: encode([value])[1:]),
    st.sampled_from(
        [
            b"\n",
            b"\r\n",
            b" ",
            b"\xef\xbb\xbf",
            b"\xff",
            b"\xc3",
            b"\xed\xa0\x80",
            b"\0",
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b'"',
            b'{"jsonrpc":"2.0",',
            b'"id":1,',
            b'"id":null,',
            b'"id":1.5}',
            b'"method":"x"',
            b'"params":[1]}',
            b'"result":{}}',
            b'"error":{"code":1,"message":"x"}}',
            b"NaN",
            rb'"\ud800"',
            b"x" * 120,
            b"[" * 2000,
            b"9" * 5000,
        ]
    ),
    st.binary(max_size=20),
)
streams = st.lists(fragments, max_size=12).map(b"".join)
