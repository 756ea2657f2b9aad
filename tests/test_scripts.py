"""The scripts of examples/ run as they are, on few images and with a tiny network."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.page_writers import page_writer
from tests.processes import run_script

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
TINY = ("model__backbone=test_resnet", "model__weights=none")

WRITER = page_writer("write_examples")
#: what each script printed when the page was written
SHOWN = {words[0]: text.splitlines() for words, text in zip(WRITER.RUNS, WRITER.kept(), strict=True)}


def form(line: str) -> str:
    """A line without its numbers."""
    return re.sub(r"\d[\d,.]*(e-\d+)?", "#", line)


def test_the_page_shows_the_scripts_as_they_are() -> None:
    assert WRITER.TARGET.read_text(encoding="utf-8") == WRITER.page(WRITER.kept()), "python docs/write_examples.py"
    assert {words[0] for words in WRITER.RUNS} == {path.name for path in EXAMPLES.glob("*.py")}


def run(script: str, *words: str, place: Path) -> list[str]:
    """The lines that a script prints."""
    return run_script(
        EXAMPLES / script, words, place, {**os.environ, "PARTLABEL_CACHE": str(place / "cache")}
    ).splitlines()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    assert run("make_scenes.py", "my_images", "60", place=folder) == [
        "my_images: 60 images in photos/, 6 in new/, labels.csv"
    ]
    return folder


@pytest.mark.slow
def test_a_loop_of_ones_own(place: Path) -> None:
    lines = run("own_loop.py", "my_images", "2", place=place)
    assert [line.split(":")[0] for line in lines[:2]] == ["epoch 1", "epoch 2"]
    assert lines[-1].startswith("mAP ")
    assert [form(line) for line in lines[1:]] == [form(line) for line in SHOWN["own_loop.py"][-2:]]
    assert lines[-1].endswith("known labels of 12 images")


@pytest.mark.slow
def test_from_coco_to_onnx(place: Path) -> None:
    lines = run("coco_to_onnx.py", "my_images", *TINY, place=place)
    assert lines[0].startswith("LabelTable(60 images, 10 classes, ")
    assert "model.onnx: scores differ from PyTorch by at most" in lines[-2]
    assert [form(line) for line in lines[:-1]] == [form(line) for line in SHOWN["coco_to_onnx.py"][:-1]]
    assert lines[-1].startswith("0000.jpg: ")
    assert SHOWN["coco_to_onnx.py"][-1].startswith("0000.jpg: ")
    words = ("my_images/model.onnx", "my_images/new/0000.jpg")
    (line,) = run("onnx_without_partlabel.py", *words, place=place)
    assert line.startswith("my_images/new/0000.jpg: ")
    assert SHOWN["onnx_without_partlabel.py"][0].startswith("my_images/new/0000.jpg: ")


@pytest.mark.slow
def test_a_round_of_labelling(place: Path) -> None:
    lines = run("labelling_round.py", "my_images", "40", *TINY, place=place)
    assert lines[0].split(",")[0] in {f"{number} questions" for number in range(30, 41)}
    assert sum(line.startswith("Run my_images") for line in lines) == 2
    assert form(lines[0]) == form(SHOWN["labelling_round.py"][0])
    assert lines[-1] == SHOWN["labelling_round.py"][-1]
    assert (place / "my_images" / "report.html").is_file()
