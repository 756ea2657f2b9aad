"""What is counted over many classes is what one finds by holding and sorting all their scores."""

import json
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from partlabel import LabelTable
from partlabel.models import score_files
from partlabel.models.scores import Scores, read_scores
from partlabel.tasks import unknown as unknown_module
from partlabel.tasks.completion import complete
from partlabel.tasks.next_labels import Mix, choose
from partlabel.tasks.unknown import Known, Pool, Unknown
from tests.models.test_scores import written


def drawn(seed, images=400, classes=90):
    random = np.random.default_rng(seed)
    true = np.where(random.random((images, classes)) < random.uniform(0.1, 0.6, classes), 1, -1)
    scores = (2 * true + random.normal(0, 1.5, true.shape)).astype(np.float32)
    scores = np.round(scores * 4) / 4 if seed % 2 else scores
    labels = np.where(random.random(true.shape) < random.uniform(0, 0.5, classes), true, 0).astype(np.int8)
    names = [f"{i}.jpg" for i in range(images)]
    return LabelTable.from_dense(names, [f"c{i}" for i in range(classes)], labels), scores


@pytest.mark.parametrize("seed", range(6))
def test_a_pool_is_all_its_scores_sorted(seed):
    random = np.random.default_rng(seed)
    table, scores = drawn(seed)
    leave = random.random(400) < 0.2 if seed % 3 else None
    classes = np.sort(random.permutation(90)[:70])
    sign = 1 if seed % 2 else -1
    held = scores[random.integers(0, 400, 60), random.integers(0, 90, 60)]
    unknown = Unknown(table, Scores.of(scores), leave)
    pool = Pool(unknown, classes, sign, held)
    for c, _, values in unknown.classes():
        pool.look(c, values)
    open_ = table.dense() == 0
    if leave is not None:
        open_[leave] = False
    inside = np.zeros_like(open_)
    inside[:, classes] = True
    every = scores[open_ & inside]
    ranked = np.sort((sign * every)[sign * every > 0])[::-1]
    assert (pool.total, pool.positive) == (len(every), len(ranked))
    count = np.unique(np.append(random.integers(1, len(ranked) + 1, 50), [1, len(ranked)]))
    found, reached = pool.highest(count)
    np.testing.assert_array_equal(found, ranked[count - 1])
    np.testing.assert_array_equal(reached, [(ranked >= value).sum() for value in found])
    expected = stats.ks_2samp(held, every, method="asymp")
    assert pool.compare()[:2] == pytest.approx((expected.statistic, expected.pvalue), rel=1e-9)
    np.testing.assert_array_equal(unknown.count, open_.sum(0))


def test_known_labels_lie_by_class():
    table, scores = drawn(1, images=30, classes=5)
    known = Known.of(table, Scores.of(scores))
    for c in range(5):
        rows = np.flatnonzero(table.dense()[:, c])
        own = known.of_class(c)
        np.testing.assert_array_equal(known.image[own], rows)
        np.testing.assert_array_equal(known.score[own], scores[rows, c])
        np.testing.assert_array_equal(known.label[own], table.dense()[rows, c])


@pytest.mark.parametrize("seed", range(2))
def test_files_and_an_array_complete_and_ask_alike(seed, tmp_path, monkeypatch):
    table, scores = drawn(seed)
    monkeypatch.setattr(score_files, "GROUP", 37 * 90)
    order = np.random.default_rng(seed).permutation(400)
    files = written(tmp_path, scores[order], [150, 250])
    stored = read_scores(files, np.argsort(order))
    made, report = complete(table, scores, table, scores, precision=0.9)
    again, second = complete(table, stored, table, stored, precision=0.9)
    assert report["absent"]["filled"] > 1000
    assert json.dumps(report) == json.dumps(second)
    assert made.content_hash() == again.content_hash()
    asked = [choose(own, table, 3000, Mix(random=0.2, uncertain=0.1), seed=seed) for own in (scores, stored)]
    for name in ("image", "cls", "why", "answer"):
        np.testing.assert_array_equal(getattr(asked[0], name), getattr(asked[1], name))


@pytest.mark.slow
def test_memory_of_a_completion_grows_by_less_than_1_kb_an_image(tmp_path, monkeypatch):
    """Beyond the table, with 10 known labels of each image; the buffers are small, so that they are full in both."""
    monkeypatch.setattr(score_files, "GROUP", 2**14)
    monkeypatch.setattr(score_files, "_AT_ONCE", 2**14)
    monkeypatch.setattr(unknown_module, "_AT_ONCE", 2**14)
    peaks = {}
    for images in (600, 2400):
        random = np.random.default_rng(0)
        scores = random.normal(size=(images, 300)).astype(np.float32)
        labels = np.where(random.random(scores.shape) < 1 / 30, np.sign(scores), 0).astype(np.int8)
        table = LabelTable.from_dense([f"{i}" for i in range(images)], [f"c{c}" for c in range(300)], labels)
        (tmp_path / str(images)).mkdir()
        stored = read_scores(written(tmp_path / str(images), scores, [images]))
        del scores, labels
        tracemalloc.start()
        made, _ = complete(table, stored, table, stored)
        peaks[images] = tracemalloc.get_traced_memory()[1] - 12 * made.num_known  # bytes of a label in the table
        tracemalloc.stop()
        assert made.num_known > 2 * table.num_known
    assert (peaks[2400] - peaks[600]) / 1800 < 1024, peaks
