"""Codings: declared in every way, implied only where nothing else is possible."""

from __future__ import annotations

from itertools import combinations

import pytest

from partlabel.core.errors import UserError
from partlabel.formats import coding


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("1", "1"), ("1.0", "1"), ("+1", "1"), ("01", "1"), (" 1. ", "1"), ("-1.00", "-1"), ("-0", "0"), ("0.0", "0"),
        ("10", "10"), ("0.5", "0.5"), ("1e0", "1e0"), ("TRUE", "true"), (" Yes ", "yes"), ("", ""), ("  ", ""),
        ("x1", "x1"), ("--1", "--1"), ("1,0", "1,0"), ("١", "١"),
    ],
)  # fmt: skip
def test_canonical(value, form):
    assert coding.canonical(value) == form


def test_named_codings_say_what_they_mean():
    words = {name: entry.words() for name, entry in coding.NAMED.items()}
    assert words == {
        "native": "1 = present; -1 = absent; 0, blank = unknown",
        "zero-absent": "1 = present; 0 = absent; blank = unknown",
        "zero-unknown": "1 = present; 0, blank = unknown",
        "chexpert": "1 = present; 0 = absent; -1 = uncertain; blank = unknown",
        "words": "true, yes, 1 = present; false, no, 0 = absent; blank = unknown",
    }


@pytest.mark.parametrize(
    "spec",
    [
        "1=present,0=absent,-1=uncertain,blank=unknown",
        " 1 = Present , 0=ABSENT,-1=uncertain",
        {"1": "present", "0": "absent", "-1": "uncertain"},
        {1: 1, 0: -1, -1: "uncertain", "": 0},
    ],
)
def test_declared(spec):
    parsed = coding.parse(spec)
    assert [parsed.code(cell) for cell in ("1.0", "0", "-1", " ", "2", "yes")] == [1, -1, 0, 2, 3, 3]


def test_unknown_values_are_not_stated_and_uncertain_ones_are():
    assert coding.parse("0=unknown").code("0") == coding.SILENT
    assert coding.parse({"0": 0}).code("0") == coding.SILENT
    assert coding.parse("0=uncertain").code("0") == coding.UNCERTAIN
    assert coding.parse("1=present,blank=absent").code("") == coding.ABSENT


def test_mistakes_in_a_coding_are_all_listed():
    with pytest.raises(UserError, match="cannot be read") as caught:
        coding.parse("1=present,1.0=absent,0=maybe,x")
    assert [line.split(":")[0] for line in caught.value.offenders] == ["1.0=absent", "0=maybe", "x"]
    with pytest.raises(UserError, match="'nativ' is not known") as caught:
        coding.parse("nativ")
    assert "coding=native: 1 = present; -1 = absent; 0, blank = unknown" in caught.value.offenders


def test_only_values_with_one_reading_imply_a_coding():
    values = ["1", "-1", "0", "", "true"]
    implied = {
        frozenset(seen) for n in range(6) for seen in combinations(values, n) if coding.implied(seen) is not None
    }
    plain = [(), ("",), ("1",), ("1", ""), ("1", "-1"), ("1", "-1", ""), ("1", "-1", "0")]
    assert implied == set(map(frozenset, plain))
    assert coding.implied(["1", "-1", "0"]) is coding.NAMED["native"]
