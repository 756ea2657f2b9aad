"""Images to look at: which are chosen, and the page of ``inspect``."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PIL import Image

from partlabel import LabelTable
from partlabel.app.cli import main
from partlabel.app.report import write_report
from partlabel.app.report.gallery import gallery, names_of
from tests.images.test_quality import scene

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def table(tmp_path):
    """Twelve images and three classes; one image is dark, one is missing, one is no image."""
    (tmp_path / "p").mkdir()
    names = [f"&b;{i}.png" for i in range(12)]
    for i, name in enumerate(names[:11]):
        image = scene((96, 72), i)
        (image.point(lambda v: v // 6) if i == 4 else image).save(tmp_path / "p" / name)
    (tmp_path / "p" / names[10]).write_bytes(b"no image")
    values = np.zeros((12, 3), np.int8)
    values[:, 0], values[:3, 1], values[3:, 1] = 1, 1, -1
    made = LabelTable.from_dense(names, ["cat", EVIL, "never"], values)
    made.write_parquet(tmp_path / "t.parquet")
    return made


def test_chosen_by_hand(table, tmp_path):
    found = gallery(table, tmp_path / "p")
    assert [(row["class"], row["present"], len(row["examples"])) for row in found["classes"]] == [
        ("cat", 12, 8),
        (EVIL, 3, 3),
    ]
    assert set(found["classes"][1]["examples"]) == {f"&b;{i}.png" for i in range(3)}
    assert [(kind["kind"], kind["count"]) for kind in found["odd"]] == [("dark", 1)]
    assert found["odd"][0]["images"] == [{"image": "&b;4.png", "size": "96 x 72"}]
    assert (found["measured"], found["images"], found["missing"]) == (10, 12, 2)
    assert found["copies"] == []
    assert gallery(table, tmp_path / "p") == found
    assert gallery(table, tmp_path / "p", seed=1)["classes"] != found["classes"]
    assert "&b;4.png" in names_of(found)


def test_pairs_that_look_alike_come_with_labels_that_differ(tmp_path):
    for i in range(4):
        scene((256, 192), i).save(tmp_path / f"{i}.png")
    scene((256, 192), 1).resize((400, 300)).save(tmp_path / "4.jpg")
    scene((256, 192), 3).resize((200, 150)).save(tmp_path / "5.jpg")
    values = np.array([[1, 1], [1, 1], [0, 1], [1, 1], [1, 0], [-1, 1]], np.int8)
    names = [*(f"{i}.png" for i in range(4)), "4.jpg", "5.jpg"]
    found = gallery(LabelTable.from_dense(names, ["cat", "dog"], values), tmp_path)
    assert found["alike"] == 2
    assert found["copies"] == [
        {"images": ["3.png", "5.jpg"], "differ": ["cat"]},
        {"images": ["1.png", "4.jpg"], "differ": []},
    ]
    assert {"5.jpg", "4.jpg"} <= set(names_of(found))


def test_the_page_of_inspect(table, tmp_path, capsys):
    words = ["inspect", str(tmp_path / "t.parquet"), "--html", str(tmp_path / "t.html")]
    assert main(words) == 2
    assert "--images" in capsys.readouterr().err
    assert main([*words, "--images", str(tmp_path / "p")]) == 0
    text = (tmp_path / "t.html").read_text()
    assert EVIL not in text
    assert "&b;4.png" not in text
    assert set(re.findall(r"""(?:src|href)=["']?(data:|#|.)""", text)) == {"data:", "#"}
    assert text.count('src="data:image/jpeg') >= 9
    assert "Dark" in text


@pytest.mark.browser
def test_in_a_browser(chromium, table, tmp_path):
    assert main(["inspect", str(tmp_path / "t.parquet"), "--html", str(tmp_path / "t.html"), "--images", str(tmp_path / "p")]) == 0  # fmt: skip  # noqa: E501
    context = chromium.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
    tab, said = context.new_page(), []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto((tmp_path / "t.html").as_uri())
    assert tab.locator("#labels-odd h4").all_inner_texts() == ["Dark 1; next to nothing is bright enough to be told"]
    tab.get_by_role("button", name="present", exact=True).click()
    assert tab.locator("tbody th").first.inner_text() == "cat"
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert said == []
    context.close()


def test_runs_on_the_same_images_show_them_once(runs, tmp_path):
    for name in [f"{i}.png" for i in range(3)]:
        Image.fromarray(np.zeros((80, 80, 3), np.uint8)).save(tmp_path / name)
    found = write_report([runs / "one", runs / "unfinished"], tmp_path / "r.html", images=tmp_path, resamples=10)
    assert found["runs"][0]["gallery"]["odd"][0]["count"] == 3
    assert found["runs"][1]["gallery"] is None
