from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from partlabel.method.curriculum import all_at_once, score_threshold
from partlabel.method.rounds import Round, summarise

NAMES = ["cat", "dog", "cow"]


def labels_of(rows: list[list[int]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.int8)


def added(present: list[int], absent: list[int], images: int = 100) -> Round:
    return Round(images, torch.zeros(len(present), dtype=torch.int64), torch.tensor(present), torch.tensor(absent))


def test_counts_by_hand() -> None:
    before = labels_of([[0, 1, 0], [0, 0, -1], [0, 0, 0], [1, 0, 0]])
    after = labels_of([[1, 1, 0], [-1, 0, -1], [-1, 1, 0], [1, 1, 0]])
    found = summarise(before, after)
    assert found.images == 4
    assert found.known.tolist() == [1, 1, 1]
    assert found.present.tolist() == [1, 2, 0]
    assert found.absent.tolist() == [2, 0, 0]
    assert found.known_share.tolist() == [1, 0.75, 0.25]
    assert found.label_proportion == pytest.approx(8 / 12)
    assert found.labelled_share == pytest.approx(5 / 9)
    assert found.warnings(NAMES) == ["Only present labels were added to dog (2)."]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 4))
def test_batches_add_up(seed: int, batch: int, classes: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    before = torch.randint(-1, 2, (11, classes), generator=generator, dtype=torch.int8)
    after = score_threshold(torch.randn(11, classes, generator=generator), before, 0.5)
    parts = [summarise(*pair) for pair in zip(before.split(batch), after.split(batch), strict=True)]
    total, whole = sum(parts, start=Round.empty(classes)), summarise(before, after)
    assert total.images == whole.images
    for name in ("known", "present", "absent"):
        assert torch.equal(getattr(total, name), getattr(whole, name))
        assert getattr(total, name).dtype == torch.int64


def test_nothing_selected_is_said() -> None:
    labels = torch.zeros(4, 3, dtype=torch.int8)
    scores = torch.full((4, 3), 0.5)
    found = summarise(labels, score_threshold(scores, labels, 1))
    assert found.labelled_share == 0
    assert found.warnings(NAMES) == ["No label was added: no unknown label was easy."]
    full = summarise(labels + 1, labels + 1)
    assert (full.labelled_share, full.label_proportion) == (0, 1)
    assert full.warnings(NAMES) == ["No label was unknown."]


def test_everything_selected_is_said() -> None:
    labels = torch.zeros(2, 3, dtype=torch.int8)
    found = summarise(labels, all_at_once(torch.tensor([[1.0, -1, 1], [-1, 1, -1]]), labels))
    assert found.warnings(NAMES) == ["100.0% of the unknown labels were filled in at once (limit 95%)."]
    assert found.warnings(NAMES, limit=1) == []


def test_the_limit_is_one_of_the_unknown_labels() -> None:
    """8 of 10 known, one more added: half of the unknown, 90 % of all."""
    found = Round(10, torch.tensor([8]), torch.tensor([1]), torch.tensor([0]))
    assert found.warnings(["cat"], limit=0.5) == ["All 1 added labels are present."]
    assert found.warnings(["cat"], limit=0.49)[0] == "50.0% of the unknown labels were filled in at once (limit 49%)."


def test_one_sign_only_is_said() -> None:
    assert added([3, 0, 0], [0, 0, 0]).warnings(NAMES) == ["All 3 added labels are present."]
    assert added([0, 0, 0], [3, 1, 0]).warnings(NAMES) == ["All 4 added labels are absent."]
    assert added([3, 2, 5], [0, 4, 0]).warnings(NAMES) == ["Only present labels were added to cat (3), cow (5)."]
    assert added([3, 2, 0], [3, 2, 5]).warnings(NAMES) == ["Only absent labels were added to cow (5)."]
    assert added([1, 0, 2], [0, 1, 2]).warnings(NAMES) == []  # one label has one sign


def test_many_classes_of_one_sign_are_counted() -> None:
    found = added([0] * 25 + [2], [2] * 25 + [2]).warnings([f"class {c}" for c in range(26)])
    assert len(found) == 1
    assert found[0].endswith("class 19 (2), and 5 more.")


def test_a_known_label_that_changes_is_an_error() -> None:
    before, after = labels_of([[1, 0], [-1, 0]]), labels_of([[-1, 1], [0, 0]])
    with pytest.raises(ValueError, match=r"row 0 class 0: 1 became -1; row 1 class 0: -1 became 0$"):
        summarise(before, after)


def test_wrong_input_is_refused() -> None:
    one = torch.zeros(1, 2, dtype=torch.int8)
    with pytest.raises(ValueError, match=r"\(1, 2\) and \(2, 2\)"):
        summarise(one, one.repeat(2, 1))
    with pytest.raises(ValueError, match=r"row 0 class 0: 5$"):
        summarise(one, labels_of([[5, 0]]))
    with pytest.raises(ValueError, match="int8"):
        summarise(one.float(), one)
    with pytest.raises(ValueError, match="2 class names for 3 classes"):
        added([1, 1, 1], [0, 0, 0]).warnings(NAMES[:2])


def test_no_image_gives_no_share() -> None:
    found = Round.empty(2)
    assert math.isnan(found.label_proportion)
    assert found.labelled_share == 0
    assert found.warnings(["cat", "dog"]) == ["No label was unknown."]
