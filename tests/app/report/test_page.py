"""The page in a browser: what it says, that it is alone, keyboard, contrast, width, and foreign names as text."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from PIL import Image

from partlabel.app.report import write_report
from partlabel.app.report.svg import Plot, nice_ticks
from partlabel.core.errors import UserError
from tests.app.report.conftest import CLASSES, world

SCRIPT = CLASSES[1]


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    """A report on two runs with images, and its numbers."""
    folder = tmp_path_factory.mktemp("page")
    for i, name in enumerate(world()[0].images.to_pylist()):
        path = folder / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((40, 60, 3), 4 * i, np.uint8)).save(path)
    target = folder / "report.html"
    found = write_report([runs / "one", runs / "two &b;"], target, images=folder / "pictures", resamples=100)
    assert json.loads((folder / "report.json").read_text()) == json.loads(json.dumps(found))
    return target, found


@pytest.fixture
def opened(chromium, page):
    """The page at desktop width; fails on a message of the console, an error or any request."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    said, asked = [], []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(page[0].as_uri())
    yield tab
    assert said == []
    assert [url for url in asked if not url.startswith(("data:", page[0].as_uri()))] == []
    context.close()


def test_the_file_needs_nothing_else(page):
    text = page[0].read_text()
    assert set(re.findall(r"""(?:src|href)=["']?(data:|#|.)""", text)) == {"data:", "#"}
    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text
    assert "url(" not in text


def test_names_of_strangers_are_text(page):
    text = page[0].read_text()
    assert SCRIPT not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert text.count("<script>") == 1
    assert not re.search(r"&b;\d{3}", text)
    assert "two &b;" not in text


@pytest.mark.browser
def test_what_it_says(opened, page):
    found = page[1]["runs"][0]
    body = opened.inner_text("body")
    ap = found["headline"]["metrics"]["mean_ap"]
    assert f"{100 * ap['value']:.1f}" in opened.inner_text("#run-1 .figures")
    assert f"{100 * ap['low']:.1f} to {100 * ap['high']:.1f}" in opened.inner_text("#run-1 .figures")
    assert found["random_check"]["sentence"] in re.sub(r"\s+", " ", body)
    rows = opened.locator("#run-1-classes tbody tr")
    assert rows.count() == 4
    assert SCRIPT in rows.nth(1).inner_text()
    assert opened.locator("#run-1-classes tbody tr").nth(3).locator(".dash").first.get_attribute("title") == (
        "no known present label"
    )
    rounds = opened.inner_text("#run-2-rounds")
    assert all(word in rounds for word in ("1,234", "25.0", "87.5", "Only absent labels", SCRIPT))
    assert opened.locator("#run-1-rounds").count() == 0
    assert "until relabelling filled it in" in opened.inner_text("#run-2-labels")
    assert opened.locator("#spent svg").count() == 1
    change = page[1]["comparison"]["others"][0]["metrics"][0]
    assert f"−{-100 * change['difference']:.1f}" in opened.inner_text("#comparison")
    assert opened.locator("#run-1-mistakes img").count() > 0
    assert opened.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")


@pytest.mark.browser
def test_charts_have_words_and_titles_of_their_axes(opened):
    charts = opened.locator("svg[role=img]")
    assert charts.count() > 10
    labels = charts.evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))")
    assert all(len(label) > 20 for label in labels)
    titles = opened.locator("svg.plot").evaluate_all("all => all.map((one) => one.querySelectorAll('.title').length)")
    assert set(titles) == {2}


@pytest.mark.browser
def test_sorting_by_keyboard(opened):
    table = opened.locator("#run-1-classes table")
    head = table.locator("th", has_text="AP").first
    button = head.get_by_role("button")
    button.focus()

    def shown():
        return table.locator("tbody tr").evaluate_all("rows => rows.map((row) => row.cells[5].dataset.v)")

    before = shown()
    opened.keyboard.press("Enter")
    values = [float(v) for v in shown() if v]
    assert head.get_attribute("aria-sort") == "descending"
    assert values == sorted(values, reverse=True)
    assert shown()[-1] == ""  # undefined numbers come last either way
    opened.keyboard.press("Space")
    values = [float(v) for v in shown() if v]
    assert head.get_attribute("aria-sort") == "ascending"
    assert values == sorted(values)
    assert shown()[-1] == ""
    assert sorted(before) == sorted(shown())
    name = table.locator("th").first
    name.get_by_role("button").focus()
    opened.keyboard.press("Enter")
    assert (name.get_attribute("aria-sort"), head.get_attribute("aria-sort")) == ("ascending", "none")
    assert table.locator("tbody th").all_inner_texts()[1:3] == ['a "quoted" & long name of a class', "cat"]


@pytest.mark.browser
def test_boxes_that_scroll_can_be_reached_and_have_names(opened):
    boxes = opened.locator(".scroll")
    assert boxes.count() == opened.locator(".scroll[tabindex='0'][role=region][aria-label]").count()
    names = opened.locator("button, a, summary").evaluate_all("all => all.map((one) => one.textContent.trim())")
    assert all(names)
    ids = opened.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    assert all(href[1:] in ids for href in opened.locator("a").evaluate_all("a => a.map(x => x.getAttribute('href'))"))


@pytest.mark.browser
def test_the_theme_button(opened):
    paper = "getComputedStyle(document.body).backgroundColor"
    button = opened.get_by_role("button", name="Theme")
    light = opened.evaluate(paper)
    button.press("Enter")
    assert opened.evaluate("document.documentElement.dataset.theme") == "light"
    assert opened.evaluate(paper) == light
    button.press("Enter")
    assert button.inner_text() == "Theme: dark"
    assert opened.evaluate(paper) != light


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
      if (colour[3]) return [0, 0, 0];  // no text may stand on a half-transparent ground
    }
    return rgba("white");
  };
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  const low = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || ["SCRIPT", "STYLE"].includes(node.tagName)) continue;
    const style = getComputedStyle(node);
    const ink = rgba(node instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(node))].sort((x, y) => y - x);
    seen += 1;
    const bad = (a + 0.05) / (b + 0.05) < 4.5 || Number(style.opacity) < 1;
    if (bad) low.push(walk.currentNode.textContent.trim().slice(0, 40));
  }
  return [seen, low];
}"""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_contrast_and_width(chromium, page, scheme, width):
    context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    tab = context.new_page()
    tab.goto(page[0].as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    seen, low = tab.evaluate(CONTRAST)
    assert seen > 200
    assert low == []
    context.close()


def test_one_run_of_any_kind_makes_a_page(runs, tmp_path):
    for name, said in (
        ("unfinished", "not finished: 1 of 3 epochs"),
        ("bare", "Nothing was measured"),
        ("one", "Give <code>--images</code>"),
    ):
        write_report([runs / name], tmp_path / f"{name}.html", resamples=20)
        assert said in (tmp_path / f"{name}.html").read_text()


def test_nothing_is_written_by_halves(runs, tmp_path):
    with pytest.raises(UserError, match=r"written as \.html"):
        write_report([runs / "one"], tmp_path / "report.pdf")
    with pytest.raises(UserError, match="does not exist"):
        write_report([runs / "one"], tmp_path / "no" / "report.html")
    with pytest.raises(UserError, match="without a validation part"):
        write_report([runs / "one", runs / "bare"], tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_ticks_are_round_numbers():
    assert nice_ticks(0, 1, 5) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert nice_ticks(1, 20, 5) == [5, 10, 15, 20]
    assert nice_ticks(0, 0.37, 5) == [0, 0.1, 0.2, 0.3]


def test_points_lie_where_their_values_are():
    plot = Plot("a & b", (0, 10), (0, 1), "x", "y", width=358, height=252)
    assert (plot.at_x(0), plot.at_x(10)) == (46, 346)
    assert (plot.at_y(0), plot.at_y(1)) == (212, 12)
    plot.dots([(5, 0.5)], "s1")
    assert 'cx="196" cy="112"' in plot.svg()
    assert 'aria-label="a &amp; b"' in plot.svg()
