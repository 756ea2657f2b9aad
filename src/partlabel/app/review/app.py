"""The review page and its interface over HTTP: questions in, plain JSON out; every mistake is one plain sentence."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from uuid import uuid4

import msgspec
from jinja2 import Environment, FileSystemLoader
from msgspec import Meta, Struct
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from partlabel.app.review.answers import StoreError
from partlabel.app.review.desk import Asked, Desk
from partlabel.app.review.pictures import PHOTO, TAG, THUMBNAIL, NoPictureError
from partlabel.app.review.queues import QUEUES
from partlabel.app.review.security import PERSON, Guard
from partlabel.app.review.views import FILTER_ORIGINS, Filter
from partlabel.core.errors import UserError
from partlabel.core.trouble import keep, plainly

#: the header that names a review, see Desk.identity
REVIEW = "X-Partlabel-Review"
OTHER = "This server shows another run or table now. The page has to be loaded again."
HERE = Path(__file__).parent
#: pairs on one page, and characters of a search
MAX_LIMIT, MAX_SEARCH = 500, 200

T = TypeVar("T")
_Name = Annotated[str, Meta(min_length=1, max_length=64)]


class _Answer(Struct, forbid_unknown_fields=True):
    picture: Annotated[str, Meta(min_length=1, max_length=4096)]
    class_name: Annotated[str, Meta(min_length=1, max_length=4096)]
    content: Annotated[str, Meta(pattern=f"^[0-9a-f]{{{TAG}}}$")]
    answer: Literal["yes", "no", "skip"]
    queue: Literal["questions", "filled", "suspects", "all"]


class _Answers(Struct, forbid_unknown_fields=True):
    store: _Name
    browser: _Name
    answers: Annotated[list[_Answer], Meta(min_length=1, max_length=1000)]
    batch: _Name | None = None
    resolve: bool = False


class _Undo(Struct, forbid_unknown_fields=True):
    store: _Name
    browser: _Name


class _Export(Struct, forbid_unknown_fields=True):
    format: Annotated[str, Meta(max_length=64)]


def make_app(
    desk: Desk,
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    port: int = 8000,
    people: Mapping[str, str] | None = None,
) -> ASGIApp:
    """Make the application.

    Args:
        desk: the review.
        host: the name or address that the server is bound to.
        token: the secret of the start address; None where only this machine can reach the server.
        port: that the server listens at; names its cookie.
        people: secrets of people by name; the answers of each are stored under the name.
    """
    page = _Page(desk)
    routes = [
        Route("/", page.index),
        Mount("/static", StaticFiles(directory=HERE / "static", check_dir=False)),
        Route("/api/session", page.session),
        Route("/api/queue", page.queue),
        Route("/api/pictures", page.pictures),
        Route("/api/picture/{image}", page.picture),
        Route("/thumbnail/{content}/{image}", page.thumbnail),
        Route("/photo/{content}/{image}", page.photo),
        Route("/api/answers", page.answers, methods=["POST"]),
        Route("/api/undo", page.undo, methods=["POST"]),
        Route("/api/conflicts", page.conflicts),
        Route("/api/export", page.export, methods=["POST"]),
    ]
    handlers: Mapping[Any, Any] = {
        HTTPException: _http_error,
        UserError: _user_error,
        StoreError: _store_error,
        Exception: _fault,
    }
    inner = _Named(Starlette(routes=routes, exception_handlers=handlers), desk.identity)
    return Guard(inner, host=host, token=token, port=port, people=people)


class _Named:
    """ASGI middleware: every answer says which review it is about, so that a page of another one notices."""

    def __init__(self, app: ASGIApp, identity: str) -> None:
        self._app, self._identity = app, identity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REVIEW] = self._identity
            await send(message)

        await self._app(scope, receive, send_named)


class _Page:
    """One method for each address. Those that are not ``async`` run in a thread, so that none waits for another."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._templates = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True)

    def index(self, request: Request) -> Response:
        name = self._desk.run.resolve().name
        return HTMLResponse(self._templates.get_template("index.html").render(title=f"Review of {name}", run=name))

    def session(self, request: Request) -> Response:
        given = _parameters(request, {"browser"})
        return _json(self._desk.session(given.get("browser"), request.scope.get(PERSON)))

    def queue(self, request: Request) -> Response:
        self._same(request)
        names = {"queue", "class", "origin", "value", "low", "high", "search", "open", "offset", "limit", "by_label"}
        given = _parameters(request, names)
        queue = _one_of("queue", given.get("queue", "all"), QUEUES)
        chosen = Filter(
            cls=_number(given, "class", 0, self._desk.table.num_classes - 1),
            origin=_one_of("origin", given.get("origin"), FILTER_ORIGINS),
            value=_one_of("value", given.get("value"), ("present", "absent")),
            low=_share(given, "low"),
            high=_share(given, "high"),
            search=_search(given),
        )
        offset, limit = _page_of(given)
        open_only = _one_of("open", given.get("open", "0"), ("0", "1")) == "1"
        by_label = _one_of("by_label", given.get("by_label", "0"), ("0", "1")) == "1"
        if by_label and chosen.cls is None:
            raise HTTPException(400, "by_label needs a class.")
        return _json(self._desk.page(queue or "all", chosen, open_only, offset, limit, by_label))

    def pictures(self, request: Request) -> Response:
        self._same(request)
        given = _parameters(request, {"search", "offset", "limit"})
        return _json(self._desk.listed(_search(given), *_page_of(given)))

    def picture(self, request: Request) -> Response:
        self._same(request)
        _parameters(request, set())
        return _json(self._desk.picture(self._image(request)))

    def thumbnail(self, request: Request) -> Response:
        return self._jpeg(request, THUMBNAIL)

    def photo(self, request: Request) -> Response:
        return self._jpeg(request, PHOTO)

    async def answers(self, request: Request) -> Response:
        given = await _body(request, _Answers)
        self._same_store(given.store)  # what is answered stands in the answer itself, whatever table is shown
        asked = [Asked(a.picture, a.class_name, a.content, a.answer, a.queue) for a in given.answers]
        return _json(
            await run_in_threadpool(
                self._desk.answer,
                given.browser,
                given.batch or uuid4().hex,
                asked,
                given.resolve,
                request.scope.get(PERSON),
            )
        )

    async def undo(self, request: Request) -> Response:
        self._same(request)
        given = await _body(request, _Undo)
        self._same_store(given.store)
        done = await run_in_threadpool(self._desk.undo, given.browser)
        if done is None:
            raise HTTPException(409, "There is nothing to take back.")
        return _json(done)

    def conflicts(self, request: Request) -> Response:
        self._same(request)
        _parameters(request, set())
        return _json({"items": self._desk.conflicts()})

    async def export(self, request: Request) -> Response:
        self._same(request)
        given = await _body(request, _Export)
        return _json(await run_in_threadpool(self._desk.export, given.format))

    def _image(self, request: Request) -> int:
        text = request.path_params["image"]
        if not (text.isascii() and text.isdecimal() and len(text) <= 12 and int(text) < len(self._desk.names)):
            raise HTTPException(404, "There is no image with this number.")
        return int(text)

    def _same(self, request: Request) -> None:
        """Refuse a page that was loaded from another review: its numbers mean other images and classes."""
        if request.headers.get(REVIEW) != self._desk.identity:
            raise HTTPException(409, OTHER)

    def _same_store(self, store: str) -> None:
        if store != self._desk.store.identity:
            raise HTTPException(409, OTHER)

    def _jpeg(self, request: Request, side: int) -> Response:
        number = self._image(request)
        if request.path_params["content"] != self._desk.pictures.content(number):
            raise HTTPException(404, "This address is that of an image of another run or table.")
        try:
            found = self._desk.pictures.find(number, side)
            # The address names the content, so that what a browser keeps can never be another image.
            tag = f'"{found.content}-{side}"'
            headers = {"ETag": tag, "Cache-Control": "private, max-age=31536000, immutable"}
            if request.headers.get("if-none-match") == headers["ETag"]:
                return Response(status_code=304, headers=headers)
            return Response(self._desk.pictures.jpeg(number, found), media_type="image/jpeg", headers=headers)
        except NoPictureError as error:
            raise HTTPException(404, f"{error.message}.") from None


def _parameters(request: Request, names: set[str]) -> dict[str, str]:
    """The parameters of an address, each once and known; an empty one counts as not given."""
    items = request.query_params.multi_items()
    strange = [name for name, _ in items if name not in names]
    if strange or len(items) > len(dict(items)):
        said = f"The parameter {strange[0]!r} is not known." if strange else "A parameter is given twice."
        raise HTTPException(400, said)
    return {name: value for name, value in items if value}


def _one_of(name: str, value: str | None, allowed: tuple[str, ...]) -> str | None:
    if value is not None and value not in allowed:
        raise HTTPException(400, f"{name} is one of {', '.join(allowed)}.")
    return value


def _number(given: Mapping[str, str], name: str, low: int, high: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 12 and low <= int(text) <= high):
        raise HTTPException(400, f"{name} is a whole number from {low} to {high}.")
    return int(text)


def _share(given: Mapping[str, str], name: str) -> float | None:
    text = given.get(name)
    try:
        value = None if text is None else float(text)
    except ValueError:
        value = -1.0
    if value is not None and not 0 <= value <= 1:
        raise HTTPException(400, f"{name} is a number from 0 to 1.")
    return value


def _search(given: Mapping[str, str]) -> str | None:
    text = given.get("search")
    if text is not None and len(text) > MAX_SEARCH:
        raise HTTPException(400, f"The search is longer than {MAX_SEARCH} characters.")
    return text


def _page_of(given: Mapping[str, str]) -> tuple[int, int]:
    offset, limit = _number(given, "offset", 0, 10**11), _number(given, "limit", 1, MAX_LIMIT)
    return offset or 0, limit or 60


async def _body(request: Request, kind: type[T]) -> T:
    """The body of a request, checked."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise HTTPException(400, "The request is not JSON.")
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except msgspec.DecodeError as error:
        raise HTTPException(400, f"The request cannot be read: {plainly(error)}.") from None


def _json(value: dict[str, Any], status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _http_error(request: Request, error: HTTPException) -> Response:
    said = {404: "There is nothing at this address.", 405: "This address does not take that kind of request."}
    by_itself = error.detail == HTTPStatus(error.status_code).phrase  # what the library says where nothing fits
    return _json({"error": said.get(error.status_code, error.detail) if by_itself else error.detail}, error.status_code)


def _user_error(request: Request, error: UserError) -> Response:
    return _json({"error": f"{error.message}."}, 400)


def _store_error(request: Request, error: StoreError) -> Response:
    """The page keeps its answers and sends them again."""
    return _json({"error": f"{error}."}, 503)


def _fault(request: Request, error: Exception) -> Response:
    """A fault of partlabel; a file that the terminal names says where, and the page only that."""
    path = keep(error, ["partlabel", "review", request.url.path])
    where = "" if path is None else f"; please report it with {path}"
    print(f"partlabel: a fault of partlabel ended a request ({type(error).__name__}){where}", file=sys.stderr)
    return _json({"error": "Something went wrong in partlabel; the terminal says where it is written down."}, 500)
