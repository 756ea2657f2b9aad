"""The closed-form head against loops, hand-made numbers, and tables of every kind."""

import numpy as np
import pytest

from partlabel.training import columns, discriminant, unseen
from partlabel.training.class_shares import expected_interval, expected_share
from partlabel.training.discriminant import BOTH, NOTHING, PRESENT_ONLY, Round, assign_folds, fit, out_of_fold
from partlabel.training.feature_space import FeatureSpace
from partlabel.training.unseen import chosen
from tests.reference import discriminant as reference


def made(seed, images=60, channels=7, classes=3, share=0.6):
    """Features, labels of which a share is known, and the truth; classes are half-spaces with some noise."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(images, channels)) @ random.normal(size=(channels, channels)) + random.normal(size=channels)
    weight = random.normal(size=(channels, classes))
    score = (x - x.mean(0)) @ weight
    truth = np.where(score + random.normal(size=score.shape) * score.std(0) * 0.3 > 0.7 * score.std(0), 1, -1)
    truth[:4] = np.array([1, 1, -1, -1])[:, None]
    known = random.random(truth.shape) < share
    known[:4] = True
    return x, np.where(known, truth, 0).astype(np.int8), truth.astype(np.int8)


def counts(labels):
    return (labels > 0).sum(0), (labels < 0).sum(0)


def chosen_of(scores, labels):
    image, cls = np.nonzero(labels)
    return chosen([each[image, cls] for each in scores], cls, labels[image, cls], labels.shape[1])


def weights(labels):
    return (labels > 0).astype(float), (labels < 0).astype(float)


@pytest.mark.parametrize("images", [60, 6])  # more images than channels, and fewer
@pytest.mark.parametrize("kappa", [0.5, 8.0])
def test_directions_are_those_of_the_loop(images, kappa):
    x, labels, _ = made(0, images=images)
    own = FeatureSpace(x, labels)
    means = discriminant._first(own, labels, np.arange(images))
    scores = own.rotated @ own.directions(means, kappa)
    np.testing.assert_allclose(scores, reference.direction_scores(x, *weights(labels), kappa), atol=2e-4)


def test_one_channel_by_hand():
    # x = -1, -1, 1, 1 has mean 0 and deviation 1: S = 1; present {1, 1}, absent {-1, -1}; n = 1: lambda = kappa
    x, labels = np.array([[-1.0], [-1.0], [1.0], [1.0]]), np.array([[-1], [-1], [1], [1]], np.int8)
    own = FeatureSpace(x, labels)
    means = discriminant._first(own, labels, np.arange(4))
    assert means.effective.tolist() == [1.0]
    assert own.shrinkage(means, 3.0).tolist() == [3.0]
    scores = own.rotated @ own.directions(means, 3.0)
    np.testing.assert_allclose(scores, x, atol=1e-6)  # of unit variance, whatever the strength


def test_strength_falls_with_the_labels_by_hand():
    # 2 present and 2 absent: n = 1; 8 and 8: n = 4; their geometric mean is 2
    x = np.random.default_rng(0).normal(size=(16, 3))
    labels = np.zeros((16, 2), np.int8)
    labels[:4, 0], labels[:, 1] = [1, 1, -1, -1], [1] * 8 + [-1] * 8
    own = FeatureSpace(x, labels)
    means = discriminant._first(own, labels, np.arange(16))
    np.testing.assert_allclose(own.shrinkage(means, 6.0), [6 / np.sqrt(2), 6 / np.sqrt(8)])


@pytest.mark.parametrize("rounds", [Round(), Round(1.0, 0.5, 0.5), Round(0.0, 1.0, 1.0)])
def test_a_round_is_that_of_the_loop(rounds):
    x, labels, _ = made(1)
    own = FeatureSpace(x, labels)
    rows = np.arange(len(x))
    means, expected = discriminant._learn(own, labels, rows, rounds, 4.0)
    first = own.rotated @ own.directions(discriminant._first(own, labels, rows), 4.0)
    both = reference.round_weights(
        labels.tolist(), first.tolist(), expected.tolist(), rounds.present, rounds.absent, rounds.weight
    )
    scores = own.rotated @ own.directions(means, 4.0)
    np.testing.assert_allclose(scores, reference.direction_scores(x, *both, 4.0), atol=2e-4)


def test_a_label_that_is_left_out():
    x, labels, _ = made(2, images=30)
    own = FeatureSpace(x, labels)
    rows = np.arange(len(x))
    means = discriminant._first(own, labels, rows)
    scores = own.rotated @ own.directions(means, 4.0)
    left_out = discriminant._unseen(own, own.rotated, labels, scores, means, own.shrinkage(means, 4.0))
    for i, c in zip(*np.nonzero(labels), strict=True):
        assert left_out[i, c] == pytest.approx(reference.left_out_score(x, labels.tolist(), c, i, 4.0), abs=2e-4)
    assert (left_out[labels == 0] == scores[labels == 0]).all()


def test_evidence_is_that_of_the_loop():
    x, labels, _ = made(3)
    own = FeatureSpace(x, labels)
    found = discriminant._evidence(own, discriminant._first(own, labels, np.arange(len(x))))
    best = max(discriminant._STRENGTHS, key=lambda kappa: reference.log_evidence(x, labels.tolist(), kappa))
    assert found == best


@pytest.mark.parametrize("present", [0, 4, 3000])
def test_the_evidence_of_few_labels_is_drawn_to_a_usual_value(present):
    """A fifth of the channels counts as 1,000 present labels: their geometric mean, on the scale of logarithms."""
    x = np.random.default_rng(0).normal(size=(3200, 10))
    labels = np.full((3200, 1), -1, np.int8)
    labels[:present] = 1
    own = FeatureSpace(x, labels)
    means = discriminant._first(own, labels, np.arange(3200))
    evidence, found = discriminant._evidence(own, means) / 2, discriminant._strength(own, means, present)
    weight = present / (present + 1000)
    assert found == pytest.approx(evidence**weight * 2.0 ** (1 - weight), rel=1e-5)


def test_expected_share_by_hand():
    # 3 of 10 known labels are present; (3 + 2 * 0.3) / 12 = 0.3 of 20 images are 6, of which 3 are known
    labels = np.zeros((20, 1), np.int8)
    labels[:10, 0] = [1, 1, 1, *[-1] * 7]
    scores = np.tile(np.array([1.0, -1.0]), 10)[:, None]
    scores[:10, 0] = np.random.default_rng(0).normal(size=10)  # says little
    np.testing.assert_allclose(expected_share(scores, labels), [3 / 10])


def test_expected_share_where_present_labels_are_known_more_often():
    random = np.random.default_rng(0)
    truth = np.where(random.random((4000, 1)) < 0.1, 1, -1)
    scores = truth + 0.3 * random.normal(size=truth.shape)
    known = random.random(truth.shape) < np.where(truth > 0, 0.5, 0.05)
    labels = np.where(known, truth, 0).astype(np.int8)
    assert (labels > 0).sum() > (labels < 0).sum()  # so the share among the known is above one half
    left = (truth[labels == 0] > 0).mean()
    assert expected_share(scores, labels)[0] == pytest.approx(left, abs=0.02)


def test_labels_that_were_asked_for_speak_for_themselves_only():
    """The 400 highest scores are asked about; the rest is present as often as the random sample says."""
    random = np.random.default_rng(0)
    truth = np.where(random.random((4000, 1)) < 0.3, 1, -1)
    scores = truth + 1.5 * random.normal(size=truth.shape)
    sample = random.random(truth.shape) < 0.1
    asked = (scores >= np.sort(scores, axis=0)[-400]) & ~sample
    labels = np.where(sample | asked, truth, 0).astype(np.int8)
    left = (truth[labels == 0] > 0).mean()
    assert expected_share(scores, labels, sample=sample)[0] == pytest.approx(left, abs=0.05)
    assert abs(expected_share(scores, labels)[0] - left) > 0.08


def test_a_sample_by_hand():
    # of 10 sampled labels 3 are present: (3 + 2 * 0.3) / 12 = 0.3 of 20 images are 6; 4 present ones are known
    labels, sample = np.zeros((20, 1), np.int8), np.zeros((20, 1), bool)
    labels[:12, 0] = [1, 1, 1, *[-1] * 7, 1, -1]
    sample[:10] = True
    scores = np.tile(np.array([1.0, -1.0]), 10)[:, None]
    scores[:10, 0] = np.random.default_rng(0).normal(size=10)  # says little
    np.testing.assert_allclose(expected_share(scores, labels, sample=sample), [2 / 8])
    assert expected_share(scores, labels, sample=np.zeros_like(sample)) == 0


def test_an_interval_by_hand():
    """3 present of 10: Wilson gives 0.1078 to 0.6032; of 20 images 2.156 to 12.064, of which 3 are known."""
    labels = np.zeros((20, 2), np.int8)
    labels[:10, 0] = [1, 1, 1, *[-1] * 7]
    found = expected_interval(20, counts(labels), counts(labels))
    np.testing.assert_allclose(found[0], [0, (0.60322 * 20 - 3) / 10], atol=1e-4)
    assert found[1].tolist() == [0, 1]
    more = labels.copy()
    more[10:12, 0] = 1  # asked for: known, and no sign of the others
    ends = expected_interval(20, counts(more), counts(labels))[0]
    np.testing.assert_allclose(ends, [0, (0.60322 * 20 - 5) / 8], atol=1e-4)


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_an_interval_holds_the_share_in_about_95_of_100_draws(share):
    random = np.random.default_rng(0)
    truth = np.where(random.random((2000, 400)) < share, 1, -1)
    labels = np.where(random.random(truth.shape) < 0.1, truth, 0).astype(np.int8)
    left = ((truth > 0) & (labels == 0)).sum(0) / (labels == 0).sum(0)
    low, high = expected_interval(2000, counts(labels), counts(labels)).T
    assert 0.9 < np.mean((low <= left) & (left <= high)) < 0.99


@pytest.mark.parametrize("learn", [fit, out_of_fold])
def test_a_sample_reaches_the_round(learn):
    """All labels as sample are the same as none named, and a part of them is not."""
    x, labels, _ = made(8, images=300, share=0.3)

    def scores(sample):
        found = learn(x, labels, sample=sample)
        return np.asarray(found) if learn is out_of_fold else found.scores(x)

    np.testing.assert_array_equal(scores(labels != 0), scores(None))
    assert not np.allclose(scores((labels != 0) & (np.arange(300) < 30)[:, None]), scores(None), equal_nan=True)


def test_scores_are_log_odds():
    x, labels, truth = made(4, images=4000, classes=2, share=0.3)
    scores = fit(x, labels).scores(x)
    for c in range(2):
        bins = np.digitize(scores[:, c], [-2, -1, 0, 1, 2])
        for b in range(6):
            inside = bins == b
            if inside.sum() > 50:
                chance = (1 / (1 + np.exp(-scores[inside, c]))).mean()
                assert (truth[inside, c] > 0).mean() == pytest.approx(chance, abs=0.12)


def test_a_head_ranks_images_it_has_not_seen():
    x, labels, truth = made(5, images=2000, share=0.1)
    scores = fit(x[:1500], labels[:1500]).scores(x[1500:])
    for c in range(3):
        up, down = scores[truth[1500:, c] > 0, c], scores[truth[1500:, c] < 0, c]
        assert (up[:, None] > down[None]).mean() > 0.9


@pytest.mark.parametrize("share", [1.0, 0.0])
def test_fit_is_the_same_whatever_the_scale_of_the_channels(share):
    x, labels, _ = made(6, share=0.5)
    moved = x * np.logspace(-3, 3, x.shape[1]) + 5 * share
    np.testing.assert_allclose(fit(x, labels).scores(x), fit(moved, labels).scores(moved), atol=0.02)


def test_channels_that_never_change_are_left_out():
    x, labels, _ = made(7)
    more = np.concatenate([x, np.full((len(x), 2), 3.0)], 1)
    head = fit(more, labels)
    assert (head.weight[-2:] == 0).all()
    np.testing.assert_allclose(head.scores(more), fit(x, labels).scores(x), atol=1e-3)


def test_classes_of_one_sign_or_without_labels_are_said():
    x, labels, truth = made(8, images=300, classes=4, share=0.4)
    labels[:, 1][labels[:, 1] < 0] = 0
    labels[:, 2][labels[:, 2] > 0] = 0
    labels[:, 3] = 0
    head = fit(x, labels)
    assert head.basis.tolist() == [BOTH, PRESENT_ONLY, NOTHING, NOTHING]
    scores = head.scores(x)
    assert np.isfinite(scores).all()
    up, down = scores[truth[:, 1] > 0, 1], scores[truth[:, 1] < 0, 1]
    assert (up[:, None] > down[None]).mean() > 0.85  # known present ones and all images are enough to rank
    assert (head.weight[:, 2:] == 0).all()
    assert scores[0, 2] < -3  # only absent ones are known
    assert scores[0, 3] == 0


def test_all_labels_of_one_sign():
    x, labels, truth = made(9, images=300)
    scores = fit(x, np.where(labels > 0, labels, 0).astype(np.int8)).scores(x)
    assert (scores[truth[:, 0] > 0, 0].mean() - scores[truth[:, 0] < 0, 0].mean()) > 0
    scores = fit(x, np.where(labels < 0, labels, 0).astype(np.int8)).scores(x)
    assert (np.ptp(scores, axis=0) < 1e-6).all()


@pytest.mark.parametrize("seed", range(25))
def test_tables_drawn_at_random_give_finite_scores(seed):
    random = np.random.default_rng(seed)
    images, channels, classes = int(random.integers(6, 80)), int(random.integers(1, 40)), int(random.integers(1, 12))
    x = random.normal(size=(images, channels)) * 10.0 ** random.integers(-4, 4)
    if seed % 3 == 0:
        x[:, 0] = 0
    shares = random.random(classes) * random.integers(0, 2, classes)
    labels = np.where(random.random((images, classes)) < shares, random.choice([-1, 1], (images, classes)), 0)
    labels = labels.astype(np.int8)
    head = fit(x.astype(np.float16 if seed % 2 else np.float32), labels)
    assert np.isfinite(head.weight).all()
    assert np.isfinite(head.scores(x)).all()
    scores = out_of_fold(x, labels).dense()
    assert scores.shape == labels.shape
    assert not np.isinf(scores).any()
    assert np.isnan(scores[:, ~(labels > 0).any(0)]).all()


def test_out_of_fold_never_sees_a_label_of_its_image():
    x, labels, _ = made(10, images=80)
    before = out_of_fold(x, labels).dense()
    parts = assign_folds(labels, 5, 0)
    for part in (0, 3):
        changed = labels.copy()
        own = parts == part
        # absent and unknown labels of one fold change; the present ones stay, so that the folds do
        changed[own] = np.where(labels[own] > 0, labels[own], np.where(labels[own] < 0, 0, -1))
        assert (assign_folds(changed, 5, 0) == parts).all()
        after = out_of_fold(x, changed).dense()
        for c in range(3):  # slope and offset, from heads that scored the other folds, may differ; the ranks may not
            line = np.polyfit(before[own, c], after[own, c], 1)
            np.testing.assert_allclose(np.polyval(line, before[own, c]), after[own, c], atol=1e-4)
        assert np.abs(before - after)[~own].max() > 1e-2


def test_folds_hold_the_present_of_each_class_and_keep_groups():
    random = np.random.default_rng(0)
    labels = np.where(random.random((500, 6)) < [0.5, 0.2, 0.1, 0.05, 0.02, 0.01], 1, -1).astype(np.int8)
    parts = assign_folds(labels, 5, 1)
    assert np.bincount(parts).tolist() == [100] * 5
    rarest = np.bincount(parts[labels[:, 5] > 0], minlength=5)
    assert rarest.max() - rarest.min() <= 1
    groups = np.arange(500) // 10
    parts = assign_folds(labels, 5, 1, groups)
    assert all(len(set(parts[groups == g])) == 1 for g in range(50))
    assert (assign_folds(labels, 5, 1) != assign_folds(labels, 5, 2)).any()


def test_what_is_refused():
    x, labels, _ = made(11)
    with pytest.raises(ValueError, match="features"):
        fit(x[:5], labels)
    with pytest.raises(ValueError, match="dealt out to 5 folds"):
        out_of_fold(x[:4], labels[:4])
    with pytest.raises(ValueError, match="not finite"):
        fit(np.where(x > 1, np.nan, x), labels)
    with pytest.raises(ValueError, match="weight of a round"):
        Round(weight=1.5)


@pytest.mark.parametrize("images", [1, 2, 3, 4])
def test_a_handful_of_images(images):
    x, labels, _ = made(12)
    assert np.isfinite(fit(x[:images], labels[:images]).scores(x)).all()


def test_the_strength_is_moved_only_by_clear_evidence():
    random = np.random.default_rng(0)
    labels = np.where(random.random((400, 20)) < 0.3, 1, -1).astype(np.int8)
    same = random.normal(size=labels.shape).astype(np.float32)
    assert chosen_of([same] * 5, labels) == 2
    better = labels + random.normal(size=labels.shape).astype(np.float32)
    assert chosen_of([same, same, same, better, same], labels) == 3
    assert chosen_of([same[:, :5], same[:, :5], same[:, :5], better[:, :5], same[:, :5]], labels[:, :5]) == 2


@pytest.mark.parametrize("sampled", [False, True])
def test_some_classes_at_a_time_give_the_head_of_all(monkeypatch, sampled):
    random = np.random.default_rng(3)
    x, labels, _ = made(13, images=90, channels=12, classes=30, share=0.3)
    sample = random.random(labels.shape) < 0.7 if sampled else None
    whole, scores = fit(x, labels, sample=sample), out_of_fold(x, labels, sample=sample)
    expected = scores.dense()
    monkeypatch.setattr(columns, "_PAIRS", 90 * 9)
    monkeypatch.setattr(unseen, "_AT_ONCE", 30 * 20)
    parts, some = fit(x, labels, sample=sample), out_of_fold(x, labels, sample=sample)
    assert len(list(some.raw.known.blocks(90))) == 4
    np.testing.assert_allclose(parts.weight, whole.weight, atol=1e-5)
    np.testing.assert_allclose(parts.bias, whole.bias, atol=1e-5)
    np.testing.assert_allclose(parts.expected, whole.expected)
    np.testing.assert_allclose(some.dense(), expected, atol=1e-4)
    image, cls = np.nonzero(labels)
    np.testing.assert_allclose(some.known(), expected[image, cls], atol=1e-4)
    np.testing.assert_array_equal(scores.known(), expected[image, cls])
    np.testing.assert_allclose(some.take(np.array([80, 3])).dense(), expected[[80, 3]], atol=1e-4)


def test_present_labels_alone_are_scaled_on_images_drawn_at_random(monkeypatch):
    x, labels, _ = made(14, images=200, classes=4)
    labels = np.maximum(labels, 0)
    whole = fit(x, labels)
    monkeypatch.setattr(unseen, "_MOST", 4 * 150)
    drawn = fit(x, labels)
    assert np.isfinite(drawn.weight).all()
    ratio = np.linalg.norm(drawn.weight) / np.linalg.norm(whole.weight)
    assert 0.7 < ratio < 1.4
    assert ratio != 1, "not all images"
