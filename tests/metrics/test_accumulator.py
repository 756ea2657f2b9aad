"""The accumulator: batches, processes, repeated images and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from partlabel.core.errors import UserError
from partlabel.metrics import Accumulator, Metrics, evaluate
from tests.metrics.gloo import SAMPLINGS, worker
from tests.metrics.test_evaluate import partial, read_case
from tests.processes import run_ranks


@pytest.mark.slow
def test_several_processes_give_the_numbers_of_one(tmp_path: Path) -> None:
    _, scores, labels, expected = read_case("MET-08")
    problems = {"case": (scores, labels), "large": partial(5, 41, 6)}
    run_ranks(3, worker, str(tmp_path), problems)
    for rank, worlds in enumerate([(2, 3), (2, 3), (3,)]):
        results = json.loads((tmp_path / f"{rank}.json").read_text(encoding="utf-8"))
        assert len(results) == len(worlds) * len(SAMPLINGS) * len(problems)
        for key, found in results.items():
            world, sampling, name = key.split()
            repeats = -len(problems[name][1]) % int(world) if sampling == "padded" else 0
            assert found["images"].pop("repeated_rows_dropped") == repeats
            alone = evaluate(*problems[name]).to_dict()
            alone["images"].pop("repeated_rows_dropped")
            assert found == alone  # to the last digit
            if name == "case":
                assert found["images"]["evaluated"] == expected["images"]
                assert found["metrics"]["mean_ap"] == pytest.approx(expected["AP"], abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans())
def test_any_split_gives_the_same_digits(seed: int, parts: int, numbered: bool) -> None:
    rng = np.random.default_rng(seed)
    scores, labels = partial(seed, n=17, c=3)
    scores += rng.normal(size=scores.shape).astype(np.float32)
    order = rng.permutation(17)
    accumulators = [Accumulator(3) for _ in range(parts)]
    for batch in np.array_split(order, rng.integers(1, 18)):
        rows = batch if numbered else None
        accumulators[rng.integers(parts)].update(scores[batch], labels[batch], rows)
    rng.shuffle(accumulators)
    merged = accumulators[0]
    for other in accumulators[1:]:
        merged.merge(other)
    assert merged.num_rows == 17
    assert merged.compute([0.1, -0.2, 0]).to_dict() == evaluate(scores, labels, [0.1, -0.2, 0]).to_dict()


def repeated(rows: list[int]) -> Metrics:
    scores, labels = partial(4, n=6)
    labels[2] = 0
    accumulator = Accumulator(5)
    accumulator.update(scores[rows[:3]], labels[rows[:3]], np.array(rows[:3]) + 100)
    accumulator.update(scores[rows[3:]], labels[rows[3:]], np.array(rows[3:]) + 100)
    return accumulator.compute()


def test_repeated_images_count_once() -> None:
    once, twice = repeated([0, 1, 2, 3, 4, 5]), repeated([5, 0, 1, 0, 2, 3, 4, 2, 5, 5])
    assert (twice.images, twice.duplicates) == (6, 4)
    expected = once.to_dict()
    expected["images"]["repeated_rows_dropped"] = 4
    assert twice.to_dict() == expected


def test_a_repeated_image_counts_as_first_seen() -> None:
    accumulator = Accumulator(1)
    accumulator.update([[2.0], [1.0]], np.array([[1], [-1]], np.int8), [7, 8])
    accumulator.update([[0.5]], np.array([[1]], np.int8), [7])
    assert accumulator.compute().mean_ap == 1.0


def test_equal_row_numbers_of_different_images() -> None:
    accumulator = Accumulator(2)
    labels = np.array([[1, 0], [-1, 1], [0, 0], [1, -1]], dtype=np.int8)
    accumulator.update(np.zeros((4, 2)), labels, [0, 1, 2, 3])
    # other sign; one label less; the same labels; other signs
    accumulator.update(np.ones((4, 2)), np.array([[-1, 0], [-1, 0], [0, 0], [-1, 1]], np.int8), [0, 1, 2, 3])
    with pytest.raises(UserError, match="different labels") as caught:
        accumulator.compute()
    assert caught.value.offenders == ["image row 0", "image row 1", "image row 3"]


def test_row_numbers_in_all_updates_or_in_none() -> None:
    scores, labels = partial(0)
    numbered, plain = Accumulator(5), Accumulator(5)
    numbered.update(scores, labels, np.arange(60))
    plain.update(scores, labels)
    with pytest.raises(UserError, match="in every update"):
        numbered.update(scores, labels)
    with pytest.raises(UserError, match="in every update"):
        plain.update(scores, labels, np.arange(60))
    with pytest.raises(UserError, match="cannot be merged"):
        plain.merge(numbered)
    with pytest.raises(UserError, match="`rows` must be 60 integers"):
        numbered.update(scores, labels, np.arange(59))
    with pytest.raises(UserError, match="`rows` must be 60 integers"):
        numbered.update(scores, labels, np.linspace(0, 1, 60))


def test_other_classes_cannot_be_merged() -> None:
    with pytest.raises(UserError, match="different classes"):
        Accumulator(2, ["cat", "dog"]).merge(Accumulator(2, ["dog", "cat"]))


def test_a_refused_batch_leaves_nothing() -> None:
    scores, labels = partial(0)
    accumulator = Accumulator(5)
    accumulator.update(scores, labels)
    before = accumulator.compute().to_dict()
    bad = scores.copy()
    bad[labels != 0] = np.nan
    with pytest.raises(UserError) as caught:
        accumulator.update(bad, labels)
    assert caught.value.offenders[0].startswith("image row 60,")  # rows are counted over all batches
    assert accumulator.compute().to_dict() == before


def test_scores_are_copied() -> None:
    scores, labels = partial(0)
    accumulator = Accumulator(5)
    accumulator.update(scores, labels)
    before = accumulator.compute().to_dict()
    scores += 1
    labels[:] = 1
    assert accumulator.compute().to_dict() == before


MEMORY = """
import sys
from pathlib import Path
import numpy as np
from partlabel.metrics import Accumulator

def batches():
    rng = np.random.default_rng(0)
    for start in range(0, 50_000, 250):
        draw, scores = rng.random((2, 250, 2000), dtype=np.float32)
        yield scores, ((draw < 0.003).astype(np.int8) * 2 - 1) * (draw < 0.01)

peak = lambda: int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024  # not of the parent
scores, labels = next(batches())
small = Accumulator(2000)
small.update(scores, labels)
small.compute()
baseline, accumulator = peak(), Accumulator(2000)
for scores, labels in batches():
    accumulator.update(scores, labels)
metrics = accumulator.compute()
used = peak() - baseline
columns = np.arange(0, 2000, 40)
scores, labels = (
    np.concatenate([batch[i][:, columns] for batch in batches()]) for i in (0, 1)
)
pairs, ap = metrics.present.sum() + metrics.absent.sum(), metrics.average_precision
np.savez(sys.argv[1], used=used, pairs=pairs, columns=columns, ap=ap, scores=scores, labels=labels)
"""


@pytest.mark.linux
@pytest.mark.slow
def test_memory_of_fifty_thousand_images_of_two_thousand_classes(tmp_path: Path) -> None:
    """MET-10: a million known pairs in less than 100 MB, with the average precision of the dense computation."""
    subprocess.run([sys.executable, "-c", MEMORY, str(tmp_path / "result.npz")], check=True)
    result = np.load(tmp_path / "result.npz")
    assert 990_000 < result["pairs"] < 1_010_000
    assert result["used"] < 100  # MB over the baseline; measured: about 40
    scores, labels = result["scores"], result["labels"]
    for i, c in enumerate(result["columns"]):
        known = labels[:, i] != 0
        dense = average_precision_score(labels[known, i] == 1, scores[known, i])
        assert result["ap"][c] == pytest.approx(dense, abs=1e-12)
