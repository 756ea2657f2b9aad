"""Records with checksums: what comes back is what was written, or it is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partlabel.core.errors import UserError
from partlabel.core.records import CHECKSUM, checksum_of_arrays, opened, read_array, read_record, sealed, write_array
from partlabel.core.records import write_record as write

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text().filter(lambda name: name != CHECKSUM), VALUES))
def test_a_record_comes_back(record):
    stored = json.loads(json.dumps(sealed(record)))
    assert opened(stored, "x") == record
    assert opened({key: value for key, value in stored.items() if key != CHECKSUM}, "x") == record  # an earlier version


def test_any_flipped_bit_is_noticed_or_changes_nothing(tmp_path):
    record = {"epoch": 3, "mean_ap": 0.1234, "classes": ["a", "é"], "none": None, "rounds": [{"round": 1}]}
    write(tmp_path / "r.json", record)
    whole, noticed = (tmp_path / "r.json").read_bytes(), 0
    for at in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[at // 8] ^= 1 << at % 8
        (tmp_path / "r.json").write_bytes(damaged)
        try:
            found = read_record(tmp_path / "r.json")
        except UserError as error:
            noticed += "r.json" in str(error)
        else:
            found = {key: value for key, value in found.items() if len(key) != len(CHECKSUM)}
            assert found == record
    assert noticed > 5 * len(whole)


ODD = ('{"a": 1', '{"a": NaN}', '{"a": 1e999}')


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' + "9" * 5_000 + "}", "[]", "", "\xff", *ODD])
def test_hostile_json_is_one_sentence(tmp_path, text):
    (tmp_path / "r.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"r\.json: is damaged"):
        read_record(tmp_path / "r.json")


def test_arrays(tmp_path):
    rng = np.random.default_rng(0)
    for array in (
        rng.normal(size=(5, 3)).astype(np.float16),
        np.zeros((0, 2), np.int64),
        np.array([b"a", b"bc"], "S32"),
    ):
        write_array(tmp_path / "a.npy", array)
        np.testing.assert_array_equal(read_array(tmp_path / "a.npy", array.shape, array.dtype), array)
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), array)  # for others it is a plain file
        whole = (tmp_path / "a.npy").read_bytes()
        assert read_array(tmp_path / "a.npy", (7, 7), array.dtype) is None
        for at in rng.integers(len(whole), size=100):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << int(rng.integers(8))
            (tmp_path / "a.npy").write_bytes(damaged)
            found = read_array(tmp_path / "a.npy", array.shape, array.dtype)
            assert found is None or np.array_equal(found, array)
        (tmp_path / "a.npy").write_bytes(whole[:-3])
        assert read_array(tmp_path / "a.npy", array.shape, array.dtype) is None


def test_a_checksum_tells_names_types_and_shapes_apart():
    a = np.arange(6, dtype=np.int32)
    sums = {
        checksum_of_arrays({"a": a}),
        checksum_of_arrays({"b": a}),
        checksum_of_arrays({"a": a.view(np.uint32)}),
        checksum_of_arrays({"a": a.reshape(2, 3)}),
        checksum_of_arrays({"a": a}, "more"),
    }
    assert len(sums) == 5
    assert checksum_of_arrays({"a": a, "b": a}) == checksum_of_arrays({"b": a, "a": a})
    assert checksum_of_arrays({"a": np.arange(12, dtype=np.int32)[::2] // 2}) == checksum_of_arrays({"a": a})
