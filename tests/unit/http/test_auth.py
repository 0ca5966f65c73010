"""Bearer tokens and challenges, without a network."""

import asyncio
import logging

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._http.auth import Auth, Endpoint, Guard, Identity, bearer_token
from twopipes._http.refusal import Refusal

HERE = Endpoint("https", "mcp.example.com", "", "/mcp")
METADATA = 'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'
SECRET = "eyJhbGciOiJub25lIn0.c2VjcmV0LXBheWxvYWQ.c2lnbmF0dXJl"


async def verify(token):
    return {"good": Identity("ada", frozenset({"read"})), "admin": Identity("root", frozenset({"read", "write"}))}.get(token)


def admit(auth, header=None, endpoint=HERE):
    headers = {} if header is None else {"authorization": header}
    return asyncio.run(Guard(auth).admit(headers, endpoint))


def challenge(refusal):
    ((name, value),) = refusal.headers
    assert name == b"www-authenticate"
    return value.decode()


def test_a_valid_token_gives_its_owner():
    assert admit(verify, "Bearer good") == Identity("ada", frozenset({"read"}))
    assert admit(Auth(verify, scopes=("read", "write")), "bearer  admin ").subject == "root"


def test_a_request_without_a_token_is_challenged_without_an_error_code():
    refusal = admit(verify)
    assert refusal.status == 401
    assert challenge(refusal) == f"Bearer {METADATA}"


@pytest.mark.parametrize(
    "header",
    [
        "Bearer bad",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "Bearer a b",
        "Bearer good, Bearer good",
        "good",
        "",
        "Bearer \u00e4",
        'Bearer a"b',
    ],
)
def test_a_token_that_is_not_valid_is_refused_with_401(header):
    refusal = admit(verify, header)
    assert refusal.status == 401
    assert challenge(refusal).startswith('Bearer error="invalid_token", error_description="')
    assert challenge(refusal).endswith(METADATA)


def test_a_token_that_is_too_long_is_not_verified():
    async def never(token):
        raise AssertionError

    assert admit(never, "Bearer " + "a" * 20_000).status == 401


def test_a_token_without_the_scopes_is_refused_with_403_and_all_of_them():
    refusal = admit(Auth(verify, scopes=("read", "write")), "Bearer good")
    assert refusal.status == 403
    assert challenge(refusal).startswith('Bearer error="insufficient_scope", ')
    assert 'scope="read write"' in challenge(refusal)
    assert 'scope="read write"' in challenge(admit(Auth(verify, scopes=("read", "write"))))


def test_a_verifier_that_raises_is_500_without_details_and_without_the_token_in_the_log(caplog):
    async def broken(token):
        raise RuntimeError(f"no database for {token}, whose payload is {token.split('.')[1]}")

    refusal = admit(broken, f"Bearer {SECRET}")
    assert refusal == Refusal(500, "the access token could not be verified")
    assert "no database for [token]" in caplog.text
    for part in SECRET.split("."):
        assert part not in caplog.text


def test_a_verifier_that_does_not_return_is_given_up(caplog):
    async def endless(token):
        await asyncio.Event().wait()

    refusal = admit(Auth(endless, timeout=0.01), f"Bearer {SECRET}")
    assert refusal.status == 503
    assert dict(refusal.headers) == {b"retry-after": b"5"}
    assert SECRET not in caplog.text


def test_a_verifier_that_returns_something_else_is_an_error(caplog):
    async def wrong(token):
        return {"sub": "ada"}

    with caplog.at_level(logging.ERROR):
        assert admit(wrong, "Bearer good").status == 500
    assert "must return an Identity or None, got dict" in caplog.text


def test_an_identity_shows_no_claims():
    assert repr(Identity("ada", frozenset({"b", "a"}), "app", {"email": "ada@example.com"})) == (
        "Identity(subject='ada', scopes=['a', 'b'], client_id='app')"
    )


def test_an_identity_has_a_subject():
    with pytest.raises(ValueError, match="subject must not be empty"):
        Identity("")


@given(st.text())
def test_a_header_is_a_token_or_nothing(header):
    token = bearer_token(header)
    assert token is None or (token in header and token.isascii() and " " not in token)


# Metadata (RFC 9728)


def metadata(auth, endpoint=HERE):
    return msgspec.json.decode(Guard(auth).metadata(endpoint))


def test_the_metadata_names_the_resource_and_its_authorization_servers():
    auth = Auth(verify, authorization_servers=("https://auth.example.com",), scopes=("read",))
    assert metadata(auth) == {
        "resource": "https://mcp.example.com/mcp",
        "authorization_servers": ["https://auth.example.com"],
        "scopes_supported": ["read"],
        "bearer_methods_supported": ["header"],
    }


def test_a_verifier_with_an_issuer_names_the_authorization_server():
    class WithIssuer:
        issuer = "https://auth.example.com"

        async def __call__(self, token):
            return None

    assert metadata(WithIssuer())["authorization_servers"] == ["https://auth.example.com"]
    assert "authorization_servers" not in metadata(verify)


@pytest.mark.parametrize(
    ("resource", "endpoint", "address", "own"),
    [
        (None, HERE, "https://mcp.example.com{}/mcp", "https://mcp.example.com/mcp"),
        (None, Endpoint("http", "[::1]:8000", "", "/mcp"), "http://[::1]:8000{}/mcp", "http://[::1]:8000/mcp"),
        # Mounted: the application cannot answer at the root.
        (None, Endpoint("http", "localhost", "/api", "/mcp"), "http://localhost/api{}/mcp", "http://localhost/api/mcp"),
        (
            "https://x.example/api/mcp",
            Endpoint("http", "x.example", "/api", "/mcp"),
            "https://x.example/api{}/mcp",
            "https://x.example/api/mcp",
        ),
        # Behind a proxy that adds a path and TLS.
        (
            "https://x.example/a/mcp",
            Endpoint("http", "10.0.0.1", "", "/mcp"),
            "https://x.example{}/a/mcp",
            "https://x.example/a/mcp",
        ),
        ("https://x.example", HERE, "https://x.example{}", "https://x.example"),
        # Nothing of a request reaches the header as it is.
        (None, Endpoint("x", 'a"b', '/"\r\nx', "/mcp"), "http://localhost/%22%0D%0Ax{}/mcp", "http://localhost/%22%0D%0Ax/mcp"),
    ],
)
def test_where_the_metadata_is(resource, endpoint, address, own):
    auth = Auth(verify, resource=resource)
    expected = address.format("/.well-known/oauth-protected-resource")
    assert challenge(admit(auth, endpoint=endpoint)) == f'Bearer resource_metadata="{expected}"'
    assert metadata(auth, endpoint)["resource"] == own


def test_the_paths_of_the_metadata():
    guard = Guard(Auth(verify, resource="https://x.example/a/mcp"))
    well_known = "/.well-known/oauth-protected-resource"
    for path in ("", "/", "/mcp", "/a/mcp"):
        assert guard.serves_metadata(well_known + path, "/mcp")
    for path in ("/mcp", "/", well_known + "/other", well_known + "mcp", "/x" + well_known):
        assert not guard.serves_metadata(path, "/mcp")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"resource": "mcp.example.com"}, "Auth.resource must be an address such as"),
        ({"resource": "http://mcp.example.com/mcp"}, "Auth.resource must start with https://"),
        ({"resource": "https://mcp.example.com/#x"}, "without a fragment"),
        ({"resource": 'https://mcp.example.com/"'}, "quotes"),
        ({"authorization_servers": "https://auth.example.com"}, "must be a tuple of strings"),
        ({"authorization_servers": ("ftp://auth.example.com",)}, "Auth.authorization_servers must start with https://"),
        ({"scopes": ("a b",)}, "words without spaces"),
        ({"scopes": ('"',)}, "words without spaces"),
        ({"timeout": float("nan")}, "Auth.timeout must be a finite number"),
        ({"verify": "token"}, "Auth.verify must be an async function"),
    ],
)
def test_wrong_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Auth(**{"verify": verify, **options})


def test_http_is_accepted_for_loopback():
    assert Auth(verify, resource="http://localhost:8000/mcp").resource == "http://localhost:8000/mcp"
