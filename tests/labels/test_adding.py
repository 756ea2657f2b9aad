"""Labels added to a table hold what a dictionary of pairs holds."""

from itertools import pairwise

import numpy as np
import pytest

from partlabel import LabelTable
from partlabel.core.errors import UserError
from partlabel.labels import holdout, merge
from partlabel.labels.holdout import shared_pairs
from partlabel.labels.table import ORIGINS

FIELDS = ("values", "origin", "score", "round")


def held(table):
    """(image, class) -> value, origin, score and round."""
    missing = {"score": np.full(table.num_known, np.nan), "round": np.full(table.num_known, -1)}
    columns = [missing[name] if getattr(table, name) is None else getattr(table, name) for name in FIELDS]
    rows = zip(*(column.tolist() for column in (table.pair_images(), table.indices, *columns)), strict=True)
    return {(image, cls): (value, ORIGINS[code], str(score), round_) for image, cls, value, code, score, round_ in rows}


@pytest.mark.parametrize("seed", range(12))
def test_as_in_a_dictionary(monkeypatch, seed):
    monkeypatch.setattr(merge, "_AT_ONCE", 5)  # a few known labels are looked through at a time
    random = np.random.default_rng(seed)
    images, classes = random.integers(1, 20, 2)
    labels = random.choice(np.array([-1, 0, 0, 1], np.int8), (images, classes)) * np.int8(seed > 0)
    table = LabelTable.from_dense([f"{i}" for i in range(images)], [f"c{c}" for c in range(classes)], labels)
    for number in range(6):
        wanted, origin = held(table), str(random.choice(["model", "review", "asked", "sampled"]))
        may = {pair for pair, (_, known, *_) in wanted.items() if origin == "review" and known in ("model", "review")}
        pairs = [divmod(int(at), classes) for at in random.permutation(images * classes)[: random.integers(0, 15)]]
        pairs = [pair for pair in pairs if pair not in wanted or pair in may]
        image, cls = (
            (np.array(column, int) for column in zip(*pairs, strict=True)) if pairs else (np.zeros(0, int),) * 2
        )
        value, score = random.choice([-1, 1], len(pairs)), random.normal(size=len(pairs)).astype(np.float32)
        place = {"score": score, "round": number} if origin == "model" else {}
        table = table.with_labels(image, cls, value, origin=origin, **place)
        for at, pair in enumerate(pairs):
            own = (str(float(score[at])), number) if place else ("nan", -1)
            wanted[pair] = (value[at], origin, *own)
        assert held(table) == wanted
        assert all((np.diff(table.indices[low:high]) > 0).all() for low, high in pairwise(table.indptr))
        if wanted:
            given = next(iter(wanted))
            with pytest.raises(UserError, match=r"1 labels are already known"):
                table.with_labels([given[0]], [given[1]], [1], origin="asked")


@pytest.mark.parametrize("seed", range(8))
def test_shared_pairs_are_those_of_both_by_name(monkeypatch, seed):
    monkeypatch.setattr(holdout, "_AT_ONCE", 3)
    random = np.random.default_rng(seed)

    def drawn():
        images, classes = random.permutation(9)[: random.integers(1, 9)], random.permutation(6)[: random.integers(1, 6)]
        labels = random.choice(np.array([-1, 0, 0, 1], np.int8), (len(images), len(classes)))
        return LabelTable.from_dense([f"{i}.jpg" for i in images], [f"c{c}" for c in classes], labels)

    def names(table):
        return [
            (table.images[int(i)].as_py(), table.classes[c])
            for i, c in zip(table.pair_images(), table.indices, strict=True)
        ]

    first, second = drawn(), drawn()
    there = set(names(first))
    assert shared_pairs(first, second).tolist() == [pair in there for pair in names(second)]
