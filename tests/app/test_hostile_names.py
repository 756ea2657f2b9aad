"""Names that no friend gives, drawn at random, through everything that is written and said."""

from __future__ import annotations

import csv
import json
import re
import shutil
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest

from partlabel import LabelTable, formats
from partlabel.app.cli import main
from partlabel.core.text import in_markdown, shown
from partlabel.formats.table.sheets import open_sheet
from tests.pictures import make_pictures, tiny_config

pytestmark = pytest.mark.slow

#: what acts somewhere: in spreadsheets, on terminals, in markup, in templates, in TOML and format strings
PARTS = (
    *(
        "=1+1",
        "@SUM(1)",
        "-x",
        "+y",
        "＝1",
        "'",
        '"',
        "'''",
        '"""',
        "\t",
        "\r",
        "\n",
        "\x1b[31m",
        "\x07",
        "\x7f",
        "\x85",
    ),
    *("\u202e", "\u2028", "\u2066", "\u200f", "\u00ad", "\ufeff", "<script>alert(1)</script>", "<img src=x onerror=y>"),
    *("&lt;", "</title>", "</textarea>", "-->", "]]>", "{{7*7}}", "{% x %}", "%s", "{0}", "$x", "\\", "\\n", "# h"),
    *("](http://e.example)", "**b**", "`", "|", "~", "_", ";", ",", "é", "猫", "😀", "a", "b", "CON", " "),
)
HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
FORMULA = re.compile("[=+\\-@\t\r\n＝＋－＠]")
NUMBER = re.compile(r"-?[0-9.]+(e[-+]?[0-9]+)?")


class Markup(HTMLParser):
    """The elements of a page, and attributes that run something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.acting: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.acting += [name for name, _ in attrs if name.startswith("on")]
        self.acting += ["src"] * any(name == "src" and not (value or "").startswith("data:") for name, value in attrs)


def draw(rng: np.random.Generator, most: int) -> str:
    return "".join(rng.choice(PARTS) for _ in range(int(rng.integers(1, most + 1))))


@pytest.fixture(scope="module", params=[0, 1])
def place(request, tmp_path_factory):
    """A folder with images, a table and settings."""
    rng, folder = np.random.default_rng(request.param), tmp_path_factory.mktemp("names")
    plain = make_pictures(folder / "plain", 24)
    classes: list[str] = []
    while len(classes) < 6:
        name = draw(rng, 4).strip()
        classes += [name] if name and name not in classes else []
    (folder / "photos").mkdir()
    images = [f"{draw(rng, 3)}{i}.png".replace("/", "").strip() for i in range(24)]
    for old, new in zip(plain.images.to_pylist(), images, strict=True):
        shutil.copy(folder / "plain" / old, folder / "photos" / new)
    dense = np.concatenate([plain.dense(), plain.dense()[:, ::-1]], 1) * (rng.random((24, 6)) < 0.8)
    table = LabelTable.from_dense(images, classes, dense.astype(np.int8))
    table.write_parquet(folder / "t.parquet")
    config = tiny_config(optim__epochs=1, validation=0.3, model__pooling="average", freeze="all")
    config.replace(optim__name="closed-form").write(folder / "c.toml")
    return folder


def run(place: Path, capfd, words: str) -> None:
    """Run a command; what it says acts on nothing."""
    code = main([word.format(p=place) for word in words.split()])
    said = "".join(capfd.readouterr())
    assert code == 0, said
    assert not HIDDEN.search(said), words


def test_everything_that_is_written(place, capfd):
    table = LabelTable.read_parquet(place / "t.parquet")
    run(place, capfd, "train {p}/t.parquet --images {p}/photos --config {p}/c.toml -o {p}/run")
    for words in (
        "inspect {p}/t.parquet --png {p}/figure.png",
        "evaluate {p}/run {p}/t.parquet --images {p}/photos",
        "thresholds {p}/run --by f1",
        "predict {p}/run {p}/photos -o {p}/p.csv",
        "predict {p}/run {p}/photos -o {p}/w.csv --wide",
        "predict {p}/run {p}/photos -o {p}/p.xlsx",
        "predict {p}/run {p}/photos -o {p}/p.html",
        "report {p}/run --images {p}/photos -o {p}/report.html",
        "suspects {p}/run {p}/t.parquet --images {p}/photos -o {p}/s.csv",
        "next {p}/run {p}/t.parquet --images {p}/photos --budget 20 -o {p}/q.csv",
        "export {p}/run --images {p}/photos -o {p}/m.onnx",
    ):
        run(place, capfd, words)
    for name in ("csv", "openimages"):
        formats.write(name, table, place / f"table.{name}.csv")
    check_cells(place, table)
    check_pages(place)
    check_models(place, table)


def check_cells(place: Path, table: LabelTable) -> None:
    for path in place.glob("*.csv"):
        with open(path, newline="", encoding="utf-8") as file:
            cells = {cell for row in csv.reader(file) for cell in row}
        assert not [cell for cell in cells if FORMULA.match(cell) and not NUMBER.fullmatch(cell)], path.name
    again, _ = formats.read("csv", place / "table.csv.csv", layout="wide", coding="native", separator=",")
    assert again.classes == table.classes or any(
        "\u00ad" in name or name != " ".join(name.split()) for name in table.classes
    )
    sheet = open_sheet(str(place / "p.xlsx"), None)
    assert sheet is not None
    assert [name.replace("\r\n", "\n") for name in sheet.header[2:]] == [
        name.replace("\r\n", "\n") for name in table.classes
    ]


def check_pages(place: Path) -> None:
    for name in ("p.html", "report.html"):
        page = (place / name).read_text(encoding="utf-8")
        markup = Markup(page)
        assert not markup.acting
        assert not markup.elements & {"textarea", "iframe", "object", "embed", "base"}
        assert page.count("<script") == 1
        assert page.count("</title>") == 1
        assert not HIDDEN.search(page)


def check_models(place: Path, table: LabelTable) -> None:
    stored = tomllib.loads((place / "run/best/model.toml").read_text(encoding="utf-8"))
    assert stored["classes"] == list(table.classes)
    values = {entry.key: entry.value for entry in onnx.load(place / "m.onnx").metadata_props}
    assert json.loads(values["classes"]) == list(table.classes)
    for card in place.glob("run/*/MODEL_CARD.md"):
        text = card.read_text(encoding="utf-8")
        assert not HIDDEN.search(text)
        assert not re.search(r"(?<!\\)<", text)
        rows = [line for line in text.splitlines() if line.startswith("| ") and line.count(" | ") > 7]
        named = {line[2:].split(" | ")[0] for line in rows[1:]}
        assert named <= set(map(in_markdown, table.classes))


@pytest.mark.parametrize("text", ["a|b", "<b>", "`x`", "_a_ b_c", "[x](y)", "a\nb", "\u202e", r"\n"])
def test_markdown_shows_the_text(text):
    line = in_markdown(text)
    assert re.sub(r"\\([\\`*\[\]<>|~&$_])", r"\1", line) == shown(text, lines=False)
    assert not re.search(r"(?<!\\)[`*\[\]<>|~&$]", line)
