"""What a reviewer does: whole sessions in a real browser, against the server of a run that was really trained."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest
from playwright.sync_api import TimeoutError

from partlabel import LabelTable
from tests.app.review.browser.conftest import Served, Watch, browsing
from tests.app.review.browser.pages import answer, asked, fits, next_page, open_page, saved, tab_to, too_small, try_now

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


def test_a_whole_session_by_keyboard_alone(page: Page, server: Served) -> None:
    open_page(page, server)
    given = {answer(page, "y"): "yes", answer(page, "n"): "no", answer(page, "s"): "skip"}
    assert len(given) == 3
    taken_back = answer(page, "y")
    saved(page)
    assert server.answers() == {**given, taken_back: "yes"}
    page.keyboard.press("u")
    page.wait_for_function("name => document.querySelector('.caption-file').textContent === name", arg=taken_back[0])
    assert asked(page) == taken_back
    assert server.answers() == given
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".marked[data-state=saved]")
    assert page.locator(".marked").inner_text() == "Your answer: skipped, saved"

    # The filled-in labels of one class, in the grid.
    page.keyboard.press("2")
    page.wait_for_function(
        "() => document.querySelector('.queue[aria-current] .queue-name').textContent === 'Filled in'"
    )
    page.keyboard.press("c")
    page.keyboard.type("FIV")
    page.wait_for_selector("[role=option][aria-selected=true]")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('#single .question').dataset.name === 'five'")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.wait_for_selector(".cell")
    labels = LabelTable.read_parquet(server.labels)
    five = dict(zip(labels.images.to_pylist(), labels.dense()[:, labels.class_index("five")].tolist(), strict=True))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    turned = str(page.locator(".cell").nth(1).get_attribute("title"))
    while page.locator(".cell:visible").count():  # page by page, the labels of one sign on each
        shown = [five[str(cell.get_attribute("title"))] for cell in page.locator(".cell").all()]
        assert len(set(shown)) == 1
        next_page(page)
    page.wait_for_selector("#blank .blank-title")
    saved(page)
    answers = server.answers()
    confirmed = {image: kind for (image, name), kind in answers.items() if name == "five" and image != turned}
    assert confirmed
    assert all(kind == ("yes" if five[image] > 0 else "no") for image, kind in confirmed.items())
    assert answers[turned, "five"] == ("no" if five[turned] > 0 else "yes")
    crossed = turned

    tab_to(page, "#tools button:nth-child(2)")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    path = page.locator("#export .path").inner_text()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "Export"
    table = LabelTable.read_parquet(path)
    images, dense = table.images.to_pylist(), table.dense()
    for (image, name), given_answer in answers.items():
        if given_answer != "skip":
            assert dense[images.index(image), table.classes.index(name)] == (1 if given_answer == "yes" else -1)
    assert _name_of_origin(table, str(crossed), "five") == "review"


def _name_of_origin(table: LabelTable, image: str, name: str) -> str:
    row, column = table.images.to_pylist().index(image), table.classes.index(name)
    pairs = table.pairs()
    place = np.flatnonzero(pairs.key == row * table.num_classes + column)[0]
    return ("given", "model", "review", "asked", "sampled")[pairs.origin[place]]


def _known(server: Served, cls: int) -> dict[str, int]:
    labels = LabelTable.read_parquet(server.labels)
    return dict(zip(labels.images.to_pylist(), labels.dense()[:, cls].tolist(), strict=True))


def test_the_grid_starts_from_the_labels_as_they_stand(page: Page, server: Served) -> None:
    """Enter on every page confirms each label and turns none; pages never mix signs; open pairs stay open."""
    open_page(page, server, "#queue=all&view=grid&class=0")
    known = _known(server, 0)
    signs = []
    while page.locator(".cell:visible").count():
        cells = page.locator(".cell")
        shown = {known[str(cell.get_attribute("title"))] for cell in cells.all()}
        assert len(shown) == 1
        signs += shown
        words = {1: ("Labelled present", "Yes"), -1: ("Labelled absent", "No"), 0: ("No label yet", "Open")}[signs[-1]]
        assert page.locator(".sheet-task").inner_text().startswith(words[0])
        assert set(cells.locator(".cell-answer").all_inner_texts()) == {words[1]}
        given = set(cells.locator(".cell-given").all_inner_texts())
        assert given <= {f"{how} as {words[0].split()[1]}" for how in ("Given", "Filled in")} | {"No label yet"}
        next_page(page)
    assert sorted(signs, key=[1, -1, 0].index) == signs
    assert set(signs) == {1, -1, 0}
    saved(page)
    answers = {image: kind for (image, _), kind in server.answers().items()}
    assert answers == {image: "yes" if label > 0 else "no" for image, label in known.items() if label}


def test_the_grid_saves_what_was_clicked_and_undoes_a_page_together(page: Page, server: Served) -> None:
    open_page(page, server, "#queue=all&view=grid&class=0&value=absent")
    cells = page.locator(".cell")
    count = cells.count()
    assert count >= 5
    for at in (0, 3):
        cells.nth(at).click()
    assert page.locator(".sheet-count").inner_text() == f"2 yes, {count - 2} no"
    assert page.locator(".sheet-foot .answer-main").inner_text().startswith(f"Save {count} answers")
    turned = {cells.nth(at).get_attribute("title") for at in (0, 3)}
    page.keyboard.press("ArrowRight")
    page.keyboard.press("s")
    assert page.locator(".sheet-count").inner_text() == f"2 yes, {count - 3} no, 1 skipped"
    page.keyboard.press("s")
    page.get_by_role("button", name="Yes to all").click()
    assert page.locator(".sheet-count").inner_text() == f"{count} yes, 0 no"
    page.get_by_role("button", name="No to all").click()
    for at in (0, 3):
        cells.nth(at).click()
    page.get_by_role("button", name="Save").click()
    page.wait_for_function("() => document.getElementById('live').textContent.startsWith('Saved')")
    saved(page)
    answers = server.answers()
    assert len(answers) == count
    assert {image for (image, _), kind in answers.items() if kind == "yes"} == turned
    page.keyboard.press("u")
    page.wait_for_function("() => document.getElementById('live').textContent.startsWith('Taken back')")
    page.wait_for_selector(".cell:visible")
    assert server.answers() == {}
    assert page.locator(".cell").count() == count


def test_open_pairs_are_answered_only_where_they_are_clicked(page: Page, server: Served) -> None:
    open_page(page, server, "#queue=all&view=grid&class=0&origin=unknown")
    cells = page.locator(".cell")
    count = cells.count()
    assert page.locator(".sheet-foot .answer-main").inner_text().startswith("Next page")
    cells.nth(0).click()
    for _ in range(2):
        cells.nth(1).click()
    for _ in range(3):
        cells.nth(2).click()
    assert page.locator(".sheet-count").inner_text() == f"1 yes, 1 no, {count - 2} open"
    names = [str(cells.nth(at).get_attribute("title")) for at in (0, 1)]
    page.keyboard.press("Enter")
    saved(page)
    assert {image: kind for (image, _), kind in server.answers().items()} == {names[0]: "yes", names[1]: "no"}


def test_a_class_that_the_grid_took_from_the_question_stays_in_its_queue(page: Page, server: Served) -> None:
    open_page(page, server, "#queue=all&view=single")
    page.keyboard.press("g")
    page.wait_for_selector(".cell")
    assert "class=" in page.evaluate("location.hash")
    page.keyboard.press("2")
    assert "class=" not in page.evaluate("location.hash")
    page.goto("about:blank")
    open_page(page, server, "#queue=all&view=grid&class=0")
    page.keyboard.press("2")
    assert "class=0" in page.evaluate("location.hash")  # somebody chose it


def test_two_browsers_that_disagree_see_a_conflict_and_settle_it(
    chromium: Browser, watch: Watch, page: Page, server: Served
) -> None:
    with browsing(chromium, watch) as other:
        for one in (page, other):
            open_page(one, server)
        assert asked(page) == asked(other)
        pair = answer(page, "y")
        saved(page)
        answer(other, "n")
        other.wait_for_selector("#tools [data-some] .badge")
        assert other.locator("#tools .badge").inner_text() == "1"
        assert "Another browser answered" in other.locator(".notice").inner_text()
        answer(page, "s")  # the first browser hears of it with its next answer
        page.wait_for_selector("#tools [data-some] .badge")
        page.get_by_role("button", name="Conflicts").click()
        clash = page.locator(".clash")
        assert clash.locator(".clash-name").inner_text() == f"{pair[1]}?"
        assert clash.locator(".clash-file").inner_text() == pair[0]
        said = clash.locator(".clash-said li").all_inner_texts()
        assert sorted(line.split()[0] for line in said) == ["no", "yes"]
        assert sum("this browser" in line for line in said) == 1
        clash.get_by_role("button", name="No").click()
        page.wait_for_selector("#conflicts .clash", state="detached")
        assert page.locator("#tools .badge").inner_text() == "0"
        page.get_by_role("button", name="Close", exact=True).click()
        page.get_by_role("button", name="Conflicts").click()
        page.wait_for_function("() => document.querySelector('#conflicts .dialog-note').innerText.startsWith('None.')")


def test_answers_given_while_the_server_is_killed_are_kept_and_arrive(
    chromium: Browser, watch: Watch, server: Served
) -> None:
    watch.expected = "Failed to load resource"
    with browsing(chromium, watch) as page:
        open_page(page, server)
        given = {answer(page, "y"): "yes"}
        saved(page)
        server.kill()
        given |= {answer(page, "n"): "no", answer(page, "y"): "yes", answer(page, "n"): "no"}
        page.wait_for_selector("#offline:not([hidden])")
        saved(page, "3 waiting")
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector(".marked[data-state=pending]")
        assert page.locator(".marked").inner_text() == "Your answer: no, not saved yet"
        page.keyboard.press("u")  # what was not sent is taken back without the server
        saved(page, "2 waiting")
        given.pop(asked(page))
        page.get_by_role("button", name="Try now").click()
        saved(page, "2 waiting")
        server.start()
        try_now(page)
        saved(page)
        assert page.locator("#offline").is_hidden()
        assert server.answers() == given

        # Killed again; this time the page is closed while an answer waits, which it warns of.
        server.kill()
        given |= {answer(page, "y"): "yes"}
        saved(page, "1 waiting")
        context = page.context
        with page.expect_event("close"):
            page.close(run_before_unload=True)
        assert watch.warned == 1
        server.start()
        again = context.new_page()
        watch.follow(again)
        open_page(again, server)
        saved(again)
        assert server.answers() == given


def _swipe(page: Page, by: int) -> None:
    box = page.locator(".frame").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    client = page.context.new_cdp_session(page)
    for kind, at in (("touchStart", 0), ("touchMove", by // 2), ("touchMove", by), ("touchEnd", None)):
        points = [] if at is None else [{"x": x + at, "y": y}]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    # A tap right behind a swipe stops the swipe's momentum and reaches no button; no finger is as fast.
    page.wait_for_timeout(400)


def _tap_until(page: Page, name: str, shown: str) -> None:
    """Tap a button after a swipe, again where the tap only stopped the momentum, as on a busy machine."""
    for _ in range(20):
        page.get_by_role("button", name=name, exact=True).tap()
        try:
            page.wait_for_selector(shown, timeout=10_000)
            return
        except TimeoutError:
            continue
    pytest.fail(f"{name} shows no {shown}")


def test_a_phone_is_enough(chromium: Browser, watch: Watch, server: Served) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with browsing(chromium, watch, **phone) as page:
        open_page(page, server, "#queue=all")
        given = {}
        for act, meant in (
            (lambda: page.get_by_role("button", name="Yes", exact=True).tap(), "yes"),
            (lambda: _swipe(page, 140), "yes"),
            (lambda: _swipe(page, -140), "no"),
        ):
            pair, before = asked(page), page.locator(".kicker").first.inner_text()
            act()
            page.wait_for_function(
                "said => document.querySelector('#single .kicker')?.textContent !== said", arg=before
            )
            given[pair] = meant
        _swipe(page, 40)  # too short to be meant
        saved(page)
        assert server.answers() == given
        assert too_small(page) == []
        _tap_until(page, "Grid", ".cell")
        count = page.locator(".cell").count()
        page.get_by_role("button", name="Yes to all").tap()
        page.locator(".cell").nth(1).tap()
        assert page.locator(".sheet-count").inner_text() == f"{count - 1} yes, 1 no"
        assert too_small(page) == []
        page.get_by_role("button", name="Filters").tap()
        assert too_small(page) == []
        fits(page)


def test_a_tab_that_stays_open_while_another_run_is_served_loses_and_mixes_up_nothing(
    chromium: Browser, watch: Watch, server: Served, trained: Path, tmp_path: Path
) -> None:
    """The server of one run is killed, another run starts at its address; then the first comes back."""
    watch.expected = "Failed to load resource"
    shutil.copytree(trained / "run", tmp_path / "other")
    table = LabelTable.read_parquet(server.labels)
    table.select(np.arange(len(table.images))[::-1]).write_parquet(tmp_path / "turned.parquet")
    other = Served(tmp_path / "other", server.images, tmp_path / "turned.parquet", server.address)
    with browsing(chromium, watch) as page:
        open_page(page, server)
        given = {answer(page, "y"): "yes"}
        saved(page)
        server.kill()
        given |= {answer(page, "n"): "no", answer(page, "y"): "yes"}
        saved(page, "2 waiting")
        other.start()
        try:
            try_now(page)
            page.wait_for_selector(".banner-news")  # loaded again, by itself
            assert page.locator("#run").inner_text() == "other"
            assert "2 answers for the run run wait in this browser" in page.locator(".banner-news").inner_text()
            elsewhere = {answer(page, "n"): "no"}
            saved(page)
            assert other.answers() == elsewhere
            other.kill()
            answer(page, "y")  # given to the other run, after which the first one is served again
            saved(page, "1 waiting")
            server.start()
            try_now(page)
            page.wait_for_function("() => document.getElementById('run')?.textContent === 'run'")
            page.wait_for_selector(".banner-news")
            assert "1 answer for the run other" in page.locator(".banner-news").inner_text()
            saved(page)
            assert server.answers() == given
            assert other.answers() == elsewhere
        finally:
            other.kill()


def test_waiting_answers_arrive_when_their_run_is_served_again(
    chromium: Browser, watch: Watch, server: Served, tmp_path: Path
) -> None:
    """With another table of the same run in between: the tab loads itself again, and names decide."""
    watch.expected = "Failed to load resource"
    table = LabelTable.read_parquet(server.labels)
    labels = server.labels
    table.select(np.arange(len(table.images))[::-1]).write_parquet(tmp_path / "turned.parquet")
    with browsing(chromium, watch) as page:
        open_page(page, server)
        server.kill()
        given = {answer(page, key): kind for key, kind in (("y", "yes"), ("n", "no"), ("s", "skip"))}
        saved(page, "3 waiting")
        server.labels = tmp_path / "turned.parquet"
        server.start()
        try_now(page)
        page.wait_for_selector(".notice")
        assert "was loaded again" in page.locator(".notice").inner_text()
        saved(page)
        assert server.answers() == given
        server.labels = labels
