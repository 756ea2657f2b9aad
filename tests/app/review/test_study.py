"""The count of answers in the study of the review queue."""

from __future__ import annotations

import numpy as np
from experiments.review_study import answers_needed
from hypothesis import given, settings
from hypothesis import strategies as st


def loop(right, target):
    """Answer one after the other; a wrong label leaves, a right one stays."""
    standing = list(right)
    for answered in range(len(right) + 1):
        if not standing or sum(standing) / len(standing) >= target:
            return answered
        if not right[answered]:
            standing.remove(False)
    return len(right)


def test_by_hand():
    assert answers_needed(np.array([False, True, True, False]), 0.75) == 4  # 2 of 4, 2 of 3, ..., 2 of 2
    assert answers_needed(np.array([False, False, True, True]), 0.75) == 2
    assert answers_needed(np.array([True, True]), 0.99) == 0


@settings(max_examples=50)
@given(st.lists(st.booleans(), min_size=1, max_size=30).filter(any), st.sampled_from([0.5, 0.8, 0.99]))
def test_is_the_loop(right, target):
    assert answers_needed(np.array(right), target) == loop(right, target)
