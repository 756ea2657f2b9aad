"""What the page must keep: strangers' names as text, contrast, names for screen readers, no sideways scroll."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.app.review.browser.conftest import EVIL_CLASS, EVIL_FILE, LONG_CLASS, Served, Watch, browsing
from tests.app.review.browser.pages import fits, open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

#: text with less contrast to its ground than WCAG AA asks: 4.5, or 3 for large text; text over images is left out
CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const behind = (one) => {
    const layers = [];
    for (let at = one; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = ([r, g, b]) => {
    const part = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const wrong = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const one = node.parentElement;
    if (!node.data.trim() || !one.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if (one.closest('.over, .swipe-hint, .unseen, :disabled, script, option, .skip-link')) continue;
    const style = getComputedStyle(one);
    const ground = behind(one);
    const pair = [light(over(rgba(style.color), ground)), light(ground)].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const words = node.data.trim().slice(0, 30);
    if (ratio < (large ? 3 : 4.5)) wrong.push(`${one.className} "${words}" ${ratio.toFixed(2)}`);
  }
  return [...new Set(wrong)];
}"""
NAMED = {"button", "textbox", "searchbox", "combobox", "checkbox", "spinbutton", "dialog", "listbox", "option", "image"}


#: controls of the filters that lie over each other, or have no room for three letters
COVERED = """() => {
  const parts = [...document.querySelectorAll(".filters .combo, .filters-more > *, .filters-unfold, .view-switch")]
    .filter((part) => part.checkVisibility())
    .map((part) => [part.className || part.tagName, part.getBoundingClientRect()]);
  const over = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  return parts.flatMap(([name, box], i) => [
    ...(box.width < 44 ? [name] : []),
    ...parts.slice(i + 1).filter(([, other]) => over(box, other)).map(([other]) => `${name} and ${other}`),
  ]);
}"""


def _nameless(page: Page) -> list[str]:
    """What a screen reader would meet without a name."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")
    return [
        node["role"]["value"]
        for node in tree["nodes"]
        if not node.get("ignored")
        and node.get("role", {}).get("value") in NAMED
        and not node.get("name", {}).get("value", "").strip()
    ]


def _views(page: Page, server: Served) -> Iterator[str]:
    """Go through all that the page can show."""
    open_page(page, server)
    page.wait_for_function("() => !document.querySelector('.frame').hasAttribute('data-loading')")
    page.keyboard.press("y")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".marked[data-state=saved]")
    yield "single"
    for name, opener in (("help", "Help and keys"), ("conflicts", "Conflicts"), ("export", "Export")):
        page.get_by_role("button", name=opener).click()
        page.locator(f"#{name}").wait_for()
        yield name
        page.keyboard.press("Escape")
    page.keyboard.press("c")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("[role=option]")
    yield "classes"
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.keyboard.press("5")
    page.wait_for_selector(".label-row")
    yield "pictures"
    page.goto("about:blank")
    open_page(page, server, "#queue=all&view=grid&class=3")
    page.locator(".cell").nth(1).click()
    yield "grid"
    page.goto("about:blank")
    open_page(page, server, "#queue=all&search=nothing-is-called-so")
    yield "empty"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_and_controls_have_names(chromium: Browser, watch: Watch, server: Served, theme: str) -> None:
    options = {"color_scheme": theme, "reduced_motion": "reduce"}
    with browsing(chromium, watch, **options) as page:
        for name in _views(page, server):
            assert page.evaluate(CONTRAST) == [], name
            assert _nameless(page) == [], name
            for width in (390, 768, 900, 1000, 1200, 1280):
                page.set_viewport_size({"width": width, "height": 800})
                page.wait_for_function("width => innerWidth === width", arg=width)
                fits(page, (name, width))
                assert page.evaluate(COVERED) == [], (name, width)


def test_names_from_strangers_are_text(page: Page, server: Served) -> None:
    open_page(page, server, "#queue=pictures&search=onerror")
    assert page.locator(".caption-file").inner_text() == EVIL_FILE
    names = page.locator(".label-name").all_text_contents()
    assert EVIL_CLASS in names
    assert LONG_CLASS in names
    row = page.locator(f".label-row[title={EVIL_CLASS!r}]")
    row.click()
    assert page.locator("#single .question bdi").inner_text() == EVIL_CLASS
    page.keyboard.press("y")
    page.wait_for_function("() => document.getElementById('live').textContent.startsWith('Saved')")
    assert page.locator("#live").inner_text() == f"Saved: {EVIL_CLASS}, yes."
    page.goto("about:blank")
    open_page(page, server, "#queue=all&view=grid&open=0&class=2&search=onerror")
    assert page.locator("#sheet .question bdi").inner_text() == EVIL_CLASS
    assert page.locator(f".cell[title={EVIL_FILE!r}]").count() == 1
    page.keyboard.press("c")
    page.keyboard.type("<img")
    assert page.locator("[role=option] .option-name").all_text_contents() == [EVIL_CLASS]
    # No element of the page was made by a name: none has a listener in its markup, none a strange source.
    assert page.locator("[onerror], img[src='x']").count() == 0
    policy = page.evaluate("fetch('/').then((reply) => reply.headers.get('content-security-policy'))")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
