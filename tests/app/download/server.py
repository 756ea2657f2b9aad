"""A server on loopback that cuts, lies and fails, and what tests ask it."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from partlabel.app.download.fetching import fetch

BODY = bytes(range(256)) * 4096  # 1 MiB


@dataclass
class Served:
    """A file of the server and how it behaves.

    ``script`` holds one word for each coming request, after which the server behaves well: ``cut``, ``reset``, a status
    such as ``404``, ``wrong``, ``page``, ``slow``, ``silent``, ``long`` (a Content-Length that is too large),
    ``misplaced`` (a range that was not asked for).
    """

    body: bytes
    script: list[str] = field(default_factory=list)
    etag: str | None = '"v1"'
    ranges: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    chunked: bool = False
    #: stops sending for good after so many bytes until told to go on
    hang_after: int | None = None


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, Served] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.go_on = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address) -> None:
        """A client that went away is what some tests want."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.removeprefix("http://example.invalid")
        self.server.asked.append((self.path, self.headers.get("Range")))
        file = self.server.files.get(path)
        step = file.script.pop(0) if file is not None and file.script else ""
        self.close_connection = True
        if file is None or step.isdigit():
            self.send_response(int(step or 404))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.answer(file, step)

    def answer(self, file: Served, step: str) -> None:
        body, first = file.body, 0
        if step == "wrong":
            body = body[::-1]
        wanted = self.headers.get("Range")
        same = self.headers.get("If-Range") in (None, file.etag)
        if wanted and file.ranges and same:
            first = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if first >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.end_headers()
                return
            self.send_response(206)
            start = 0 if step == "misplaced" else first
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Type", "text/html" if step == "page" else "application/octet-stream")
        if file.etag:
            self.send_header("ETag", file.etag)
        for name, value in file.headers.items():
            self.send_header(name, value)
        if file.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body) - first + (5000 if step == "long" else 0)))
        self.end_headers()
        self.send(file, step, body[first:])

    def send(self, file: Served, step: str, body: bytes) -> None:
        if step == "slow":
            time.sleep(0.2)
        if step == "silent":
            self.server.go_on.wait(600)
        if step == "reset":
            self.wfile.write(body[: len(body) // 2])
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.connection.close()
            return
        if file.hang_after is not None:
            self.wfile.write(body[: file.hang_after])
            self.server.go_on.wait(600)
            return
        if file.chunked:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(body), body))
            self.wfile.write(b"" if step == "cut" else b"0\r\n\r\n")
            return
        self.wfile.write(body[: len(body) // 2] if step == "cut" else body)


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def get(server, target, said=None, **changes):
    """Serve BODY with the changes given, and fetch it with its published checksum unless ``published`` is False."""
    published = changes.pop("published", True)
    server.files["/file"] = Served(BODY, **changes)
    return fetch(
        f"{server.address}/file", target, md5(BODY) if published else None, ([] if said is None else said).append
    )


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
