"""An authorization server on loopback: real keys, their JWKS, and tokens signed with them."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER = "https://auth.example.com"
AUDIENCE = "https://mcp.example.com/mcp"
KEYS = {
    "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
OTHER = ec.generate_private_key(ec.SECP256R1())


def jwk(private, algorithm, **members):
    """Return a public key as it is published."""
    public = json.loads(jwt.get_algorithm_by_name(algorithm).to_jwk(private.public_key()))
    return {**public, "use": "sig", **members}


def published(*algorithms):
    return [jwk(KEYS[each], each, kid=each, alg=each) for each in algorithms or KEYS]


def token(algorithm="ES256", key=None, *, kid="", headers=(), **claims):
    now = int(time.time())
    content = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": now + 300, "iat": now, **claims}
    content = {name: value for name, value in content.items() if value is not None}
    names = {**({"kid": kid or algorithm} if kid is not None else {}), **dict(headers)}
    return jwt.encode(content, key or KEYS[algorithm], algorithm, headers=names)


class Publisher(ThreadingHTTPServer):
    """Publishes keys and counts how often they are fetched."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.keys = published()
        self.status = 200
        self.headers = {}
        self.body = None
        self.fetches = 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}/jwks"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.fetches += 1
        body = self.server.body if self.server.body is not None else json.dumps({"keys": self.server.keys}).encode()
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@contextmanager
def publishing():
    """Publish the keys for a while."""
    server = Publisher()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
