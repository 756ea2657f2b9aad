"""Damaged files in every format: an error that names the file, or a table that agrees with its report; nothing else."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import LabelTable, formats
from partlabel.app.cli import main
from partlabel.core.errors import UserError
from tests.formats.cases import CASES

HUGGINGFACE = Path(__file__).with_name("huggingface_files")
#: seconds after which a reading counts as hanging, on a machine that does much else
PATIENCE = 300

#: name -> format, folder with valid files, file (or folder) to read in it, options; ``{}`` stands for the folder
VALID: dict[str, tuple[str, Path, str, dict[str, str]]] = {
    "wide": ("csv", CASES / "CSV-04", "wide.csv", {"coding": "native"}),
    "utf-16": ("csv", CASES / "CSV-01", "labels16.csv", {"coding": "native"}),
    "long": ("csv", CASES / "CSV-10", "long.csv", {"coding": "native"}),
    "tags": ("csv", CASES / "CSV-04", "tags.csv", {"tag_separator": "|", "not_listed": "absent"}),
    "list": (
        "csv",
        CASES / "CSV-11",
        "list.txt",
        {"layout": "list", "classes": "{}/names.txt", "coding": "zero-absent"},
    ),
    "list cells": ("csv", CASES / "LIST-01", "padchest.csv", {"nothing": "normal"}),
    "celeba": ("csv", CASES / "CELEBA-01", "list_attr_celeba.txt", {}),
    "numbers": (
        "csv",
        CASES / "PADDLE-01",
        "mmpretrain.txt",
        {"layout": "list", "entries": "numbers", "tag_separator": ",", "classes": "a,b,c,d"},
    ),
    "some rows": ("csv", CASES / "SPLIT-02", "fastai.csv", {"tag_separator": "space", "where": "is_valid=true"}),
    "packed": ("csv", CASES / "SPREAD-01", "table.csv.gz", {"image_column": "#2", "ignore": "#1"}),
    "wide parquet": ("csv", CASES / "SPREAD-01", "table.parquet", {"coding": "chexpert"}),
    "coco": ("coco", CASES / "COCO-01", "instances.json", {}),
    "coco ids": ("coco", CASES / "COCO-05", "ids.json", {"not_listed": "unknown"}),
    "cvat": ("cvat", CASES / "CVAT-01", "annotations.xml", {"not_listed": "absent"}),
    "voc": ("voc", CASES / "VOC-02", "Annotations", {}),
    "voc skip": ("voc", CASES / "VOC-05", "Annotations", {"bad_files": "skip"}),
    "voc lists": ("voc", CASES / "VOC-01", "Main", {"set": "train"}),
    "checkboxes": ("cvat", CASES / "ATTR-01", "cvat_attributes.xml", {"attributes": "classes"}),
    "lvis": ("coco", CASES / "LVIS-01", "lvis_v1_train.json", {}),
    "yolo": ("yolo", CASES / "YOLO-01", "yolo", {}),
    "labelme": ("labelme", CASES / "LABELME-01", "labelme", {}),
    "folders": ("folders", CASES / "FOL-01", "photos", {"not_listed": "absent"}),
    "chexpert": ("chexpert", CASES / "LBL-01", "train.csv", {}),
    "openimages": ("openimages", CASES / "OID-01", "machine.csv", {"machine_threshold": "0.5"}),
    "described": ("openimages", CASES / "OID-05", "human.csv", {"descriptions": "{}/class-descriptions.csv"}),
    "label studio": ("labelstudio", CASES / "LS-01", "min.json", {}),
    "label studio csv": ("labelstudio", CASES / "LS-01", "export.csv", {"not_listed": "absent"}),
    "fiftyone": ("fiftyone", CASES / "FO-01", "pos", {"negative": "{}/neg/labels.json"}),
    "sagemaker": ("manifest", CASES / "MANIFEST-01", "output.manifest", {"weak": "keep"}),
    "labelbox": ("manifest", CASES / "MANIFEST-01", "labelbox.ndjson", {"not_listed": "absent"}),
    "vertex": ("manifest", CASES / "MANIFEST-01", "vertex.jsonl", {}),
    "vertex csv": ("manifest", CASES / "MANIFEST-01", "vertex.csv", {"split": "training,validation"}),
    "parquet": ("huggingface", HUGGINGFACE, "list.parquet", {}),
    "disk": ("huggingface", HUGGINGFACE, "disk", {}),
}
#: the same, with the files made here
MADE = {
    "nuswide": (
        "nuswide",
        {"nus/TrainImagelist.txt": "a\\b.jpg\nc.jpg\n", "nus/Labels_sky_Train.txt": "1\n0\n"},
        "nus",
    ),
    "prodigy": (
        "manifest",
        {"answers/p.jsonl": '{"image": "a", "accept": ["cat"], "answer": "accept"}\n'},
        "answers/p.jsonl",
    ),
    "metadata": (
        "huggingface",
        {"photos/metadata.jsonl": '{"file_name": "é.jpg", "tags": ["cat", "dog"]}\n'},
        "photos",
    ),
}
#: writers whose files are damaged, and what they are read with
WRITTEN = {
    "csv": {"coding": "native"},
    "coco": {},
    "openimages": {"machine_threshold": "0.5"},
    "labelstudio": {"answers": "predictions"},
    "fiftyone": {"weak": "keep"},
}
NAMES = [*VALID, *MADE, *(f"written {name}" for name in WRITTEN)]


def table() -> LabelTable:
    """A table with persons' and a model's labels, awkward names, and an image without labels."""
    made = LabelTable.from_dense(["a.jpg", 'é,"b".jpg', "c"], ["cat", "traffic light"], [[1, -1], [0, 1], [0, 0]])
    return made.with_labels([1], [0], [1], origin="model", score=np.array([2.0]), round=1)


@contextmanager
def prepared(name: str) -> Generator[tuple[str, Path, Path, dict[str, str]]]:
    """Lay valid files into a fresh folder; give format, folder, what to read, and options."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "in"
        options: dict[str, str] = {}
        if name in VALID:
            format, origin, source, options = VALID[name]
            shutil.copytree(origin, root)
            (root / "expected.json").unlink(missing_ok=True)
        elif name in MADE:
            format, contents, source = MADE[name]
            for file, text in contents.items():
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text(text, encoding="utf-8")
        else:
            format, source = name.removeprefix("written "), "labels"
            root.mkdir()
            formats.write(format, table(), root / source)
            options = WRITTEN[format]
        yield format, root, root / source, {key: text.replace("{}", str(root)) for key, text in options.items()}


def victims(source: Path, options: dict[str, str]) -> list[Path]:
    """Return the files that a reading depends on."""
    own = [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]
    return sorted(own) + [Path(text) for text in options.values() if os.path.isfile(text)]


def recoded(content: bytes, draw: random.Random) -> bytes:
    text = content.decode("utf-8", "replace")
    return text.encode(draw.choice(["utf-16", "utf-16-le", "utf-8-sig", "latin-1", "cp1252", "utf-32"]), "replace")


def flipped(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(changed) + 1)
        changed[at : at + draw.randint(0, 3)] = draw.choice(
            [
                draw.randbytes(draw.randint(0, 3)),
                b"\x00",
                b"\xff",
                b'"',
                b"\n",
                b"[",
                b"}",
                b"<",
                b"-1",
                b"1e999",
                b"null",
            ]
        )
    return bytes(changed)


def relined(content: bytes, draw: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    kept = [line for line in lines if draw.random() < 0.7]
    return b"".join(draw.choice([kept, lines + lines, draw.sample(lines, len(lines))]))


def foreign(content: bytes, draw: random.Random) -> bytes:
    """Return the start of a file of another kind."""
    kinds = (
        b"",
        b"\n",
        b"PK\x03\x04",
        b"\x89PNG\r\n\x1a\n",
        b"PAR1",
        b"{}",
        b"[]",
        b"null",
        b"<a/>",
        b"<html>",
        b"a,b\n",
    )
    return draw.choice(kinds) + (content if draw.random() < 0.3 else b"")


DAMAGES = (lambda content, draw: content[: draw.randrange(len(content) + 1)], flipped, relined, recoded, foreign)


def damage(source: Path, options: dict[str, str], draw: random.Random) -> Path:
    """Damage one of the files, or put a folder in its place or a file in the place of its folder; return which."""
    file = draw.choice(victims(source, options))
    if draw.random() < 0.1:
        if draw.random() < 0.5 and source.is_dir():
            shutil.rmtree(source)
            source.write_bytes(b"a,b\n1,0\n" if draw.random() < 0.5 else b"")
            return source
        file.unlink()
        if draw.random() < 0.7:
            file.mkdir()
    else:
        file.write_bytes(draw.choice(DAMAGES)(file.read_bytes(), draw))
    return file


@contextmanager
def patient() -> Generator[None]:
    """Turn a hang into a failure."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"reading takes longer than {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


#: what only a library says
LIBRARY = re.compile(
    r"Expected [`']|Invalid enum|Expecting |at `\$|codec can't|JSON is malformed|tag mismatch|Errno|Error\b|pyarrow|"
    r"invalid literal|line contains NUL|Parquet magic|Exceeds the limit|not well-formed|XML declaration|could not find"
)


def check_reading(name: str, seed: int) -> bool:
    """Damage and read; return whether a table came out."""
    draw = random.Random(seed)
    with prepared(name) as (format, root, source, options):
        hurt = damage(source, options, draw)
        before = sorted(root.rglob("*"))
        try:
            with patient():
                labels, report = formats.read(format, source, **options)
        except UserError as error:
            said = str(error)
            assert hurt.name in said or str(source) in said, said
            assert sorted(root.rglob("*")) == before
            assert not LIBRARY.search(said), said
            return False
        present, absent = labels.image_counts()
        assert (report.images, report.classes) == (labels.num_images, list(labels.classes))
        assert (report.present, report.absent) == (present.sum(), absent.sum())
        assert report.text().startswith(str(source))
        again, _ = formats.read(format, source, **options)
        assert again.content_hash() == labels.content_hash()
        return True


@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_valid_before_they_are_damaged(name):
    with prepared(name) as (format, _, source, options):
        assert formats.read(format, source, **options)[0].num_known


def test_every_format_is_damaged():
    assert {VALID[n][0] for n in VALID} | {MADE[n][0] for n in MADE} == set(formats.FORMATS)


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=12)
def test_damaged_files_give_an_error_with_the_file_or_a_table(name, seed):
    check_reading(name, seed)


@pytest.mark.parametrize("name", NAMES)
def test_the_command_leaves_all_its_files_or_none(name, capsys):
    for seed in range(3):
        with prepared(name) as (format, root, source, options):
            damage(source, options, random.Random(seed))
            flags = [word for key, text in options.items() for word in (f"--{key.replace('_', '-')}", text)]
            code = main(["import", format, str(source), "-o", str(root.parent / "out.parquet"), *flags])
            left = {path.name for path in root.parent.iterdir()} - {"in"}
        said = capsys.readouterr().err
        assert "Traceback" not in said
        if code:
            assert (code, left) == (2, set())
            assert said.startswith("partlabel: ")
        else:
            assert left == {"out.parquet", "out.report.json", "out.report.txt"}


def test_json_lines_without_an_object_are_all_named(tmp_path):
    """pyarrow ends the process at such a line, so they are found before."""
    path = tmp_path / "metadata.jsonl"
    path.write_text('\ufeff{"file_name": "a", "tags": ["cat"]}\n\nnull\nnull{"file_name": "b"}\n{"a": \n', "utf-8")
    for content, lines in ((path.read_bytes(), (3, 4, 5)), (b"[" * 100_000, (1,))):
        path.write_bytes(content)
        with pytest.raises(UserError) as caught:
            formats.read("huggingface", path)
        assert [offender.split()[0] for offender in caught.value.offenders] == [f"{path}:{n}" for n in lines]
