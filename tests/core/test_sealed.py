"""Arrays come back as they were, or the file says that it is damaged."""

import numpy as np
import pytest

from partlabel.core.sealed import open_sealed, write_sealed

ARRAYS = [np.array([b"ab", b"c\0d"], "S4"), np.arange(60, dtype=np.float16).reshape(3, 4, 5), np.zeros((0, 7), np.int8)]


def test_arrays_come_back(tmp_path):
    write_sealed(tmp_path / "a", ARRAYS)
    for found, array in zip(open_sealed(tmp_path / "a"), ARRAYS, strict=True):
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)
    assert len(open_sealed(tmp_path / "a", check=False, count=1)) == 1
    assert np.array_equal(np.load(tmp_path / "a"), ARRAYS[0]), "the first array is a .npy file"


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path):
    write_sealed(tmp_path / "a", ARRAYS)
    whole = (tmp_path / "a").read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(whole) * 8, 300).tolist():
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        (tmp_path / "a").write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged"):
            open_sealed(tmp_path / "a")
    for length in (0, 3, 4, 5, 100, len(whole) - 1):
        (tmp_path / "a").write_bytes(whole[:length])
        if length == 4:
            continue  # nothing at all and its checksum, which is 0 or not
        with pytest.raises(ValueError, match="damaged"):
            open_sealed(tmp_path / "a")
