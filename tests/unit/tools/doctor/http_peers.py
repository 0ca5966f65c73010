"""Servers at URLs that fail in one way each, on loopback: what they send is written out byte by byte."""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import json
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

# Seconds. The limit of every wait; only a hang reaches it.
NET = 30
MODERN_RESULT = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "public",
}
LEGACY_RESULT = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "fake", "version": "1"}}
TOOLS = {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}


def response(body, *headers, status="200 OK", kind="application/json"):
    """Return the bytes of a response."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", *([f"Content-Type: {kind}"] if kind else []), f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def result(message, value):
    return response({"jsonrpc": "2.0", "id": message["id"], "result": value})


def error(message, code, text, status="200 OK"):
    return response({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}, status=status)


SILENCE = b"SILENCE"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def healthy(request, message):
    """Respond as a server of the modern and the legacy era."""
    if request.startswith(("GET", "DELETE")):
        return response(b"", status="405 Method Not Allowed")
    match message.get("method"):
        case "server/discover":
            return result(message, MODERN_RESULT)
        case "initialize":
            return result(message, LEGACY_RESULT)
        case "tools/list":
            return result(message, TOOLS)
        case "ping":
            return result(message, {})
        case "subscriptions/listen":
            event = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"notifications": {}}}
            return STREAM + b"data: " + json.dumps(event).encode() + b"\n\n"
        case _:
            return response(b"", status="202 Accepted")


class Peer:
    """A server on loopback. ``respond`` gets the head and the message of each request and returns bytes.

    ``None`` closes the connection. With :data:`SILENCE`, or a response that begins like :data:`STREAM`, it stays open.
    """

    def __init__(self, respond, *, tls=None):
        self._respond = respond
        self._tls = tls
        self.heads = []

    async def __aenter__(self):
        self._tasks = set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader, writer):
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader, writer):
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                await self._answer(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader, writer):
        head = await reader.readexactly(1)
        if not head.isalpha():  # as real servers respond to TLS
            writer.write(response(b"", status="400 Bad Request"))
            return
        head = (head + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        size = next((int(line.partition(":")[2]) for line in head.split("\r\n") if line.lower().startswith("content-length:")), 0)
        body = await reader.readexactly(size)
        self.heads.append(head)
        data = self._respond(head, json.loads(body) if body else {})
        if data is not None:
            writer.write(data if data is not SILENCE else b"")
            await writer.drain()
            if data is SILENCE or data.startswith(STREAM):
                await reader.read()  # until the doctor closes it


def certificate(folder, *, name="127.0.0.1", days=(-1, 1)):
    """Return a TLS context for a server with a self-signed certificate, and the path of that certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    alternative = x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + dt.timedelta(days=days[0]))
        .not_valid_after(now + dt.timedelta(days=days[1]))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    secret.write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, secret)
    return context, str(cert)
