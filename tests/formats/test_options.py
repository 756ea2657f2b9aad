"""Options as Python values and as the text of a command line."""

from __future__ import annotations

import pytest

from partlabel import formats
from partlabel.core.errors import UserError
from partlabel.formats import options


def test_every_option_has_a_help_text():
    for entry in formats.FORMATS.values():
        for field in options.option_fields(entry.options):
            assert field.metadata["help"]
            assert callable(field.metadata["parse"])


def test_unknown_names_are_listed_with_what_there_is(tmp_path):
    with pytest.raises(UserError, match=r"csv has no such option; it has: layout, coding") as caught:
        formats.read("csv", tmp_path / "x", codng="native", foo=1)
    assert caught.value.offenders == ["codng (did you mean coding?)", "foo"]
    with pytest.raises(UserError, match="'voc7' is not known; there are: csv, coco"):
        formats.read("voc7", tmp_path / "x")
    with pytest.raises(UserError, match="layout is one of auto, wide"):
        formats.read("csv", tmp_path / "x", layout="broad")


def test_separator():
    given = [";", "tab", "\\t", "\t", "space", "pipe", "comma", "semicolon"]
    assert [options.separator("separator", value) for value in given] == list(";\t\t\t |,;")
    for value in ("", ",,", 5):
        with pytest.raises(UserError, match="one character"):
            options.separator("separator", value)


def test_names_from_text_a_list_and_a_file(tmp_path):
    file = tmp_path / "names.txt"
    file.write_text("\ufeffSauce, hot\n\n dog \r\n", encoding="utf-8")
    assert options.names("classes", file) == options.names("classes", str(file)) == ["Sauce, hot", "dog"]
    assert options.names("classes", " a, b,") == options.names("classes", ("a", "b")) == ["a", "b"]
    with pytest.raises(UserError, match="list of names"):
        options.names("classes", ["a", 1])
    file.write_text("a\nb\na\n")
    with pytest.raises(UserError, match="repeated") as caught:
        options.names("classes", file)
    assert caught.value.offenders == [f"{file}:3 a (first on line 1)"]


def test_rename(tmp_path):
    file = tmp_path / "rename.csv"
    file.write_text('from,to\nperson,Person\n"Sauce, hot",sauce\n')
    assert options.rename("rename", file) == {"person": "Person", "Sauce, hot": "sauce"}
    assert (
        options.rename("rename", "a=b, c = d") == options.rename("rename", {"a": "b", "c": "d"}) == {"a": "b", "c": "d"}
    )
    with pytest.raises(UserError, match="not a file"):
        options.rename("rename", "rename.csv")
    file.write_text("person,Person\n")
    with pytest.raises(UserError, match="header line from,to"):
        options.rename("rename", file)
    file.write_text("from,to\na,b\na,c\nx\n")
    with pytest.raises(UserError, match="mistakes") as caught:
        options.rename("rename", file)
    assert caught.value.offenders == [f"{file}:3 a: renamed to b and to c", f"{file}:4 x: two names are needed"]


def test_a_list_file_that_is_not_there_is_no_class_name(tmp_path):
    for value in (str(tmp_path / "names.txt"), tmp_path / "names.CSV"):
        with pytest.raises(UserError, match="there is no file"):
            options.names("classes", value)
    assert options.names("classes", "a.txt,b") == ["a.txt", "b"]
