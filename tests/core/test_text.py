"""Names that would act on a terminal or in a spreadsheet are only read there."""

from __future__ import annotations

import shlex

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partlabel.core.errors import UserError
from partlabel.core.text import CELL, as_cell, as_typed, from_cell, not_imported, shown, some


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ä b.jpg", "Ä b.jpg"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\u202egpj.exe", r"a\u202egpj.exe"),
        ("a\rb", r"a\rb"),
        ("a\nb\tc", "a\nb\tc"),
        ("a\udcff", r"a\xff"),
        ("\ud800", r"\ud800"),
        ("\x85\u2028", r"\x85\u2028"),
        ("猫 🐈 עברית", "猫 🐈 עברית"),
    ],
)
def test_by_hand(text, expected):
    assert shown(text) == expected


@given(st.text())
def test_whatever_is_shown_can_be_printed(text):
    line = shown(text, lines=False)
    assert line.encode() is not None
    assert len(line.splitlines()) <= 1
    assert shown(line) == line


def test_offenders_stay_on_their_line():
    assert str(UserError("2 names", ["a\nb", "c\x1b"])) == "2 names\n  a\\nb\n  c\\x1b"


@given(st.text(alphabet="'=+-@\t\r\n＝＋－＠ab1") | st.text())
def test_cells_give_their_text_back_and_never_begin_a_formula(text):
    cell = as_cell(text)
    assert from_cell(cell) == text
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))
    array = pa.array([cell, text], pa.string())
    assert pc.replace_substring_regex(array, CELL, r"\1").to_pylist() == [text, from_cell(text)]


def test_of_many_names_the_first_are_said():
    assert some([]) == ""
    assert some(["cat", "dog"]) == "cat, dog"
    assert some(["cat", "dog", "cow"], 2) == "cat, dog and 1 more"
    assert some(["x"] * 2000, 1) == "x and 1,999 more"


WORDS = st.lists(st.text(alphabet="ab \\\\\"'$%&|;,()<>^`@=/.-é猫") | st.text(st.characters(codec="utf-8")), min_size=1)


@given(WORDS)
def test_a_command_is_read_as_it_was_meant(words):
    assert shlex.split(as_typed(*words)) == words


def on_windows(*words: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.name", "nt")
        return as_typed(*words)


def read_on_windows(line: str) -> tuple[list[str], str]:
    """By the rules of Microsoft's C library: the words, and all that stood outside of quotes."""
    words, outside, word, quoted, at = [], "", None, False, 0
    while at < len(line):
        slashes = len(line[at:]) - len(line[at:].lstrip("\\"))
        at += slashes
        if slashes and line[at : at + 1] == '"':
            word = (word or "") + "\\" * (slashes // 2)
            if slashes % 2:
                word, at = f'{word}"', at + 1
        elif slashes:
            word = (word or "") + "\\" * slashes
            outside += "" if quoted else "\\" * slashes
        elif line[at] == '"':
            word, quoted, at = word or "", not quoted, at + 1
        elif line[at] == " " and not quoted:
            words, word, at = [*words, word] if word is not None else words, None, at + 1
        else:
            outside += "" if quoted else line[at]
            word, at = (word or "") + line[at], at + 1
    return ([*words, word] if word is not None else words), outside


@given(WORDS)
def test_a_command_is_read_so_on_windows_too(words):
    found, outside = read_on_windows(on_windows(*words))
    assert found == words
    assert not set(outside) & set(" ,;&|<>^()$`'@%")


def test_commands_by_hand():
    assert on_windows("a", "C:\\my pictures\\", "1=present,0=absent") == r'a "C:\my pictures\\" "1=present,0=absent"'
    assert not_imported("my labels.csv").endswith("partlabel import csv 'my labels.csv' -o 'my labels.parquet'")
