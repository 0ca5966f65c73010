"""Access tokens that are JWTs: real keys, and keys published by a server on loopback."""

import asyncio
import hmac
import json
import threading
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from jwt_issuer import AUDIENCE, ISSUER, KEYS, OTHER, jwk, published, publishing, token
from twopipes._http import jwt_verifier
from twopipes._http.jwks import KeySet, fetch_document
from twopipes._http.jwt_verifier import JwtVerifier


@pytest.fixture
def publisher():
    with publishing() as publisher:
        yield publisher


@pytest.fixture
def verifier(publisher):
    return JwtVerifier(publisher.url, issuer=ISSUER, audience=AUDIENCE)


def verify(verifier, *tokens):
    """Return the identity of each token, verified in one event loop."""

    async def all_of_them():
        return [await verifier(each) for each in tokens]

    found = asyncio.run(all_of_them())
    return found[0] if len(found) == 1 else found


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_valid_token_gives_its_claims(verifier, algorithm):
    identity = verify(verifier, token(algorithm, scope="read write", client_id="app", email="ada@example.com"))
    assert (identity.subject, identity.scopes, identity.client_id) == ("ada", {"read", "write"}, "app")
    assert identity.claims["email"] == "ada@example.com"
    assert identity.expires == identity.claims["exp"] + 30  # the leeway


def test_scopes_and_clients_have_other_names_too(verifier):
    assert verify(verifier, token(scp=["read", 3], azp="app")).scopes == {"read"}
    assert verify(verifier, token(scope=7)).scopes == frozenset()
    assert verify(verifier, token(azp="app")).client_id == "app"


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1},
        {"exp": int(time.time()) - 31},
        {"exp": None},
        {"nbf": int(time.time()) + 3600},
        {"aud": "https://other.example.com"},
        {"aud": None},
        {"aud": []},
        {"iss": "https://other.example.com"},
        {"iss": None},
        {"sub": None},
        {"sub": ""},
        {"key": OTHER},
        {"kid": "unknown"},
        {"headers": {"crit": ["exp"]}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_token_that_is_not_for_this_server_is_refused(verifier, changes):
    assert verify(verifier, token(**changes)) is None


def test_an_audience_may_be_one_of_several(publisher):
    verifier = JwtVerifier(publisher.url, issuer=ISSUER, audience=("https://a.example", AUDIENCE))
    assert verify(verifier, token(aud=["x", AUDIENCE])).subject == "ada"


def part(content):
    return jwt.utils.base64url_encode(json.dumps(content).encode()).decode()


def unsigned(algorithm):
    claims = {"sub": "ada", "iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 60}
    return f"{part({'alg': algorithm, 'kid': 'ES256'})}.{part(claims)}."


DEEP = jwt.utils.base64url_encode(b'{"a":' * 5000).decode()


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None, 7, ["ES256"], {"a": 1}, "HS256", "ES384", "XX"])
def test_no_algorithm_but_the_accepted_ones_is_tried(verifier, publisher, algorithm):
    assert verify(verifier, unsigned(algorithm)) is None
    assert publisher.fetches == 0


def test_a_public_key_is_never_taken_for_a_secret(verifier, publisher):
    as_pem = KEYS["ES256"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for secret in (as_pem, json.dumps(publisher.keys[1]).encode()):
        message = unsigned("HS256").removesuffix(".")
        signature = jwt.utils.base64url_encode(hmac.digest(secret, message.encode(), "sha256")).decode()
        assert verify(verifier, f"{message}.{signature}") is None


def test_a_key_is_used_with_its_algorithm_only(verifier, publisher):
    publisher.keys = [jwk(KEYS["RS256"], "RS256", kid="RS256", alg="RS512"), jwk(KEYS["ES256"], "ES256", kid="RS256")]
    assert verify(verifier, token("RS256")) is None


def test_a_key_without_an_algorithm_is_used_with_the_accepted_ones(publisher):
    publisher.keys = [jwk(KEYS["RS256"], "RS256", kid="k")]
    verifier = JwtVerifier(publisher.url, issuer=ISSUER, audience=AUDIENCE, algorithms=["PS256"])
    assert verify(verifier, token("PS256", KEYS["RS256"], kid="k")).subject == "ada"
    assert verify(verifier, token("RS256", kid="k")) is None


def test_a_token_without_a_key_id_is_tried_with_the_keys_of_its_type(verifier, publisher):
    publisher.keys = [*published(), jwk(OTHER, "ES256")]
    assert verify(verifier, token("ES256", kid=None)).subject == "ada"
    assert verify(verifier, token("ES256", OTHER, kid=None)).subject == "ada"


def test_a_short_key_is_refused(verifier, publisher):
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    publisher.keys = [jwk(weak, "RS256", kid="RS256")]
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        weak_token = token("RS256", weak)
    assert verify(verifier, weak_token) is None


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "a.b.c", "a", f"{part([])}.{part({})}.x", f"{part('x')}..", DEEP + ".a.a", "\u00e4.b.c", "=" * 1000],
    ids=lambda text: text[:20],
)
def test_a_malformed_token_is_refused(verifier, publisher, text):
    assert verify(verifier, text) is None
    assert publisher.fetches == 0


def test_a_changed_character_is_noticed(verifier):
    good = token()
    assert verify(verifier, good) is not None
    header, payload, signature = good.split(".")
    swapped = signature[:10] + ("A" if signature[10] != "A" else "B") + signature[11:]
    assert verify(verifier, f"{header}.{payload}.{swapped}", f"{header}.{payload[:-2]}.{signature}") == [None, None]


def test_a_flood_of_invented_key_ids_fetches_the_keys_once(verifier, publisher):
    tokens = [token(kid=f"invented-{number}") for number in range(200)]

    async def flood():
        assert await verifier(token()) is not None
        return await asyncio.gather(*(verifier(each) for each in tokens))

    assert asyncio.run(flood()) == [None] * 200
    assert publisher.fetches == 1


def test_callers_share_one_fetch(verifier, publisher):
    tokens = [token(jti=str(number)) for number in range(50)]

    async def all_at_once():
        return await asyncio.gather(*(verifier(each) for each in tokens))

    assert all(asyncio.run(all_at_once()))
    assert publisher.fetches == 1


def test_a_verified_token_is_remembered_until_the_keys_change(verifier, publisher, monkeypatch):
    calls = []
    original = jwt.decode
    monkeypatch.setattr(jwt, "decode", lambda *args, **options: (calls.append(1), original(*args, **options))[1])
    good = token()
    assert len(set(map(id, verify(verifier, good, good, good)))) == 1
    assert len(calls) == 1
    assert good not in repr(verifier._remembered)
    publisher.keys = published("RS256")  # the key was withdrawn
    verifier._keys._next_attempt = 0.0
    assert verify(verifier, token(kid="new"), good) == [None, None]


def test_a_remembered_token_expires(verifier, monkeypatch):
    good = token(exp=int(time.time()) + 10)
    assert verify(verifier, good) is not None
    (remembered,) = verifier._remembered.values()
    assert remembered.until <= time.time() + 40  # the leeway is 30 s
    monkeypatch.setattr(jwt_verifier.time, "time", lambda: remembered.until)
    monkeypatch.setattr(verifier, "_verified_claims", lambda _: asyncio.sleep(0, None))
    assert verify(verifier, good) is None


def test_remembered_tokens_are_bounded(verifier, monkeypatch):
    monkeypatch.setattr(jwt_verifier, "_MAX_REMEMBERED", 3)
    assert all(verify(verifier, *(token(jti=str(number)) for number in range(10))))
    assert len(verifier._remembered) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"jwks_url": "http://auth.example.com/jwks"}, "jwks_url must start with https://"),
        ({"jwks_url": "file:///etc/passwd"}, "jwks_url must"),
        ({"algorithms": ["HS256"]}, "got HS256"),
        ({"algorithms": ["none", "RS256"]}, "got none"),
        ({"algorithms": []}, "got none"),
        ({"issuer": ""}, "issuer must not be empty"),
        ({"audience": ""}, "audience must not be empty"),
        ({"audience": []}, "audience must not be empty"),
    ],
)
def test_wrong_arguments_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        JwtVerifier(**{"jwks_url": "https://auth.example.com/jwks", "issuer": ISSUER, "audience": AUDIENCE, **arguments})


def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jwt", None)
    with pytest.raises(ImportError, match=r'pip install "twopipes\[auth\]"'):
        JwtVerifier("https://auth.example.com/jwks", issuer=ISSUER, audience=AUDIENCE)


# The keys


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Source:
    """Documents to fetch; an exception is raised."""

    def __init__(self, *documents):
        self.documents = list(documents)
        self.fetches = 0

    def __call__(self, url):
        self.fetches += 1
        document = self.documents.pop(0) if len(self.documents) > 1 else self.documents[0]
        if isinstance(document, Exception):
            raise document
        return json.dumps({"keys": [{"kid": each} for each in document]}).encode()


def find(keys, *key_ids):
    async def all_of_them():
        found = []
        for each in key_ids:
            found.append([key["kid"] for key in await keys.find(each)])
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))  # what runs in the background
        return found

    return asyncio.run(all_of_them())


def test_an_unknown_key_id_fetches_again_after_a_while():
    clock, source = Clock(), Source(["a"], ["a", "b"])
    keys = KeySet("https://x", fetch=source, clock=clock)
    assert find(keys, "a", "b", "c") == [["a"], [], []]
    clock.now += 30
    assert find(keys, "b", "c", "d", None) == [["b"], [], [], ["a", "b"]]
    assert source.fetches == 2


def test_keys_are_fetched_again_in_the_background():
    clock, source = Clock(), Source(["a"], ["b"])
    keys = KeySet("https://x", fetch=source, clock=clock)
    assert find(keys, "a") == [["a"]]
    clock.now += 600
    assert find(keys, "a", "a") == [["a"], []]  # the first caller did not wait
    assert keys.generation == 2


def test_old_keys_are_used_for_a_day_while_they_cannot_be_fetched(caplog):
    clock, source = Clock(), Source(["a"], OSError("no route"))
    keys = KeySet("https://x", fetch=source, clock=clock)
    assert find(keys, "a") == [["a"]]
    clock.now += 86_399
    assert find(keys, "a") == [["a"]]
    assert "the keys at https://x could not be fetched: no route" in caplog.text
    clock.now += 5
    with pytest.raises(ConnectionError, match="could not be fetched"):
        find(keys, "a")


def test_a_failed_attempt_is_repeated_after_a_while_only():
    clock, source = Clock(), Source(OSError("no route"), OSError("no route"), ["a"])
    keys = KeySet("https://x", fetch=source, clock=clock)
    for _ in range(5):
        with pytest.raises(ConnectionError):
            find(keys, "a")
    assert source.fetches == 1
    clock.now += 5
    with pytest.raises(ConnectionError):
        find(keys, "a")
    clock.now += 5
    assert find(keys, "a") == [["a"]]


def test_a_caller_that_gives_up_does_not_end_the_fetch_of_others():
    release = threading.Event()

    def slow(url):
        release.wait(10)
        return b'{"keys": [{"kid": "a"}]}'

    async def scenario():
        keys = KeySet("https://x", fetch=slow)
        first, second = asyncio.create_task(keys.find("a")), asyncio.create_task(keys.find("a"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        release.set()
        return await second

    assert asyncio.run(scenario()) == ({"kid": "a"},)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:1/"}}, "302"),
        ({"status": 500}, "500"),
        ({"body": b"<html>"}, "malformed"),
        ({"body": b"[]"}, "Expected `object`"),
        ({"body": b" " * (1024 * 1024 + 1)}, "larger than"),
        ({"keys": [{"kid": str(number)} for number in range(101)]}, "more than 100 keys"),
    ],
)
def test_a_document_that_is_not_a_key_set_is_refused(publisher, caplog, change, words):
    for name, value in change.items():
        setattr(publisher, name, value)
    with pytest.raises(ConnectionError):
        find(KeySet(publisher.url), "a")
    assert words in caplog.text
    assert publisher.fetches == 1


def test_keys_for_other_uses_are_left_out(publisher):
    publisher.keys = [{"kid": "a", "use": "enc"}, "text", {"kid": "b"}]
    assert find(KeySet(publisher.url), None) == [["b"]]


def test_a_document_that_drips_is_given_up(publisher, monkeypatch):
    monkeypatch.setattr("twopipes._http.jwks._FETCH_TIMEOUT", 0.0001)
    with pytest.raises(OSError, match=r"timed out|did not arrive"):
        fetch_document(publisher.url)
