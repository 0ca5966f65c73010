"""HTTP: options of a server, who may connect, what several processes share, and how a client answers a challenge."""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._client.http_auth import Authenticator as Authenticator
    from twopipes._client.http_auth import Challenge as Challenge
    from twopipes._http.auth import Auth as Auth
    from twopipes._http.auth import Identity as Identity
    from twopipes._http.auth import Verifier as Verifier
    from twopipes._http.bus import Bus as Bus
    from twopipes._http.bus import LocalBus as LocalBus
    from twopipes._http.jwt_verifier import JwtVerifier as JwtVerifier
    from twopipes._http.options import HttpOptions as HttpOptions
    from twopipes._http.redis_bus import RedisBus as RedisBus
    from twopipes._server.http.app import HttpApp as HttpApp
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "twopipes._client.http_auth": "Authenticator Challenge",
            "twopipes._http.auth": "Auth Identity Verifier",
            "twopipes._http.bus": "Bus LocalBus",
            "twopipes._http.jwt_verifier": "JwtVerifier",
            "twopipes._http.options": "HttpOptions",
            "twopipes._http.redis_bus": "RedisBus",
            "twopipes._server.http.app": "HttpApp",
        },
    )
