"""A ready verifier for access tokens that are JWTs, on PyJWT (the extra ``auth``)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from twopipes._http.auth import Identity, check_address
from twopipes._http.jwks import Jwk, KeySet

if TYPE_CHECKING:
    from jwt import PyJWK

ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")
# With public keys; an algorithm with a shared secret would take a public key for the secret.
_POSSIBLE: Final = frozenset(
    ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"),
)
# Seconds for which a verified token is not verified again, and how many. A signature costs more than the rest of a request.
_REMEMBERED_FOR: Final = 60.0
_MAX_REMEMBERED: Final = 10_000
# Keys to try for a token that does not name its key. Each costs the time of a signature.
_MAX_TRIED: Final = 8


class _Remembered(NamedTuple):
    identity: Identity
    until: float  # Unix time


class JwtVerifier:
    """Verifies access tokens that are JWTs, with the keys that the authorization server publishes. Pass it as ``auth=``.

    A token is valid if its signature fits one of the keys, it was issued by ``issuer`` for ``audience``, and it has not expired.
    Its ``sub`` becomes the subject, its ``scope`` or ``scp`` the scopes, its ``client_id`` or ``azp`` the client.

    Args:
        jwks_url: Where the authorization server publishes its keys, such as ``https://auth.example.com/.well-known/jwks.json``.
        issuer: The ``iss`` that tokens must have. Clients learn it as the authorization server.
        audience: The ``aud`` that tokens must have, usually the address of the MCP endpoint; or several, any of which is accepted.
        algorithms: The accepted algorithms, all with public keys.
        leeway: Seconds by which the clocks of the two machines may differ.

    Raises:
        ImportError: PyJWT is not installed; run ``pip install "twopipes[auth]"``.
        ValueError: An argument is malformed.
    """

    def __init__(
        self,
        jwks_url: str,
        *,
        issuer: str,
        audience: str | Sequence[str],
        algorithms: Sequence[str] = ALGORITHMS,
        leeway: float = 30.0,
    ) -> None:
        _check_library()
        check_address(jwks_url, what="jwks_url")
        unknown = sorted(set(algorithms) - _POSSIBLE)
        if not algorithms or unknown:
            wrong = f"got {', '.join(unknown)}" if unknown else "got none"
            raise ValueError(f"algorithms must be some of {', '.join(sorted(_POSSIBLE))}; {wrong}")
        self.issuer: Final = _non_empty("issuer", issuer)
        self._audience = [_non_empty("audience", each) for each in ([audience] if isinstance(audience, str) else audience)]
        _non_empty("audience", self._audience)
        self._algorithms = frozenset(algorithms)
        self._leeway = leeway
        self._keys = KeySet(jwks_url)
        self._generation = 0
        self._prepared: dict[tuple[int, str], PyJWK] = {}
        self._remembered: dict[bytes, _Remembered] = {}

    def __repr__(self) -> str:
        return f"<JwtVerifier of tokens from {self.issuer}>"

    async def __call__(self, token: str) -> Identity | None:
        """Return the owner of a token, or ``None`` if it is not valid.

        Raises:
            ConnectionError: The keys of the authorization server cannot be fetched.
        """
        digest = sha256(token.encode()).digest()  # a dump of the memory shows no tokens
        found = self._remembered.get(digest)
        if found is not None and time.time() < found.until and self._generation == self._keys.generation:
            return found.identity
        claims = await self._verified_claims(token)
        if claims is None or not claims["sub"]:
            return None
        expires = float(claims["exp"]) + self._leeway
        identity = _identity(claims, expires)
        self._remember(digest, identity, expires)
        return identity

    async def _verified_claims(self, token: str) -> dict[str, Any] | None:
        import jwt

        try:
            header = jwt.get_unverified_header(token)
        except (jwt.InvalidTokenError, RecursionError):
            return None
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            return None
        for key in self._usable(await self._keys.find(header.get("kid")), algorithm)[:_MAX_TRIED]:
            try:
                return jwt.decode(
                    token,
                    key,
                    algorithms=[algorithm],
                    audience=self._audience,
                    issuer=self.issuer,
                    leeway=self._leeway,
                    options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
                )
            except jwt.InvalidSignatureError:
                continue  # keys may share an id while one replaces the other
            except (jwt.InvalidTokenError, jwt.InvalidKeyError):
                return None
        return None

    def _usable(self, keys: Sequence[Jwk], algorithm: str) -> list[PyJWK]:
        """Return the keys that are made for an algorithm."""
        import jwt

        if self._generation != self._keys.generation:
            self._generation = self._keys.generation
            self._prepared.clear()
            self._remembered.clear()
        usable = []
        for key in keys:
            if key.get("alg", algorithm) != algorithm:
                continue
            prepared = self._prepared.get((id(key), algorithm))
            if prepared is None:
                try:
                    prepared = self._prepared[id(key), algorithm] = jwt.PyJWK(key, algorithm)
                except jwt.PyJWTError:  # a key of another type
                    continue
            usable.append(prepared)
        return usable

    def _remember(self, digest: bytes, identity: Identity, expires: float) -> None:
        if len(self._remembered) >= _MAX_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[digest] = _Remembered(identity, min(expires, time.time() + _REMEMBERED_FOR))


def _identity(claims: Mapping[str, Any], expires: float) -> Identity:
    scopes = claims.get("scope", claims.get("scp", ()))
    listed = scopes.split() if isinstance(scopes, str) else scopes if isinstance(scopes, list) else ()
    client = claims.get("client_id", claims.get("azp"))
    return Identity(
        subject=claims["sub"],
        scopes=frozenset(each for each in listed if isinstance(each, str)),
        client_id=client if isinstance(client, str) else None,
        claims=claims,
        expires=expires,
    )


def _check_library() -> None:
    try:
        import cryptography  # noqa: F401 - PyJWT works without it, but not with public keys
        import jwt  # noqa: F401 - see above
    except ImportError as error:
        raise ImportError('JwtVerifier needs PyJWT and cryptography; run: pip install "twopipes[auth]"') from error


def _non_empty(name: str, value: Any) -> Any:
    if not value:
        raise ValueError(f"{name} must not be empty")
    return value
