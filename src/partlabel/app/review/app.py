"""The review page and its interface over HTTP: questions in, plain JSON out; every mistake is one plain sentence."""

from __future__ import annotations

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
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from partlabel.app.review.desk import QUEUES, Asked, Desk
from partlabel.app.review.pictures import PHOTO, THUMBNAIL, NoPictureError
from partlabel.app.review.security import Guard
from partlabel.app.review.views import FILTER_ORIGINS, Filter
from partlabel.core.errors import UserError

HERE = Path(__file__).parent
#: pairs on one page, and characters of a search
MAX_LIMIT, MAX_SEARCH = 500, 200

T = TypeVar("T")
_Name = Annotated[str, Meta(min_length=1, max_length=64)]


class _Answer(Struct, forbid_unknown_fields=True):
    image: Annotated[int, Meta(ge=0)]
    cls: Annotated[int, Meta(ge=0)] = msgspec.field(name="class")
    answer: Literal["yes", "no", "skip"]
    queue: Literal["questions", "filled", "suspects", "all"]


class _Answers(Struct, forbid_unknown_fields=True):
    browser: _Name
    answers: Annotated[list[_Answer], Meta(min_length=1, max_length=1000)]
    batch: _Name | None = None
    resolve: bool = False


class _Undo(Struct, forbid_unknown_fields=True):
    browser: _Name


class _Export(Struct, forbid_unknown_fields=True):
    format: Annotated[str, Meta(max_length=64)]


def make_app(desk: Desk, *, host: str = "127.0.0.1", token: str | None = None) -> ASGIApp:
    """Make the application.

    Args:
        desk: the review.
        host: the name or address that the server is bound to.
        token: the secret of the start address; None where only this machine can reach the server.
    """
    page = _Page(desk)
    routes = [
        Route("/", page.index),
        Mount("/static", StaticFiles(directory=HERE / "static", check_dir=False)),
        Route("/api/session", page.session),
        Route("/api/queue", page.queue),
        Route("/api/pictures", page.pictures),
        Route("/api/picture/{image:int}", page.picture),
        Route("/thumbnail/{image:int}", page.thumbnail),
        Route("/photo/{image:int}", page.photo),
        Route("/api/answers", page.answers, methods=["POST"]),
        Route("/api/undo", page.undo, methods=["POST"]),
        Route("/api/conflicts", page.conflicts),
        Route("/api/export", page.export, methods=["POST"]),
    ]
    handlers: Mapping[Any, Any] = {HTTPException: _http_error, UserError: _user_error, Exception: _fault}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), host=host, token=token)


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
        return _json(self._desk.session(given.get("browser")))

    def queue(self, request: Request) -> Response:
        names = {"queue", "class", "origin", "value", "low", "high", "search", "open", "offset", "limit"}
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
        return _json(self._desk.page(queue or "all", chosen, open_only, offset, limit))

    def pictures(self, request: Request) -> Response:
        given = _parameters(request, {"search", "offset", "limit"})
        return _json(self._desk.listed(_search(given), *_page_of(given)))

    def picture(self, request: Request) -> Response:
        _parameters(request, set())
        return _json(self._desk.picture(self._image(request)))

    def thumbnail(self, request: Request) -> Response:
        return self._jpeg(request, THUMBNAIL)

    def photo(self, request: Request) -> Response:
        return self._jpeg(request, PHOTO)

    async def answers(self, request: Request) -> Response:
        given = await _body(request, _Answers)
        for answer in given.answers:
            self._check_pair(answer)
        asked = [Asked(answer.image, answer.cls, answer.answer, answer.queue) for answer in given.answers]
        return _json(
            await run_in_threadpool(self._desk.answer, given.browser, given.batch or uuid4().hex, asked, given.resolve)
        )

    async def undo(self, request: Request) -> Response:
        given = await _body(request, _Undo)
        done = await run_in_threadpool(self._desk.undo, given.browser)
        if done is None:
            raise HTTPException(409, "There is nothing to take back.")
        return _json(done)

    def conflicts(self, request: Request) -> Response:
        _parameters(request, set())
        return _json({"items": self._desk.conflicts()})

    async def export(self, request: Request) -> Response:
        given = await _body(request, _Export)
        return _json(await run_in_threadpool(self._desk.export, given.format))

    def _image(self, request: Request) -> int:
        image = request.path_params["image"]
        if image >= len(self._desk.names):
            raise HTTPException(404, f"There is no picture {image}.")
        return image

    def _check_pair(self, answer: _Answer) -> None:
        if answer.image >= len(self._desk.names) or answer.cls >= self._desk.table.num_classes:
            raise HTTPException(400, f"There is no picture {answer.image} or no class {answer.cls}.")

    def _jpeg(self, request: Request, side: int) -> Response:
        number = self._image(request)
        try:
            found = self._desk.pictures.find(number, side)
            headers = {"ETag": f'"{found.tag}"', "Cache-Control": "private, max-age=3600"}
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
        raise HTTPException(400, f"The request cannot be read: {error}.") from None


def _json(value: dict[str, Any], status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _http_error(request: Request, error: HTTPException) -> Response:
    said = {404: "There is nothing at this address.", 405: "This address does not take that kind of request."}
    by_itself = error.detail == HTTPStatus(error.status_code).phrase  # what the library says where nothing fits
    return _json({"error": said.get(error.status_code, error.detail) if by_itself else error.detail}, error.status_code)


def _user_error(request: Request, error: UserError) -> Response:
    return _json({"error": f"{error.message}."}, 400)


def _fault(request: Request, error: Exception) -> Response:
    """A fault of partlabel; the terminal shows where, and the page only that."""
    return _json({"error": "Something went wrong in partlabel; the terminal says what."}, 500)
