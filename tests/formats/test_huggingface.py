"""Hugging Face data sets: files that ``datasets`` 5.2 wrote, and what else such files may hold."""

from __future__ import annotations

import json
import shutil
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from partlabel import formats
from partlabel.core.errors import UserError
from partlabel.formats.huggingface.images import ImageFolder
from partlabel.formats.huggingface.values import are_values
from tests.formats.cases import rows
from tests.formats.huggingface_made import (
    FILES,
    NAMES,
    class_label,
    described,
    labels_of,
    picture,
    pictures,
    refuse,
    save,
    save_arrow,
)
from tests.formats.test_writing import tables

#: names that are given to images of another name
numbered = st.builds("a.row{}{}.png".format, st.integers(1, 8), st.sampled_from(["", "-2", "-3"]))
#: what list.parquet, disk and dict/train hold: two labels, an empty list, null, one label
LISTED = {"0.png": [1, 0, 1], "1.png": [0, 0, 0], "2.png": [0, 0, 0], "3.png": [0, 1, 0]}


def test_files_that_the_library_wrote():
    for path, options in (
        (FILES / "list.parquet", {}),
        (FILES / "disk", {}),
        (FILES / "disk" / "data-00000-of-00002.arrow", {}),
        (FILES / "dict", {"split": "train"}),
        (FILES / "dict", {"split": "test,train"}),
    ):
        table, report = formats.read("huggingface", path, **options)
        assert list(table.classes) == NAMES
        assert rows(table) == {name: LISTED[name] for name in table.images.to_pylist()}
        assert report.rows >= 2
    _, report = formats.read("huggingface", FILES / "list.parquet")
    assert report.without_annotations is not None
    assert report.without_annotations.examples == ["2.png"]


def test_null_stays_unknown_and_an_empty_list_does_not():
    labels = labels_of(FILES / "list.parquet", not_listed="absent")
    assert labels == {"0.png": [1, -1, 1], "1.png": [-1, -1, -1], "2.png": [0, 0, 0], "3.png": [-1, 1, -1]}


def test_splits_are_chosen():
    error = refuse(FILES / "dict")
    assert "split=NAME" in error.message
    assert error.offenders == ["train", "test"]
    assert refuse(FILES / "dict", split="val").offenders == error.offenders


def test_parquet_files_of_a_folder_go_by_split(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for name, number in (("train-00000-of-00002", 0), ("train-00001-of-00002-5fa3", 1), ("test-00000-of-00001", 2)):
        save(
            data / f"{name}.parquet", {"file_name": [f"{number}.png"], "labels": [[0]]}, {"labels": [class_label("a")]}
        )
    assert refuse(tmp_path).offenders == ["test", "train"]
    assert labels_of(tmp_path, split="train") == {"0.png": [1], "1.png": [1]}
    assert list(labels_of(tmp_path, split="train,test")) == ["0.png", "1.png", "2.png"]
    (data / "train-00000-of-00002.parquet").unlink()
    assert refuse(tmp_path, split="test").offenders == ["data/train: 1 of 2 files"]


def test_converted_folders_have_a_folder_for_each_split(tmp_path):
    for split in ("train", "test"):
        (tmp_path / "default" / split).mkdir(parents=True)
        save(tmp_path / "default" / split / "0000.parquet", {"file_name": [f"{split}.png"], "labels": [["a"]]})
    assert refuse(tmp_path).offenders == ["default/test", "default/train"]
    assert labels_of(tmp_path / "default", split="train") == {"train.png": [1]}


def test_single_labels_and_minus_one(tmp_path):
    columns = {"file_name": ["a", "b", "c"], "label": [1, -1, None]}
    path = save(tmp_path / "t.parquet", columns, {"label": class_label("cat", "dog")})
    table, report = formats.read("huggingface", path, not_listed="absent")
    assert rows(table) == {"a": [-1, 1], "b": [0, 0], "c": [0, 0]}
    assert report.dropped["entries -1, which are no label"].count == 1
    assert report.without_annotations is not None
    assert report.without_annotations.count == 2


def test_positive_and_negative_columns(tmp_path):
    features = {
        name: {"feature": class_label(*NAMES), "_type": "Sequence"} for name in ("positive_labels", "negative_labels")
    }
    columns = {"file_name": ["a", "b"], "positive_labels": [[0, 0], []], "negative_labels": [[1], [0, 2]]}
    path = save(tmp_path / "t.parquet", columns, features)
    table, report = formats.read("huggingface", path)
    assert rows(table) == {"a": [1, -1, 0], "b": [-1, 0, -1]}
    assert report.repeats == 1
    assert labels_of(path, negative_column="positive_labels") == {"a": [-1, 0, 0], "b": [0, 0, 0]}
    columns["negative_labels"] = [[0], []]
    path = save(tmp_path / "t.parquet", columns, features)
    assert refuse(path).offenders == [
        f"a, cat: {path}: row 1, positive_labels present / {path}: row 1, positive_labels present / "
        f"{path}: row 1, negative_labels absent"
    ]


def test_labels_of_objects_in_both_nestings(tmp_path):
    table, _ = formats.read("huggingface", FILES / "objects.parquet", image_column="image_id", not_listed="absent")
    assert rows(table) == {"5": [1, 1, -1], "6": [-1, -1, -1]}
    objects = pa.array([[{"category": 0, "area": 1.5}, {"category": 2, "area": 2.0}], [], None])
    features = {"objects": [{"category": class_label(*NAMES), "area": {"dtype": "float64", "_type": "Value"}}]}
    table = described({"file_name": ["a", "b", "c"], "objects": objects}, features)
    pq.write_table(table, tmp_path / "t.parquet")
    for path in (tmp_path / "t.parquet", save_arrow(tmp_path / "t.arrow", table)):
        assert labels_of(path, not_listed="absent") == {"a": [1, -1, 1], "b": [-1, -1, -1], "c": [0, 0, 0]}
    assert "neither class numbers nor names" in refuse(path, column="objects.area").message


def test_names_as_text_and_numbers_without_names(tmp_path):
    path = save(tmp_path / "t.parquet", {"image_id": [7, 8], "tags": [["cat", " ", None], ["dog"]], "n": [[1], [0]]})
    assert labels_of(path) == {"7": [1, 0], "8": [0, 1]}
    assert labels_of(path, column="n", classes="x,y") == {"7": [0, 1], "8": [1, 0]}
    assert refuse(path, column="n").offenders == [
        f"{path}: row 2: class number 0 in n, the column has no class names (classes=NAMES)",
        f"{path}: row 1: class number 1 in n, the column has no class names (classes=NAMES)",
    ]


def test_wrong_class_numbers_name_their_rows(tmp_path):
    features = {"labels": {"feature": class_label("cat"), "_type": "List"}}
    path = save(tmp_path / "t.parquet", {"file_name": ["a", None, "c"], "labels": [[0, 3], [0], [-2]]}, features)
    assert refuse(path).offenders == [
        f"{path}: row 2: no image name in file_name",
        f"{path}: row 3: class number -2 in labels, 0 to 0 are known",
        f"{path}: row 1: class number 3 in labels, 0 to 0 are known",
    ]


def test_files_with_class_lists_of_their_own(tmp_path):
    for number, names in enumerate((("cat", "dog"), ("dog", "car"))):
        features = {"labels": {"feature": class_label(*names), "_type": "LargeList"}}
        columns = {"file_name": [f"{number}.png"], "labels": pa.array([[0, 1]], pa.large_list(pa.int64()))}
        save(tmp_path / f"train-{number:05}-of-00002.parquet", columns, features)
    table, _ = formats.read("huggingface", tmp_path)
    assert (table.classes, rows(table)) == (("cat", "dog", "car"), {"0.png": [1, 1, 0], "1.png": [0, 1, 1]})
    save(tmp_path / "train-00001-of-00002.parquet", {"file_name": ["1.png"], "other": [1]})
    assert "no column labels" in refuse(tmp_path).message


def test_columns_to_choose_from_are_listed(tmp_path):
    columns = {"x": ["a"], "coarse": [0], "fine": [0], "image": pictures((picture(), "a.png"))}
    features = {"coarse": class_label("p"), "fine": class_label("q")}
    path = save(tmp_path / "t.parquet", columns, features)
    assert refuse(path).offenders == ["coarse: int64", "fine: int64"]
    assert labels_of(path, column="fine") == {"a.png": [1]}
    assert refuse(path, column="nine").offenders == ["x: string", "coarse: int64", "fine: int64", "image: image"]
    assert "image_column=NAME" in refuse(save(tmp_path / "u.parquet", {"x": ["a"], "labels": ["b"]})).message


def test_an_image_folder(tmp_path):
    (tmp_path / "metadata.jsonl").write_text(
        '{"file_name": "2020-01-01", "labels": ["cat", "dog"]}\n{"file_name": "b.png", "labels": []}\n'
    )
    (tmp_path / "b.png").touch()
    for path in (tmp_path, tmp_path / "metadata.jsonl"):
        assert labels_of(path) == {"2020-01-01": [1, 1], "b.png": [0, 0]}
    assert labels_of(tmp_path, images=tmp_path, missing="skip") == {"b.png": [0, 0]}
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "a", "labels": ["cat"]}\n{"file_name": "b", "labels": 3}\n')
    assert "in row 1" in refuse(tmp_path).message
    (tmp_path / "metadata.jsonl").unlink()
    (tmp_path / "metadata.csv").touch()
    assert "format csv" in refuse(tmp_path).message
    assert "format csv" in refuse(tmp_path / "metadata.csv").message


def test_pictures_without_name_and_with_one_name(tmp_path):
    features = {"label": class_label(*NAMES)}
    columns = {"image": pictures((picture(), None), (picture(), "b.png")), "label": [0, 1]}
    assert "extract=FOLDER" in refuse(save(tmp_path / "t.parquet", columns, features)).offenders[0]
    columns["image"] = pictures((picture(1), "a.png"), (picture(2), "a.png"))
    table, report = formats.read("huggingface", save(tmp_path / "t.parquet", columns, features))
    assert rows(table) == {"a.png": [1, 1, 0]}
    assert "different images" in report.warnings[0]


def test_extract_writes_the_pictures_and_never_outside_the_folder(tmp_path):
    entries = [
        (picture(1), "../../evil.png"),
        (picture(2), "/etc/a.png"),
        (picture(3), "C:\\x\\a.png"),
        (picture(2), "b/a.png"),
        (picture(4, "JPEG"), None),
        (picture(5), ".."),
        (picture(6), "x" * 300 + ".png"),
        (b"no image", "\0/"),
    ]
    columns = {"image": pictures(*entries), "label": list(range(8))}
    path = save(tmp_path / "t.parquet", columns, {"label": class_label(*"ABCDEFGH")})
    arrow = save_arrow(tmp_path / "t.arrow", pq.read_table(path))
    wanted = ["evil.png", "a.png", "a.row3.png", "row5.jpg", "row6.png", "x" * 196 + ".png", "row8"]
    for number, source in enumerate((path, arrow)):
        folder = tmp_path / f"out{number}"
        table, _ = formats.read("huggingface", source, extract=folder)
        assert table.images.to_pylist() == wanted
        assert sorted(entry.name for entry in folder.iterdir()) == sorted(wanted)
        assert (folder / "a.row3.png").read_bytes() == entries[2][0]
        assert table.dense()[1].tolist() == [0, 1, 0, 1, 0, 0, 0, 0]
    assert {entry.name for entry in tmp_path.iterdir()} == {"t.parquet", "t.arrow", "out0", "out1"}
    assert "not both" in refuse(path, extract=tmp_path / "out2", images=tmp_path).message
    assert "not empty" in refuse(path, extract=tmp_path / "out0").message
    assert "does not exist" in refuse(path, extract=tmp_path / "none" / "out").message


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["a.png", "A.png", "é.png", "e\u0301.png"]) | numbered), max_size=8
    )
)
def test_images_whose_names_are_those_of_others_keep_their_own_content(entries):
    with tempfile.TemporaryDirectory() as place:
        with ImageFolder(f"{place}/out") as folder:
            images = pictures(*((picture(seed), name) for seed, name in entries))
            names = folder.save(images, pa.array([name for _, name in entries], pa.string()), 0, str)
        for (seed, _), name in zip(entries, names, strict=True):
            assert (Path(place) / "out" / name).read_bytes() == picture(seed)
        written = [unicodedata.normalize("NFC", path.name).casefold() for path in (Path(place) / "out").iterdir()]
        assert len(set(written)) == len(written)


def test_a_failed_import_leaves_no_pictures(tmp_path):
    columns = {"image": pictures((picture(), "a.png"), (None, "b.png")), "label": [0, 9]}
    path = save(tmp_path / "t.parquet", columns, {"label": class_label("cat")})
    assert refuse(path, extract=tmp_path / "out").offenders == [f"{path}: row 2"]
    columns["image"] = pictures((picture(), "a.png"), (picture(), "b.png"))
    assert (
        "class number 9"
        in refuse(save(path, columns, {"label": class_label("cat")}), extract=tmp_path / "o").offenders[0]
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.parquet"]
    save(path, {"file_name": ["a"], "label": [0]}, {"label": class_label("cat")})
    assert "no column with image names" in refuse(path, extract=tmp_path / "out").message


def test_the_bytes_of_pictures_are_not_read(tmp_path):
    """The pages of the image bytes are overwritten; the labels and names are read all the same."""
    content = b"\xa5" * 5000
    path = tmp_path / "t.parquet"
    table = described({"image": pictures((content, "a.png")), "label": [0]}, {"label": class_label("cat")})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)
    file = pq.ParquetFile(path)
    place = file.metadata.row_group(0).column(0)
    raw = bytearray(path.read_bytes())
    raw[place.data_page_offset : place.data_page_offset + place.total_compressed_size] = bytes(
        place.total_compressed_size
    )
    path.write_bytes(raw)
    assert labels_of(path) == {"a.png": [1]}
    assert str(path) in refuse(path, extract=tmp_path / "out").message


def test_saved_folders_that_are_not_whole(tmp_path):
    folder = Path(shutil.copytree(FILES / "disk", tmp_path / "disk"))
    part = folder / "data-00001-of-00002.arrow"
    content = part.read_bytes()
    part.write_bytes(content[:-8])
    assert "the file is cut" in refuse(folder).message
    part.unlink()
    assert refuse(folder).offenders == [str(part)]
    for name in ("../t.arrow", "/etc/passwd", "..", ""):
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
        error = refuse(folder)
        assert "outside its folder" in error.message
        assert error.offenders == [name]
    (folder / "state.json").write_text("{}")
    assert "not a state.json" in refuse(folder).message


def test_files_that_are_something_else(tmp_path):
    for name, content in (
        ("a.parquet", b""),
        ("b.parquet", b"PAR1"),
        ("c.txt", b"hello"),
        ("d.jsonl", b"{"),
        ("e.arrow", b"\xff" * 9),
    ):
        (tmp_path / name).write_bytes(content)
        error = refuse(tmp_path / name)
        assert str(tmp_path / name) in error.message
    assert "cannot be read" in refuse(tmp_path / "none.parquet").message
    (tmp_path / "empty").mkdir()
    assert "no Parquet" in refuse(tmp_path / "empty").message
    table = pa.table({"file_name": ["a"], "label": [0]})
    for metadata in (b"{", b'{"info": {"features": {"label": {"_type": "ClassLabel", "names": [1]}}}}'):
        pq.write_table(table.replace_schema_metadata({"huggingface": metadata}), tmp_path / "m.parquet")
        assert str(tmp_path / "m.parquet") in refuse(tmp_path / "m.parquet").message


@st.composite
def layouts(draw, table):
    """Write a table as some data set: lists of some kind, numbers or names, some file, small batches."""
    labels = {1: [], -1: []}
    for line in table.dense().tolist():
        for value, column in labels.items():
            own = [c for c, label in enumerate(line) if label == value]
            own += own[:1] if draw(st.booleans()) else []
            column.append(draw(st.permutations(own)) or draw(st.sampled_from([None, []])))
    numbers = draw(st.booleans())
    item = draw(st.sampled_from([pa.int64(), pa.int16()] if numbers else [pa.string(), pa.large_string()]))
    kind = draw(st.sampled_from([pa.list_, pa.large_list]))(item)
    columns = {"file_name": pa.array(table.images.to_pylist(), draw(st.sampled_from([pa.string(), pa.large_string()])))}
    features = {}
    for name, value in (("positive_labels", 1), ("negative_labels", -1)):
        entries = [own and [c if numbers else table.classes[c] for c in own] for own in labels[value]]
        columns[name] = pa.array(entries, kind)
        wrap = draw(st.sampled_from([lambda inner: [inner], lambda inner: {"feature": inner, "_type": "Sequence"}]))
        features[name] = wrap(class_label(*table.classes))
    result = described(columns, features if numbers else None)
    skip = draw(st.integers(0, 2))  # slices, so that offsets do not start at 0
    padded = pa.concat_tables([result.slice(0, min(skip, len(result))), result]).slice(min(skip, len(result)))
    return padded, draw(st.sampled_from(["parquet", "arrow", "file"])), draw(st.integers(1, 3))


@given(tables(), st.data())
@settings(max_examples=25, deadline=None)
def test_round_trip_with_quirks(table, data):
    assume(not are_values(table.classes))  # a class list of "0" and "1" is one of values, which are refused
    content, kind, size = data.draw(layouts(table))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        if kind == "parquet":
            pq.write_table(content, path, row_group_size=size)
        elif kind == "arrow":
            save_arrow(path, content, size)
        else:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, content.schema) as writer:
                writer.write_table(content, max_chunksize=size)
        again, _ = formats.read("huggingface", path, classes=list(table.classes))
    assert rows(again) == rows(table)


@given(st.sampled_from(["list.parquet", "objects.parquet", "disk/data-00000-of-00002.arrow"]), st.data())
@settings(max_examples=40, deadline=None)
def test_damaged_files_give_an_error_or_a_table(name, data):
    content = bytearray((FILES / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(content) - 1, 0)))
        content[at : at + data.draw(st.sampled_from([0, 1, 4, 500]))] = data.draw(st.binary(max_size=4))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        path.write_bytes(content)
        images, problem = 0, ""
        try:
            images = formats.read("huggingface", path)[0].num_images
        except UserError as error:
            problem = error.message
        assert str(path) in problem or (images <= 4 and not problem)


def test_many_rows_in_several_batches(tmp_path):
    size = 20_001
    values = np.random.default_rng(0).integers(0, 3, (size, 2))
    columns = {"file_name": [f"{i}.png" for i in range(size)], "labels": values.tolist()}
    path = save(tmp_path / "t.parquet", columns, {"labels": [class_label(*NAMES)]})
    table, report = formats.read("huggingface", path)
    expected = np.zeros((size, 3), np.int8)
    expected[np.repeat(np.arange(size), 2), values.ravel()] = 1
    np.testing.assert_array_equal(table.dense(), expected)
    assert report.rows == size


def test_answers_of_prodigy_are_not_read_as_a_data_set(tmp_path):
    path = tmp_path / "metadata.jsonl"
    path.write_text('{"image": "a", "accept": ["cat"], "answer": "reject"}\n')
    assert "format manifest" in refuse(path, column="accept").message
