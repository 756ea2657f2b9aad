"""Attacks on the server; each must be refused and change nothing."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import unquote

import pytest
from starlette.testclient import TestClient

from partlabel.app.review.app import REVIEW, make_app
from partlabel.app.review.security import COOKIE, HEADERS, MAX_BODY, Guard, is_loopback, new_token
from tests.app.review.made import Made, as_json

TOKEN = new_token()


def browser(desk, host="127.0.0.1", token=None, base="http://127.0.0.1:8000", **headers):
    app = make_app(desk, host=host, token=token, port=8000)
    headers = {"Origin": base, REVIEW: desk.identity, **headers}
    return TestClient(app, base_url=base, headers=headers, follow_redirects=False)


def an_answer(desk):
    return {"store": desk.store.identity, "browser": "me", "answers": [as_json(desk, 0, 0, "yes")]}


def photo(desk):
    return f"/photo/{desk.pictures.content(0)}/0"


def nothing_stored(desk):
    return desk.store.verdicts() == {} and not list(desk.home.glob("labels-*"))


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "127.0.0.1:9", "LOCALHOST"])
def test_the_page_itself_gets_in(desk, host):
    client = browser(desk, base=f"http://{host}")
    assert client.get("/api/session").status_code == 200
    assert client.post("/api/answers", json=an_answer(desk)).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.1.7:8000", "",
     "localhost@evil.example", "evil@localhost", "[", "[::1", "0x7f.1", "localhost:8000/x"],
)  # fmt: skip
def test_a_name_that_a_stranger_points_at_this_machine_is_refused(desk, host):
    client = browser(desk)
    for response in (
        client.get("/api/session", headers={"Host": host}),
        client.get(photo(desk), headers={"Host": host}),
        client.post("/api/answers", json=an_answer(desk), headers={"Host": host, "Origin": f"http://{host}"}),
    ):
        assert response.status_code == 403
        assert "cat" not in response.text
    assert nothing_stored(desk)


def test_two_hosts_are_refused(desk):
    client = browser(desk)
    response = client.get("/api/session", headers=[("Host", "localhost"), ("Host", "evil.example")])
    assert response.status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:8000", "http://127.0.0.1:8001", ""]
)
def test_requests_of_another_page_are_refused(desk, origin):
    client = browser(desk)
    for path, body in (
        ("answers", an_answer(desk)),
        ("undo", {"store": desk.store.identity, "browser": "me"}),
        ("export", {"format": "csv"}),
    ):
        assert client.post(f"/api/{path}", json=body, headers={"Origin": origin}).status_code == 403
    assert client.get("/api/session", headers={"Origin": origin}).status_code == 403
    assert nothing_stored(desk)


def test_what_changes_something_says_where_it_comes_from(desk):
    client = browser(desk)
    del client.headers["Origin"]
    assert client.post("/api/answers", json=an_answer(desk)).status_code == 403
    assert client.get("/api/session").status_code == 200
    assert nothing_stored(desk)


def test_pictures_are_not_shown_inside_pages_of_others(desk):
    client = browser(desk)
    del client.headers["Origin"]
    fetch = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    assert client.get(photo(desk), headers=fetch).status_code == 403
    assert client.get(photo(desk), headers=fetch | {"Sec-Fetch-Site": "same-site"}).status_code == 403
    assert client.get(photo(desk), headers=fetch | {"Sec-Fetch-Site": "same-origin"}).status_code == 200
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/", headers=link).status_code == 200  # a link to the page may be followed
    assert client.post("/api/answers", json=an_answer(desk), headers=link | {"Origin": "null"}).status_code == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_form_of_another_page_could_send_is_refused(desk, kind):
    """Without a question to this server, a browser sends only these kinds across pages."""
    client = browser(desk)
    response = client.post("/api/answers", content=json.dumps(an_answer(desk)), headers={"Content-Type": kind})
    assert response.status_code == 400
    assert client.get("/api/answers", params={"browser": "me"}).status_code == 405
    assert nothing_stored(desk)


def test_without_the_token_nobody_gets_in(desk):
    client = browser(desk, "0.0.0.0", TOKEN, "http://192.168.1.7:8000")
    for path in (
        "/",
        "/api/session",
        photo(desk),
        "/static/app.js",
        f"/api/session?token={TOKEN}",
        "/?token=",
        "/?token=x",
    ):
        assert client.get(path).status_code == 403, path
    for cookie in ("", "x", TOKEN[:-1], TOKEN + "x", TOKEN.swapcase()):
        assert client.get("/api/session", headers={"Cookie": f"{COOKIE}-8000={cookie}"}).status_code == 403
    assert client.post("/api/answers", json=an_answer(desk)).status_code == 403
    assert nothing_stored(desk)


def test_the_start_address_lets_in_and_leaves_no_token_behind(desk):
    client = browser(desk, "0.0.0.0", TOKEN, "http://192.168.1.7:8000")
    start = client.get("/", params={"token": TOKEN})
    assert (start.status_code, start.headers["location"], start.content) == (303, "/", b"")
    assert start.headers["cache-control"] == "no-store"
    parts = {part.strip() for part in start.headers["set-cookie"].split(";")}
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} < parts
    assert client.get("/api/session").status_code == 200
    assert client.post("/api/answers", json=an_answer(desk)).status_code == 200
    assert (
        client.get("/api/session", headers={"Host": "evil.example", "Origin": "http://evil.example"}).status_code == 403
    )
    assert TOKEN not in client.get("/").text


@pytest.mark.parametrize(
    "others",
    ["a=b", "odd[name]=1", "x", "=", ";;", 'q="unclosed', "a=b,c=d", "sp ace=1", "é=1", '{"json": [1, 2]}', "a@b=c",
     f"{COOKIE}-8000=wrong", f"{COOKIE}-9000=of-another-review", f"{COOKIE}=old", "x" * 4000],
)  # fmt: skip
def test_other_cookies_of_the_host_do_not_lock_out_the_right_token(desk, others):
    client = browser(desk, "0.0.0.0", TOKEN, "http://192.168.1.7:8000")
    for cookie in (f"{others}; {COOKIE}-8000={TOKEN}", f"{COOKIE}-8000={TOKEN}; {others}"):
        header = {"Cookie": cookie.encode()}
        assert client.get("/api/session", headers=header).status_code == 200


def test_two_reviews_on_one_host_do_not_log_each_other_out(desk):
    first, second = (make_app(desk, host="0.0.0.0", token=new_token(), port=port) for port in (8000, 8001))
    cookies = []
    for app in (first, second):
        client = TestClient(app, base_url="http://192.168.1.7", follow_redirects=False)
        reply = client.get("/", params={"token": next(iter(app._tokens))})
        cookies.append(reply.headers["set-cookie"].split(";")[0])
    for app in (first, second):
        client = TestClient(app, base_url="http://192.168.1.7")
        assert client.get("/api/session", headers={"Cookie": "; ".join(cookies)}).status_code == 200
        assert client.get("/api/session", headers={"Cookie": "; ".join(reversed(cookies))}).status_code == 200


def test_tokens_are_long_and_never_the_same():
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) == 43


@pytest.mark.parametrize(("host", "is_local"), [
    ("127.0.0.1", True), ("127.1.2.3", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("::", False),
    ("192.168.1.7", False), ("example.org", False), ("", False),
])  # fmt: skip
def test_what_only_this_machine_reaches(host, is_local):
    assert is_loopback(host) is is_local


def test_large_requests_are_refused_whatever_they_say_about_their_size(desk):
    client = browser(desk)
    large = b'{"browser": "' + b"x" * MAX_BODY + b'"}'
    headers = {"Content-Type": "application/json"}
    assert client.post("/api/answers", content=large, headers=headers).status_code == 413

    def parts():
        for _ in range(20):
            yield large[: MAX_BODY // 10]

    assert client.post("/api/answers", content=parts(), headers=headers).status_code == 413
    lies = headers | {"Content-Length": "-5"}
    assert client.post("/api/answers", content=b"{}", headers=lies).status_code == 413
    assert nothing_stored(desk)


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/%2e%2e%2fapp.py", "/../run.json",
     "/static/..%5capp.py", "/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/....//app.py", "/static/",
     "/static/%252e%252e/app.py", "/static/app.js%00.css", "/thumbnail/../../run.json", "/photo/%2e%2e%2f0",
     "/photo/0%2f..%2f..", "/photo/x/../../app.py"],
)  # fmt: skip
def test_no_path_leads_out_of_the_files_of_the_page(desk, path):
    """Sent as they are, as curl --path-as-is does; the client here would tidy them up."""

    async def app(real, receive, send):
        real = {**real, "path": unquote(path), "raw_path": path.encode()}
        await make_app(desk)(real, receive, send)

    raw = TestClient(app, base_url="http://127.0.0.1:8000", follow_redirects=False)
    response = raw.get("/")
    assert response.status_code in (400, 404), (path, response.text)
    assert "import" not in response.text
    assert "root:" not in response.text


def test_every_answer_carries_the_headers(desk):
    client = browser(desk)
    responses = [
        client.get("/"),
        client.get("/api/session"),
        client.get(photo(desk)),
        client.get("/static/nothing.js"),
        client.get("/nothing"),
        client.get("/api/session", headers={"Host": "evil.example"}),
        client.post("/api/answers", content=b"{", headers={"Content-Type": "application/json"}),
        client.post("/api/answers", content=b"x" * (MAX_BODY + 1)),
    ]
    for response in responses:
        for name, value in HEADERS.items():
            assert response.headers[name] == value, response.url
        assert "cache-control" in response.headers
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")


def test_a_fault_shows_nothing_of_the_inside_and_carries_the_headers(desk, monkeypatch):
    monkeypatch.setattr(desk, "session", lambda browser: 1 / 0)
    app = make_app(desk)
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    response = client.get("/api/session")
    assert response.status_code == 500
    assert "zero" not in response.text
    assert response.headers["Content-Security-Policy"]


def test_names_of_strangers_are_escaped(made: Made):
    """The page gets them as JSON, which browsers never take for a page, and the name of the run in its template."""
    evil = made.run.with_name('<img src=x onerror="alert(1)">')
    made.run.rename(evil)
    made.run = evil
    desk = made.open()
    client = browser(desk)
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "<img src=x" not in page.text
    session = client.get("/api/session")
    assert session.headers["content-type"] == "application/json"
    assert [row["name"] for row in session.json()["classes"]] == ["cat", "dog", "<b>car</b>"]


def test_the_page_has_no_script_or_style_of_its_own(desk):
    page = browser(desk).get("/").text
    assert "<style" not in page
    assert " style=" not in page
    assert " onclick=" not in page
    assert page.count("<script") == page.count("<script src=") + page.count('<script type="module" src=')


def test_people_have_secrets_of_their_own_and_their_answers_their_names(desk):
    people = {"Ada": new_token(), "Ben": new_token()}
    app = make_app(desk, port=8000, people=people)
    base = "http://127.0.0.1:8000"
    assert TestClient(app, base_url=base).get("/api/session").status_code == 403
    for number, name in enumerate(people):
        browser = TestClient(app, base_url=base, headers={"Origin": base, REVIEW: desk.identity})
        assert browser.get("/", params={"token": people[name]}, follow_redirects=False).status_code == 303
        assert browser.get("/api/session").json()["person"] == name
        both = [as_json(desk, number, 0, "yes"), as_json(desk, 2, 0, "yes" if number else "no")]
        body = {"store": desk.store.identity, "browser": "b", "answers": both}
        assert browser.post("/api/answers", json=body).status_code == 200
        clashes = browser.get("/api/conflicts").json()["items"]
    assert [row["person"] for row in desk.store.rows()] == ["Ada", "Ada", "Ben", "Ben"]
    assert [(one["person"], one["answer"]) for one in clashes[0]["answers"]] == [("Ada", "no"), ("Ben", "yes")]
    desk.export("parquet")
    record = (desk.home / "record.csv").read_text()
    assert ",Ada,b,000.png,cat," in record


def test_a_server_that_is_stopped_says_so_to_those_it_keeps_waiting(desk):
    async def slow(scope, receive, send):
        raise asyncio.CancelledError

    guard = Guard(slow, host="127.0.0.1", token=None, port=8000)
    reply = TestClient(guard, base_url="http://127.0.0.1:8000").get("/api/session")
    assert (reply.status_code, reply.json()) == (503, {"error": "The server is being stopped."})
