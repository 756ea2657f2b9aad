"""The page of predictions: alone, foreign names as text, what it says, and what it does in a browser."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from partlabel.app import contact_sheet
from partlabel.app.cli import main
from partlabel.app.contact_sheet import _percent, _shade, write_contact_sheet
from partlabel.models.config import ModelConfig
from partlabel.models.model import Model
from partlabel.tasks.predict import Predictions
from tests.pictures import make_pictures

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def sheet(tmp_path_factory):
    """A page on six images and three classes; nothing is found in the last image."""
    folder = tmp_path_factory.mktemp("sheet")
    make_pictures(folder / "p", 6)
    torch.manual_seed(0)
    model = Model(ModelConfig(backbone="test_resnet", weights="none", stages=3), ["cat", EVIL, "dog"], 48)
    probabilities = np.array(
        [[0.9, 0.6, 0.1], [0.2, 0.995, 0.3], [0.7, 0.1, 0.8], [0.6, 0, 0], [0, 0, 1], [0, 0.2, 0.4]]
    )
    names = [f"<i>{i}.png" for i in range(6)]
    found = Predictions(tuple(names), model.classes, np.zeros((6, 3), np.float32), probabilities, probabilities >= 0.5)
    shown = write_contact_sheet(folder / "s.html", model, sorted((folder / "p").iterdir()), found, "my <b>photos")
    assert shown == 6
    return folder / "s.html"


def test_the_file_needs_nothing_else_and_names_are_text(sheet):
    text = sheet.read_text()
    assert set(re.findall(r"""(?:src|href)=["']?(data:|#|.)""", text)) == {"data:"}
    assert "http" not in text.replace("http-equiv", "")
    assert EVIL not in text
    assert "<i>0.png" not in text
    assert "my <b>" not in text
    assert text.count("<script>") == 1


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1366, "light"), (390, "dark")])
def test_in_a_browser(chromium, sheet, width, scheme):
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto(sheet.as_uri())
    shown = lambda: tab.locator("#cards > li:visible")  # noqa: E731
    assert shown().count() == 6
    assert "1 image has none" in tab.inner_text(".lead")
    # by their content: what the browser has not drawn yet has no inner text (content-visibility)
    assert shown().nth(5).locator(".rest").text_content() == "none found; nearest: dog, 40 %"
    tab.select_option("#class", "0")
    tab.select_option("#order", "sure")
    assert shown().locator(".file").all_text_contents() == ["<i>0.png", "<i>2.png", "<i>3.png"]
    assert tab.inner_text("#shown") == "3 of 6 images"
    tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    layer, image = (tab.locator(f"#cards .photo img{kind}").first.bounding_box() for kind in (".where", ":not(.where)"))
    assert all(abs(layer[side] - image[side]) < 0.5 for side in layer)
    tab.uncheck("#where")
    tab.wait_for_function("() => getComputedStyle(document.querySelector('.where')).opacity === '0'")  # it fades
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert said == []
    context.close()


def test_of_many_images_some_are_shown(sheet, monkeypatch, tmp_path):
    monkeypatch.setattr(contact_sheet, "MOST", 3)
    make_pictures(tmp_path / "p", 7)
    model = Model(ModelConfig(backbone="test_resnet", weights="none"), ["cat"], 32)
    found = Predictions(
        tuple(map(str, range(7))), ("cat",), np.zeros((7, 1), np.float32), np.full((7, 1), 0.5), np.ones((7, 1), bool)
    )
    assert write_contact_sheet(tmp_path / "s.html", model, sorted((tmp_path / "p").iterdir()), found, "p") == 3
    assert "Shown are 3, spread evenly over all." in (tmp_path / "s.html").read_text()


def test_the_command_writes_it(place, tmp_path, capsys):
    assert main(["predict", str(place / "run"), str(place / "pictures"), "-o", str(tmp_path / "p.html")]) == 0
    assert "partlabel export" in capsys.readouterr().out.splitlines()[-1]
    assert (tmp_path / "p.html").read_text().count('class="photo"') == 40
    assert main(["predict", str(place / "run"), str(place / "pictures"), "--wide", "-o", str(tmp_path / "p.html")]) == 2


@pytest.mark.slow
def test_a_page_of_an_exported_file_says_why_it_shows_no_regions(place, tmp_path, capsys):
    model, page = tmp_path / "m.onnx", tmp_path / "p.html"
    assert main(["export", str(place / "run"), "--images", str(place / "pictures"), "-o", str(model)]) == 0
    assert main(["predict", str(model), str(place / "pictures"), "-o", str(page)]) == 0
    text = page.read_text()
    assert text.count('class="photo"') == 40
    assert 'class="where"' not in text
    assert 'id="where"' not in text
    assert "an exported file gives scores alone" in text
    assert "predict" in capsys.readouterr().out.splitlines()[-1]


def test_percentages_and_layers_by_hand():
    assert [_percent(p) for p in (0, 0.004, 0.5, 0.996, 1)] == ["0 %", "under 1 %", "50 %", "over 99 %", "100 %"]
    assert _shade(np.full((3, 3), -1, np.float32)) is None
    assert _shade(np.ones((1, 1), np.float32)) is None
    assert _shade(np.eye(3, dtype=np.float32)).startswith("data:image/png;base64,")
