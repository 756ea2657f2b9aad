"""Labels put aside to judge a model on: which ones may be, how many, and that the rest stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import LabelTable
from partlabel.core.errors import UserError
from partlabel.labels.holdout import hold_out, random_sample
from partlabel.labels.table import ORIGINS

AT_RANDOM = ("given", "sampled")


def drawn(seed: int) -> LabelTable:
    """A table of labels of all five origins."""
    rng = np.random.default_rng(seed)
    image, cls = np.divmod(np.flatnonzero(rng.random(60 * 4) < 0.7), 4)
    origin = rng.integers(0, len(ORIGINS), len(cls))
    names = ([f"{i}.jpg" for i in range(60)], [f"c{c}" for c in range(4)])
    return LabelTable.from_pairs(*names, image, cls, rng.choice([-1, 1], len(cls)), origin=origin)


def of_origins(table: LabelTable) -> set[str]:
    return {ORIGINS[code] for code in table.origin}


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.25, 0.5, 0.9]))
def test_only_a_random_sample_is_put_aside_and_as_much_of_each_class(seed: int, share: float) -> None:
    table = drawn(seed)
    rest, held = hold_out(table, share, seed)
    assert of_origins(held) <= set(AT_RANDOM)
    sample = random_sample(table)
    assert of_origins(sample) <= set(AT_RANDOM)
    wanted = np.floor(share * np.bincount(sample.indices, minlength=4) + 0.5)
    np.testing.assert_array_equal(np.bincount(held.indices, minlength=4), wanted)
    np.testing.assert_array_equal(rest.dense() + held.dense(), table.dense())
    assert not (rest.dense() * held.dense()).any()
    again = hold_out(table, share, seed)
    assert [part.content_hash() for part in again] == [rest.content_hash(), held.content_hash()]


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_out_of_range_and_too_few_labels(share: float) -> None:
    with pytest.raises(UserError, match="the share of labels to hold out lies between 0 and 1"):
        hold_out(drawn(0), share, 0)
    one = LabelTable.from_dense(["a.jpg"], ["cat"], [[1]])
    with pytest.raises(UserError, match=r"no class has enough labels to hold out a share of 0\.1"):
        hold_out(one, 0.1, 0)
