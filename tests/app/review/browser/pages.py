"""Reading and driving the review page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import TimeoutError

from tests.app.review.browser.conftest import Served

if TYPE_CHECKING:
    from playwright.sync_api import Page


def open_page(page: Page, server: Served, place: str = "") -> None:
    page.goto(f"{server.address}{place}")
    page.wait_for_selector(".label-row, .cell, .blank .blank-title")
    # the grid measures how many cells fit once they are laid out
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def question(page: Page) -> str:
    return page.locator("#single .question bdi").inner_text()


def file(page: Page) -> str:
    return page.locator(".caption-file").inner_text()


def asked(page: Page) -> tuple[str, str]:
    page.wait_for_function(
        "() => document.querySelector('#single .question bdi')?.textContent"
    )  # of a page just loaded
    return file(page), question(page)


def saved(page: Page, state: str = "All saved") -> None:
    page.wait_for_function("said => document.getElementById('saving-text')?.textContent === said", arg=state)


def answer(page: Page, key: str) -> tuple[str, str]:
    """Answer the question by a key and wait for the next one."""
    pair = asked(page)
    before = page.locator(".kicker").first.inner_text()
    page.keyboard.press(key)
    page.wait_for_function("said => document.querySelector('#single .kicker')?.textContent !== said", arg=before)
    return pair


def next_page(page: Page) -> None:
    """Save the page of the grid by a key and wait for the next one, or for the end."""
    before = page.locator("#sheet .kicker").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_function(
        """said => document.querySelector('#sheet .kicker').textContent !== said
            || document.querySelector('#blank .blank-title')?.checkVisibility()""",
        arg=before,
    )


def try_now(page: Page) -> None:
    """Press "Try now", which may be gone already, as the page tries by itself."""
    page.locator("#offline button").dispatch_event("click")


def tab_to(page: Page, selector: str) -> None:
    """Go with the tab key until an element has the focus, as somebody without a mouse does."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("what => document.activeElement.matches(what)", selector):
            return
    pytest.fail(f"the tab key does not reach {selector}")


def too_small(page: Page) -> list[str]:
    """Buttons and fields below 44 x 44 pixels; a checkbox counts with its label."""
    return page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, a[href]')]
            .filter((one) => one.offsetParent && !one.closest('.skip-link, [hidden]'))
            .map((one) => [one, (one.type === 'checkbox' ? one.closest('label') : one).getBoundingClientRect()])
            .filter(([, box]) => Math.round(box.width) < 44 || Math.round(box.height) < 44)
            .map(([one, box]) => `${one.className} ${one.textContent} ${box.width} x ${box.height}`)"""
    )


def fits(page: Page, what: object = "") -> None:
    """Check that nothing is wider than the window, once the layout has settled."""
    try:
        page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth", timeout=60_000)
    except TimeoutError:
        pytest.fail(f"scrolls sideways: {what}")
