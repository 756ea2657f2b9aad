"""Pascal VOC, drawn at random and damaged at random."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import formats
from partlabel.core.errors import UserError
from tests.formats.cases import rows
from tests.formats.voc_made import thing

NAME = (
    st.text("abcXYZ 09-.&<é", min_size=1, max_size=6).map(str.strip).filter(lambda name: name.strip(".") == name != "")
)


@st.composite
def described(draw):
    classes = draw(st.lists(NAME, min_size=1, max_size=4, unique=True))
    images = draw(st.integers(1, 5))
    cells = st.sampled_from([-1, 0, 1])
    return classes, [[draw(cells) for _ in classes] for _ in range(images)]


@given(described(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_round_trip_of_xml(content, random):
    """Random labels, written with random tags left out, repeated and in random order, come back."""
    from xml.sax.saxutils import escape

    classes, labels = content
    with tempfile.TemporaryDirectory() as folder:
        for number, line in enumerate(labels):
            objects = []
            for name, value in zip(classes, line, strict=True):
                marks = {
                    1: ["", "<difficult/>", "<difficult>0</difficult>", "<difficult> 0\n</difficult>"],
                    0: ["<difficult>1</difficult>"],
                }
                for _ in range(random.randint(1, 3) if value >= 0 else 0):
                    parts = [
                        f"<name>{random.choice(['', chr(10)])}{escape(name)} </name>",
                        random.choice(marks[value]),
                        "<pose>x</pose>",
                    ]
                    random.shuffle(parts)
                    objects.append(f"<object>{''.join(parts)}</object>")
                if value > 0 and random.random() < 0.5:
                    objects.append(f"<object><name>{escape(name)}</name><difficult>1</difficult></object>")
            random.shuffle(objects)
            root = random.choice(["annotation", "Annotation"])
            end = random.choice(["", "\n", "\r\n"])
            text = f"<{root}>{end.join(objects)}{end}<filename>{number}.jpg</filename></{root}>"
            Path(folder, f"{number}.xml").write_bytes(text.encode("utf-16" if random.random() < 0.2 else "utf-8"))
        table, _ = formats.read("voc", folder, classes=classes, not_listed="absent")
    assert list(table.classes) == classes
    assert table.images.to_pylist() == [f"{n}.jpg" for n in range(len(labels))]
    np.testing.assert_array_equal(table.dense(), labels)


@given(described(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_round_trip_of_lists(content, random):
    classes, labels = content
    with tempfile.TemporaryDirectory() as folder:
        for column, name in enumerate(classes):
            order = list(range(len(labels)))
            random.shuffle(order)
            end = random.choice(["\n", "\r\n"])
            lines = [
                f"im {n}{random.choice([' ', '  ', chr(9)])}{labels[n][column]}{random.choice(['', ' '])}"
                for n in order
            ]
            text = random.choice(["", "\ufeff"]) + end.join(lines) + random.choice(["", end, end * 2])
            Path(folder, f"{name.replace('/', '')}_train.txt").write_bytes(text.encode())
        Path(folder, "train.txt").write_text("".join(f"im {n}\n" for n in range(len(labels))), encoding="utf-8")
        table, _ = formats.read("voc", folder, classes=classes, set="train")
    assert table.images.to_pylist() == [f"im {n}" for n in range(len(labels))]
    np.testing.assert_array_equal(table.dense(), labels)


def outcome(folder):
    """Return the table and no message, or no table and the message of the error."""
    try:
        return formats.read("voc", folder)[0], ""
    except UserError as error:
        return None, str(error)


GOOD = f"""<?xml version="1.0"?>
<annotation>
 <filename>a.jpg</filename>
 {thing("cat", 0)}
</annotation>
"""


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_file_gives_an_error_with_its_name_or_a_right_table(data):
    content = bytearray(GOOD.encode())
    kind = data.draw(st.sampled_from(["cut", "bytes", "binary"]))
    if kind == "cut":
        content = content[: data.draw(st.integers(0, len(content)))]
    elif kind == "bytes":
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    else:
        content = bytearray(data.draw(st.binary(max_size=80)))
    for name in ("a.xml", "cat_train.txt"):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, name).write_bytes(content)
            table, message = outcome(folder)
        if table is None:
            assert name in message or "not one object" in message
            assert kind != "cut" or name != "a.xml" or len(content) < len(GOOD.rstrip())
        else:
            assert table.num_images >= 1
            assert kind != "cut" or rows(table) == {"a.jpg": [1]}
