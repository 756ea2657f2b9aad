"""Every writer: what is written and read back is equal, or lacks exactly what the format cannot hold."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import is_normalized

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from partlabel import LabelTable, formats
from partlabel.labels.pairs import MODEL, ORIGINS

AWKWARD = (
    "Sauce, hot",
    '5"',
    "it's",
    "two words",
    "a;b|c",
    "ñandú",
    "日本",
    "😀",
    "=1+1",
    "'=1+1",
    "''@x",
    "-abc.jpg",
    "'plain",
    "0001",
    "1e10",
    "NaN",
    "null",
    "-1",
    "true",
    "a/b.jpg",
    "50%",
    "a&b?c#d",
    "<b>",
    "[x]",
    "{}",
    "image",
    "group",
    "#1",
    "label",
    "value",
    "choices",
)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
#: readers trim names, and a byte-order mark at the start of a line is none of its text
NAME = st.one_of(st.sampled_from(AWKWARD), TEXT.map(lambda text: text.strip().lstrip("\ufeff").strip()).filter(bool))
CLASS = NAME.filter(partial(is_normalized, "NFC"))
WORDS = {1: "present", -1: "absent"}


@st.composite
def tables(draw: Callable[..., Any]) -> LabelTable:
    """Tables with everything a table can hold; some images and classes have no known label."""
    images = draw(st.lists(NAME, min_size=1, max_size=5, unique=True))
    classes = draw(st.lists(CLASS, min_size=1, max_size=4, unique=True))
    ids = draw(
        st.none()
        | st.permutations(["7", "3", "90", "12"])
        | st.lists(CLASS, min_size=len(classes), max_size=len(classes), unique=True)
    )
    labels = draw(arrays(np.int8, (len(images), len(classes)), elements=st.sampled_from([-1, 0, 1])))
    image, cls = np.nonzero(labels)
    origin = draw(arrays(np.uint8, len(image), elements=st.integers(0, len(ORIGINS) - 1) | st.just(0)))
    score = draw(arrays(np.float32, len(image), elements=st.floats(-8, 8, width=32) | st.just(np.float32(np.nan))))
    machine = origin == MODEL
    return LabelTable.from_pairs(
        images,
        classes,
        image,
        cls,
        labels[image, cls],
        origin=origin,
        score=np.where(machine, score, np.float32(np.nan)) if machine.any() else None,
        round=np.where(machine, draw(st.integers(0, 3)), -1) if machine.any() else None,
        class_ids=None if ids is None else ids[: len(classes)],
        groups=draw(st.none() | st.lists(st.none() | NAME, min_size=len(images), max_size=len(images))),
    )


Pair = tuple[str, ...]


def pairs(table: LabelTable, *details: str) -> dict[tuple[str, str], Pair]:
    """Return (image, class) -> label, and of the details that are asked for: origin, score (6 digits), round."""
    held = {
        "origin": [ORIGINS[code] for code in table.origin.tolist()],
        "score": ["nan"] * table.num_known if table.score is None else [f"{s:.6g}" for s in table.score.tolist()],
        "round": ["-1"] * table.num_known if table.round is None else [str(r) for r in table.round.tolist()],
    }
    names = table.images.to_pylist()
    keys = [(names[i], table.classes[c]) for i, c in zip(table.pair_images().tolist(), table.indices, strict=True)]
    words = [WORDS[value] for value in table.values.tolist()]
    return {key: (word, *more) for key, word, *more in zip(keys, words, *(held[d] for d in details), strict=True)}


@dataclass(frozen=True)
class Kept:
    """What a table holds, as far as a format keeps it."""

    images: list[str]
    classes: list[str]
    pairs: dict[tuple[str, str], Pair]
    class_ids: list[str] | None = None
    groups: list[str | None] | None = None


def groups(table: LabelTable) -> list[str | None] | None:
    """Return the group names; a table whose images all stand alone may also have none."""
    names = None if table.groups is None else table.groups.to_pylist()
    return names if names and any(names) else None


def through(name: str, table: LabelTable, **options: object) -> LabelTable:
    with tempfile.TemporaryDirectory() as folder:
        formats.write(name, table, Path(folder) / "labels")
        return formats.read(name, Path(folder) / "labels", **options)[0]


def csv(table: LabelTable) -> tuple[Kept, Kept]:
    """Origins, scores, rounds and class ids are lost."""
    again = through(
        "csv",
        table,
        coding="native",
        separator=",",
        layout="wide",
        image_column="#1",
        group=None if table.groups is None else f"#{table.num_classes + 2}",
    )
    wanted, found = (Kept(t.images.to_pylist(), list(t.classes), pairs(t), None, groups(t)) for t in (table, again))
    return wanted, found


def coco(table: LabelTable) -> tuple[Kept, Kept]:
    """Origins, scores, rounds, groups and class ids that are no numbers are lost; those become 1 .. C."""
    again = through("coco", table)
    ids = table.class_ids or ("",)
    numbers = all(i.isascii() and i.isdigit() for i in ids) and len(set(map(int, ids))) == len(ids)
    kept = [str(int(i)) for i in ids] if numbers else [str(n + 1) for n in range(table.num_classes)]
    return (
        Kept(table.images.to_pylist(), list(table.classes), pairs(table), kept),
        Kept(again.images.to_pylist(), list(again.classes), pairs(again), list(again.class_ids or ())),
    )


def openimages(table: LabelTable) -> tuple[Kept, Kept]:
    """Images without labels, groups and rounds are lost; persons' become given; a model's probability counts."""
    ids = list(table.class_ids or table.classes)
    described = dict(zip(ids, table.classes, strict=True))
    again = through("openimages", table, descriptions=described, machine_threshold=0.5)
    kept: dict[tuple[str, str], Pair] = {}
    for key, (word, origin, score) in pairs(table, "origin", "score").items():
        if origin != "model":
            kept[key] = (word, "given")
        elif word == "present" if score == "nan" else round(1 / (1 + math.exp(-float(score))), 6) >= 0.5:
            kept[key] = ("present", "model")
    named = {image for image, _ in pairs(table)}
    images = [name for name in table.images.to_pylist() if name in named]
    return (
        Kept(images, list(table.classes), kept, ids),
        Kept(again.images.to_pylist(), list(again.classes), pairs(again, "origin"), list(again.class_ids or ())),
    )


def labelstudio(table: LabelTable) -> tuple[Kept, Kept]:
    """Origins, scores, rounds, class ids and groups are lost; image names are paths with slashes."""
    paths = [name.replace("\\", "/").lstrip("/") for name in table.images.to_pylist()]
    assume(all(paths) and len(set(paths)) == len(paths))
    again = through("labelstudio", table, answers="predictions", classes=list(table.classes))
    path_of = dict(zip(table.images.to_pylist(), paths, strict=True))
    kept = {(path_of[image], cls): word for (image, cls), word in pairs(table).items()}
    return Kept(paths, list(table.classes), kept), Kept(again.images.to_pylist(), list(again.classes), pairs(again))


def fiftyone(table: LabelTable) -> tuple[Kept, Kept]:
    """Class ids and groups are lost."""
    again = through("fiftyone", table, weak="keep")
    details = ("origin", "score", "round")
    wanted, found = (Kept(t.images.to_pylist(), list(t.classes), pairs(t, *details)) for t in (table, again))
    return wanted, found


FORMATS = {"csv": csv, "coco": coco, "openimages": openimages, "labelstudio": labelstudio, "fiftyone": fiftyone}


def test_every_writer_is_here():
    assert set(FORMATS) == {name for name, entry in formats.FORMATS.items() if entry.write}


@pytest.mark.parametrize("name", FORMATS)
@given(table=tables())
@settings(max_examples=30)
def test_what_is_written_is_read_back(name, table):
    wanted, found = FORMATS[name](table)
    assert found == wanted
