"""The process that serves the review page: one for a run, on one port."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import os
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from partlabel.app.review.app import make_app
from partlabel.app.review.desk import open_desk
from partlabel.app.review.security import is_loopback, new_token
from partlabel.core.errors import UserError
from partlabel.core.lock import holding
from partlabel.training.run import Run

#: seconds in which a connection has to begin its first request
FIRST_REQUEST = 20.0
#: seconds that a server may take to end, once it was told to, before it ends without what it waits for
LIMIT = 15.0
#: seconds that are left to it once all is closed; threads of a library that wait for work would keep it for ever
REST = 2.0
#: connections at once, as far as the system allows
_FILES = 65_536

_SETTINGS: dict[str, Any] = {
    "log_level": "critical",  # faults are said by the page itself, and what is cut off at the end is no fault
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "lifespan": "off",
    "timeout_graceful_shutdown": 5,
}


def serve(
    run: Path,
    labels: Path | None,
    images: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    browser: bool = False,
    people: Sequence[str] = (),
    say: Callable[[dict[str, str]], None] = lambda addresses: print(*addresses.values(), sep="\n", file=sys.stderr),
    last: bool = False,
) -> None:
    """Serve the review page until the process is stopped.

    Args:
        run: run folder; answers, scores and exported labels lie in its folder ``review``.
        labels: label table to review; None takes the labels of the run.
        images: folder of the images.
        host: address to listen at. Where other machines can reach it, the start address holds a secret.
        port: port to listen at; 0 takes a free one.
        browser: open the page in the browser of this machine.
        people: names of those who answer: each gets a start address with a secret of their own, and their answers are
            stored under their name. Without names, one address is for all.
        say: called with the start addresses by name once the server listens; without names, that of "" is for all.
        last: the process has nothing else to do afterwards, so that it may be ended where a thread goes on.

    Raises:
        UserError: a name is empty or given twice, the port is taken, another process writes into the run, or see
            :class:`Desk`.
    """
    if len(set(people)) < len(people) or not all(name.strip() and len(name) <= 100 for name in people):
        raise UserError("names of people are 1 to 100 characters long, and each is given once")
    with _listen(host, port) as listening, _stopping(last) as limit:
        Run(run)  # refuses a folder without a run before anything is made in it
        port = listening.getsockname()[1]
        with holding(run, f"partlabel review at port {port}"):
            desk = open_desk(run, labels, images)
            try:
                secrets = {name: new_token() for name in people}
                token = None if is_loopback(host) or secrets else new_token()
                addresses = {name: _address(host, port, secret) for name, secret in secrets.items()}
                addresses = addresses or {"": _address(host, port, token)}
                made = make_app(desk, host=host, token=token, port=port, people=secrets)
                config = uvicorn.Config(made, http=_Prompt, **_SETTINGS)
                _allow_connections()
                _Server(config, lambda: _announce(addresses, say, browser), limit.begin).run(sockets=[listening])
            finally:
                desk.close()


class _Limit:
    """Ends the process :data:`LIMIT` seconds after the first signal to stop, whatever a thread of it still does.

    Python ends only when every thread has, and no thread can be ended: one that exports a large table, or reads an
    image from a disk that does not answer, would keep the process for as long. What was acknowledged is on disk.
    A request that is cut off may leave an idle thread of anyio (4.16) that nobody ends.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._over = False
        self._end, self._said = math.inf, False
        #: the first signal to stop; 0 before
        self.number = 0
        threading.Thread(target=self._wait, name="limit of the stop", daemon=True).start()

    def begin(self, number: int) -> None:
        """Begin to count; for handlers of signals, which may interrupt each other and anything else."""
        self.number = self.number or number
        os.write(self._write, bytes([number]))

    def closed(self) -> None:
        """All is closed, and the process is about to end."""
        self._end, self._said = min(self._end, time.monotonic() + REST), True

    def end(self) -> None:
        """Count no longer, as the process goes on with something else."""
        os.write(self._write, bytes([0]))
        self._over = True  # the last of it: whoever waits closes the pipe then

    def _wait(self) -> None:
        number = os.read(self._read, 1)[0]
        self._end = min(self._end, time.monotonic() + LIMIT)
        while not self._over and time.monotonic() < self._end:
            time.sleep(0.05)
        if self._over:
            for descriptor in (self._read, self._write):
                os.close(descriptor)
            return
        with suppress(Exception):
            if not self._said:
                print(f"partlabel: ended without what was still under way after {LIMIT:g} seconds; every answer that "
                      "the page called saved is on disk", file=sys.stderr)  # fmt: skip
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        os._exit(128 + number)


@contextmanager
def _stopping(last: bool) -> Generator[_Limit]:
    """Let the signals that end a process end the block first, so that the answers are brought into one file.

    Args:
        last: nothing comes after the block but the end of the process, also where somebody pressed Ctrl+C.
    """
    limit = _Limit()

    def stop(number: int, frame: object) -> NoReturn:
        limit.begin(number)
        raise SystemExit(128 + number)

    def hang_up(number: int, frame: object) -> None:
        signal.raise_signal(signal.SIGTERM)  # which uvicorn knows how to end by

    before = {}
    if threading.current_thread() is threading.main_thread():
        before[signal.SIGTERM] = signal.signal(signal.SIGTERM, stop)
        if hasattr(signal, "SIGHUP"):
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, hang_up)
    try:
        yield limit
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if limit.number and last:
            limit.closed()
        elif limit.number in (0, signal.SIGINT):
            limit.end()


def _allow_connections() -> None:
    """Raise the number of open files to what the system allows this process."""
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


class _Prompt(H11Protocol):
    """A connection that is closed where nothing comes over it, so that silent ones do not use up all there are."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(FIRST_REQUEST, self._hang_up)

    def _hang_up(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    """A server that tells when it listens, and when it is told to stop."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], told: Callable[[int], None]) -> None:
        super().__init__(config)
        self._ready, self._told = ready, told

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._told(sig)
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def _announce(addresses: dict[str, str], say: Callable[[dict[str, str]], None], browser: bool) -> None:
    say(addresses)
    if browser:
        webbrowser.open(next(iter(addresses.values())))


def _listen(host: str, port: int) -> socket.socket:
    """Bind before anything else, so that a taken port is known before minutes of scoring."""
    if not 0 <= port < 2**16:  # a larger one would be cut to 16 bits without a word
        raise UserError(f"{host}:{port}: is no address to listen at; a port is a number from 0 to {2**16 - 1}")
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise UserError(f"{host}:{port}: is no address to listen at ({error.strerror})") from None
    family, kind, protocol, _, address = infos[0]
    listening = socket.socket(family, kind, protocol)
    if os.name == "posix":  # on Windows it would let two servers listen at one port
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise UserError(f"{host}:{port}: cannot be listened at ({error.strerror}); --port 0 takes a free one") from None
    return listening


def _address(host: str, port: int, token: str | None) -> str:
    """The start address for people: a server that listens everywhere is reached by the name of this machine."""
    try:
        everywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        everywhere = False
    name = socket.gethostname() if everywhere else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")
