"""Who may talk to the server: checks before any request is looked at, and headers on every answer."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import re
import secrets
import socket
from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "partlabel-review"
#: where a request says whose it is
PERSON = "partlabel.person"
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
#: bytes of the body of a request
MAX_BODY = 1_000_000
#: seconds in which a request has to be there whole
PATIENCE = 30.0
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason


def new_token() -> str:
    """A secret for the start address: 43 characters from 32 random bytes."""
    return secrets.token_urlsafe(32)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware: Host, Origin, token, and size of the body; security headers on every answer.

    - Host: a page of a stranger may point a name of its own at this machine (DNS rebinding). Only addresses in numbers,
      ``localhost``, the name bound to and the name of this machine pass.
    - Origin: requests that another page caused are refused, whatever they ask for. What changes something must say that
      it comes from this page.
    - Token: where others can reach the server, each request needs the cookie that the start address sets.

    Args:
        app: what is guarded.
        host: the name or address that the server is bound to.
        token: the secret; None where only this machine can reach the server.
        port: that the server listens at; names its cookie.
        people: secrets of people by name, each of whom has a start address of their own. A request of theirs has the
            name in its scope, under :data:`PERSON`.
    """

    def __init__(
        self, app: ASGIApp, *, host: str, token: str | None, port: int, people: Mapping[str, str] | None = None
    ) -> None:
        self._app = app
        self._tokens: dict[str, str | None] = {secret: name for name, secret in (people or {}).items()}
        if token is not None:
            self._tokens[token] = None
        # Browsers share cookies between the ports of a host, and with other programs there.
        self._cookie = f"{COOKIE}-{port}"
        self._names = {"localhost", host.lower()}
        if not is_loopback(host):
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it with the reason why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets here
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if "cache-control" not in headers:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        try:
            cookie = self._admit(scope)
            async with asyncio.timeout(PATIENCE):
                body = await self._whole(scope, receive)
        except TimeoutError:
            await _refuse(send_safely, _Refused(408, "The request took too long."))
            return
        except _Refused as refused:
            await _refuse(send_safely, refused)
            return
        if cookie is not None:
            await _redirect(send_safely, cookie)
            return
        begun = False

        async def send_noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send_safely(message)

        try:
            await self._app(scope, body, send_noted)
        except asyncio.CancelledError:  # the server is being stopped, and this took too long
            if not begun:
                await _refuse(send_safely, _Refused(503, "The server is being stopped."))

    def _admit(self, scope: Scope) -> str | None:
        """Check a request; the value of the cookie to be set where it came by the start address."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self._is_ours(host):
            raise _Refused(403, "This server does not go by that name.")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            raise _Refused(403, "The request comes from another page.")
        navigates = scope["method"] in ("GET", "HEAD") and headers.get("sec-fetch-mode", "navigate") == "navigate"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not navigates:
            raise _Refused(403, "The request comes from another page.")
        if scope["method"] not in ("GET", "HEAD") and origin is None:
            raise _Refused(403, "The request does not say which page it comes from.")
        if not self._tokens:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and given:
            if self._token_of(given) is None:
                raise _Refused(
                    403, "The token in the address is wrong; take the address that partlabel review printed."
                )
            return f"{self._cookie}={given}; HttpOnly; SameSite=Strict; Path=/"
        found = [token for value in _cookies(headers, self._cookie) if (token := self._token_of(value))]
        if not found:
            raise _Refused(403, "Open the address that partlabel review printed, with its token.")
        scope[PERSON] = self._tokens[found[-1]]
        return None

    def _token_of(self, given: str) -> str | None:
        """The token that this is; None for none. How long it takes tells nothing about them."""
        right = [token for token in self._tokens if hmac.compare_digest(given.encode(), token.encode())]
        return right[0] if right else None

    def _is_ours(self, host: str) -> bool:
        # The port may be another one, as a tunnel has; it is the name that tells a stranger's page.
        parts = _HOST.fullmatch(host)
        name = "" if parts is None else parts[1].strip("[]").lower()
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return bool(self._tokens) or address.is_loopback

    @staticmethod
    async def _whole(scope: Scope, receive: Receive) -> Receive:
        """Read the body, but no more than is allowed, and give it on in one piece."""
        refused = _Refused(413, f"The request is larger than {MAX_BODY:,} bytes.")
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY:
            raise refused
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise _Refused(400, "The request was cut off.")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > MAX_BODY:
                raise refused
        given = False

        async def whole() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        return whole


def _cookies(headers: Headers, name: str) -> list[str]:
    """The values of the cookies of this name; whatever else a browser sends does not matter."""
    pairs = (part.partition("=") for header in headers.getlist("cookie") for part in header.split(";"))
    return [value.strip().strip('"') for key, _, value in pairs if key.strip() == name]


async def _refuse(send: Send, refused: _Refused) -> None:
    body = json.dumps({"error": refused.reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close")] if refused.status in (408, 413) else []
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _redirect(send: Send, cookie: str) -> None:
    headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
