"""What a reviewer does: whole sessions in a real browser, against the server of a run that was really trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from partlabel import LabelTable
from tests.app.review.browser.conftest import Served, Watch, browsing
from tests.app.review.browser.pages import answer, asked, fits, open_page, saved, tab_to, too_small

if TYPE_CHECKING:
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
    cells = page.locator(".cell").count()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert page.locator(".sheet-count").inner_text() == f"{cells - 1} yes, 1 no"
    crossed = page.locator(".cell").nth(1).get_attribute("title")
    page.keyboard.press("Enter")
    page.wait_for_selector("#blank .blank-title")
    saved(page)
    answers = server.answers()
    assert {answers[pair] for pair in answers if pair[1] == "five"} == {"yes", "no"}
    assert answers[str(crossed), "five"] == "no"

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


def test_the_grid_saves_all_but_the_clicked_and_undoes_them_together(page: Page, server: Served) -> None:
    open_page(page, server, "#queue=all&view=grid&class=0")
    cells = page.locator(".cell")
    count = cells.count()
    assert count >= 12
    for at in (0, 3):
        cells.nth(at).click()
    assert page.locator(".sheet-count").inner_text() == f"{count - 2} yes, 2 no"
    assert page.locator(".sheet-foot .answer-main").inner_text().startswith(f"Save {count} answers")
    crossed = {cells.nth(at).get_attribute("title") for at in (0, 3)}
    page.keyboard.press("ArrowRight")
    page.keyboard.press("s")
    assert page.locator(".sheet-count").inner_text() == f"{count - 3} yes, 2 no, 1 skipped"
    page.keyboard.press("s")
    # "No to all" turns those that were not clicked, and what was clicked differs from the rest still.
    page.get_by_role("button", name="No to all").click()
    assert page.locator(".sheet-count").inner_text() == f"2 yes, {count - 2} no"
    page.get_by_role("button", name="Yes to all").click()
    page.get_by_role("button", name="Save").click()
    page.wait_for_function("() => document.getElementById('live').textContent.startsWith('Saved')")
    saved(page)
    answers = server.answers()
    assert len(answers) == count
    assert {image for (image, _), kind in answers.items() if kind == "no"} == crossed
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => document.getElementById('live').textContent.startsWith('Taken back')")
    assert server.answers() == {}
    assert page.locator(".cell").count() == count


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
        assert page.evaluate("fetch('/api/conflicts').then(reply => reply.json())") == {"items": []}


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
        server.start()
        page.get_by_role("button", name="Try now").click()
        saved(page)
        assert page.locator("#offline").is_hidden()
        assert server.answers() == given

        # Killed again; this time the page is closed while an answer waits, which it warns of.
        server.kill()
        given |= {answer(page, "y"): "yes"}
        saved(page, "1 waiting")
        context = page.context
        page.close(run_before_unload=True)
        page.wait_for_event("close")
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
            page.wait_for_function("said => document.querySelector('#single .kicker').textContent !== said", arg=before)
            given[pair] = meant
        _swipe(page, 40)  # too short to be meant
        saved(page)
        assert server.answers() == given
        assert too_small(page) == []
        page.get_by_role("button", name="Grid", exact=True).tap()
        page.wait_for_selector(".cell")
        count = page.locator(".cell").count()
        page.locator(".cell").nth(1).tap()
        assert page.locator(".sheet-count").inner_text() == f"{count - 1} yes, 1 no"
        assert too_small(page) == []
        page.get_by_role("button", name="Filters").tap()
        assert too_small(page) == []
        fits(page)
