"""What every reader shares: options, class names, repeats, contradictions, models beside people, missing files."""

from __future__ import annotations

import numpy as np
import pytest

from partlabel.core.errors import UserError
from partlabel.formats import options as read_as
from partlabel.formats.report import ImportReport
from partlabel.formats.source import Source, unique
from partlabel.formats.spine import CommonOptions, finish, option, without
from partlabel.labels.pairs import MODEL, ORIGINS, REVIEW
from tests.formats.cases import rows


def source(statements, images=("a", "b"), classes=("cat", "dog"), **more):
    """Statements are (image, class, value) as numbers; statement i stands on line i + 1."""
    image, cls, value = (np.array([s[k] for s in statements], int) for k in range(3))
    return Source(
        unique(list(images))[0],
        list(classes),
        image,
        cls,
        value,
        lambda rows: [f"f:{row + 1}" for row in rows],
        **more,
    )


def read(said, not_listed=None, **options):
    report = ImportReport("f", "test")
    return finish(said, CommonOptions(**options), report, not_listed=not_listed), report


def test_unique_names_keep_their_order():
    names, number = unique(["b", "a", "b"])
    assert (names.to_pylist(), number.tolist()) == (["b", "a"], [0, 1, 0])


def test_statements_become_a_table():
    table, report = read(source([(1, 0, 1), (0, 1, -1), (1, 1, 0), (1, 0, 1)]))
    assert rows(table) == {"a": [0, -1], "b": [1, 0]}
    assert (report.repeats, report.present, report.absent) == (1, 1, 1)


def test_uncertain_pairs_stay_unknown_where_the_rest_is_absent():
    table, _ = read(source([(0, 0, 1), (1, 1, 0)]), not_listed="absent")
    assert rows(table) == {"a": [1, -1], "b": [-1, 0]}
    assert table.history[0]["not_listed"] == "absent"


def test_images_that_nobody_labelled_stay_unknown():
    table, report = read(source([(0, 0, 1)], unlabelled=np.array([False, True])), not_listed="absent")
    assert rows(table) == {"a": [1, -1], "b": [0, 0]}
    assert (report.without_annotations.count, report.without_annotations.examples) == (1, ["b"])


def test_contradictions_are_listed_with_their_places():
    said = [(0, 0, 1), (0, 0, -1), (1, 1, -1), (1, 1, 1), (1, 1, 1)]
    with pytest.raises(UserError, match="f: 2 labels stated both present and absent") as caught:
        read(source(said))
    assert caught.value.offenders == [
        "a, cat: f:1 present / f:2 absent",
        "b, dog: f:3 absent / f:4 present / f:5 present",
    ]
    for policy, expected in (
        ("unknown", {"a": [0, 0], "b": [0, 0]}),
        ("present", {"a": [1, 0], "b": [0, 1]}),
        ("absent", {"a": [-1, 0], "b": [0, -1]}),
        ("majority", {"a": [0, 0], "b": [0, 1]}),
    ):
        table, report = read(source(said), conflicts=policy)
        assert rows(table) == expected
        assert len(report.conflicts) == 2


def test_a_model_yields_to_people_and_its_surest_word_counts():
    said = source(
        [(0, 0, 1), (0, 0, -1), (0, 1, 1), (0, 1, 1), (1, 1, -1)],
        origin=[MODEL, REVIEW, MODEL, MODEL, MODEL],
        score=[3.0, np.nan, 1.0, 2.0, -4.0],
        round=[0, -1, 0, 1, 2],
    )
    table, report = read(said)
    assert rows(table) == {"a": [-1, 1], "b": [0, -1]}
    assert [ORIGINS[o] for o in table.origin] == ["review", "model", "model"]
    assert table.score.tolist()[1:] == [2.0, -4.0]
    assert table.round.tolist() == [-1, 1, 2]
    assert report.dropped["machine labels of pairs that a person judged"].examples == ["a, cat"]
    assert report.repeats == 1


def test_a_model_that_contradicts_itself_is_settled_as_people_are():
    said = source([(0, 0, 1), (0, 0, -1)], origin=[MODEL, MODEL], score=[3.0, -5.0])
    with pytest.raises(UserError, match="both present and absent"):
        read(said)
    table, _ = read(said, conflicts="present")
    assert rows(table)["a"] == [1, 0]
    assert table.score.tolist() == [3.0]


def test_statements_that_yield():
    table, _ = read(source([(0, 0, 0), (0, 0, 1), (1, 0, -1)], yields=[True, False, True]))
    assert rows(table) == {"a": [1, 0], "b": [-1, 0]}


def test_classes_are_renamed_chosen_and_put_together_with_the_first_id():
    said = source([(0, 0, 1), (0, 1, 1), (1, 2, -1)], classes=["Cat", "dog", " kitten "], ids=["7", "8", "9"])
    table, report = read(said, classes=["cat"], rename={"Cat": "cat", "kitten": "cat"})
    assert (table.classes, table.class_ids) == (("cat",), ("7",))
    assert rows(table) == {"a": [1], "b": [-1]}
    assert report.dropped["labels of 1 classes that are not in the class list"].count == 1
    assert any("put together by renaming" in note for note in report.notes)


def test_images_without_a_file(tmp_path):
    (tmp_path / "b.png").write_bytes(b"")
    said = [(0, 0, 1), (1, 1, -1)]
    with pytest.raises(UserError, match=r"1 of 2 images missing in .*missing=skip") as caught:
        read(source(said), images=str(tmp_path))
    assert caught.value.offenders == ["a"]
    table, report = read(source(said, groups=unique(["p", "q"])[0]), images=str(tmp_path), missing="skip")
    assert rows(table) == {"b": [0, -1]}
    assert table.groups.to_pylist() == ["q"]
    assert report.missing == ["a"]


def test_own_options_come_first_and_meaningless_ones_are_not_there():
    from dataclasses import dataclass

    @dataclass(frozen=True, kw_only=True)
    class Options(CommonOptions):
        colour: str = option("red", read_as.text, "a colour")
        images: str | None = without()

    names = [field.name for field in read_as.option_fields(Options)]
    assert names == ["colour", "not_listed", "conflicts", "classes", "rename", "image_names", "missing"]
    with pytest.raises(UserError, match="no such option"):
        read_as.build(Options, "test", {"images": "x"})
    assert read_as.build(Options, "test", {"colour": "blue", "rename": "a=b"}).given() == {
        "colour": "blue",
        "rename": {"a": "b"},
    }


def test_names_of_one_file_are_one_image(tmp_path):
    (tmp_path / "yard").mkdir()
    for name in ("a.png", "b.PNG", "yard/cafe\u0301.jpg"):
        (tmp_path / name).write_bytes(name.encode())
    names = ["a", "./a.png", "A.PNG", "b.png", "yard//caf\u00e9.jpg", "yard\\cafe\u0301.jpg"]
    said = [(n, 0, 1) for n in range(6)] + [(3, 1, -1)]
    table, report = read(source(said, images=names), images=str(tmp_path))
    assert rows(table) == {"a": [1, 0], "b.png": [1, -1], "yard//caf\u00e9.jpg": [1, 0]}
    assert report.repeats == 3
    assert "names of one file, put together under the first: ./a.png = a, A.PNG = a" in " ".join(report.notes)
    with pytest.raises(UserError, match="both present and absent") as caught:
        read(source([(0, 0, 1), (2, 0, -1)], images=names), images=str(tmp_path))
    assert caught.value.offenders == ["a, cat: f:1 present / f:2 absent"]
    table, _ = read(source([(0, 0, 1), (2, 0, -1)], images=names))
    assert table.num_images == 6


def test_groups_and_unlabelled_images_of_one_file(tmp_path):
    (tmp_path / "a.png").write_bytes(b"x")
    said = source([(0, 0, 1)], images=["a.png", "a"], groups=unique(["", "p"])[0], unlabelled=np.array([False, True]))
    table, _ = read(said, not_listed="absent", images=str(tmp_path))
    assert (rows(table), table.groups.to_pylist()) == ({"a.png": [1, -1]}, ["p"])


def test_images_with_the_same_bytes_are_a_group_with_a_warning(tmp_path):
    for name, content in (("a.png", b"x"), ("b.png", b"x"), ("c.png", b"y"), ("d.png", b""), ("e.png", b"")):
        (tmp_path / name).write_bytes(content)
    said = source([(0, 0, 1), (1, 0, -1), (1, 1, 1), (2, 0, -1)], images=["a.png", "b", "c.png", "d.png", "e.png"])
    table, report = read(said, images=str(tmp_path))
    assert table.num_images == 5
    assert table.groups.to_pylist() == ["copies of a.png", "copies of a.png", None, None, None]
    assert report.warnings[:3] == [
        "empty files: d.png, e.png",
        "images with the same bytes under several names, kept together in a split: b = a.png",
        "labels of images with the same bytes contradict each other: cat present in a.png and absent in b",
    ]


def test_names_that_lead_out_of_the_folder(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for file in (tmp_path / "out.png", folder / "a.png"):
        file.write_bytes(b"x")
    names = [
        "../out.png",
        "..\\out.png",
        str(tmp_path / "out.png"),
        "a/../../out.png",
        "x/../a.png",
        str(folder / "a.png"),
    ]
    said = [(n, 0, 1) for n in range(6)]
    with pytest.raises(UserError, match=r"4 of 6 images missing in .*; 4 names lead out of the folder") as caught:
        read(source(said, images=names), images=str(folder))
    assert caught.value.offenders == names[:4]
    table, report = read(source(said, images=names), images=str(folder), missing="skip")
    assert rows(table) == {"x/../a.png": [1, 0]}
    assert report.missing == names[:4]


def test_image_names_by_rule(tmp_path):
    names = ["https://h/yard/a.jpg", "https://h/yard/b.jpg", "c.jpg"]
    said = [(0, 0, 1), (1, 1, 1), (2, 0, -1)]
    table, _ = read(source(said, images=names), image_names="file")
    assert table.images.to_pylist() == ["a.jpg", "b.jpg", "c.jpg"]
    for start in ("https://h/", "https://h"):
        table, report = read(source(said, images=names), image_names=start)
        assert table.images.to_pylist() == ["yard/a.jpg", "yard/b.jpg", "c.jpg"]
        assert f"image names that do not begin with {start}: c.jpg" in report.notes
    table, _ = read(source([(0, 0, 1)], images=["C:\\data\\yard\\a.jpg"]), image_names="C:/data")
    assert table.images.to_pylist() == ["yard\\a.jpg"]
    with pytest.raises(UserError, match="no image name begins with 'fiel'"):
        read(source(said, images=names), image_names="fiel")
    with pytest.raises(UserError, match="image_names=file gives one name to different images") as caught:
        read(source([(0, 0, 1)], images=["x/a.jpg", "y\\a.jpg"]), image_names="file")
    assert caught.value.offenders == ["a.jpg: x/a.jpg and y\\a.jpg"]


def test_the_message_says_what_would_have_fitted(tmp_path):
    (tmp_path / "yard").mkdir()
    (tmp_path / "yard" / "a.jpg").write_bytes(b"x")
    for name, start in (("https://h/x/yard/a.jpg", "https://h/x/"), ("D:\\x\\yard\\a.jpg", "D:\\x\\")):
        said = source([(0, 0, 1)], images=[name])
        with pytest.raises(UserError) as caught:
            read(said, images=str(tmp_path))
        assert f"yard/a.jpg is there: image_names={start} takes the beginning away" in caught.value.message
        table, _ = read(said, images=str(tmp_path), image_names=start)
        assert table.num_images == 1


def test_files_in_folders_below(tmp_path):
    for name in ("images_001/images/1.png", "images_002/images/2.png", "x/3.png", "y/3.jpg", ".hidden/4.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    table, report = read(source([(0, 0, 1), (1, 1, 1)], images=["1.png", "2"]), images=str(tmp_path))
    assert table.images.to_pylist() == ["1.png", "2"]
    assert "2 image names have no folder; one file below fits each" in report.notes
    with pytest.raises(UserError, match="fit more than one file") as caught:
        read(source([(0, 0, 1)], images=["3"]), images=str(tmp_path))
    assert caught.value.offenders == ["3: x/3.png, y/3.jpg"]
    with pytest.raises(UserError, match="1 of 1 images missing"):
        read(source([(0, 0, 1)], images=["4.png"]), images=str(tmp_path))
