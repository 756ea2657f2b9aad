"""Average precision and the area under the curve: ties, extreme scores, classes of one sign."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.metrics import (
    average_precision_score,
    roc_auc_score,
)

from partlabel.core.errors import UserError
from partlabel.metrics import average_precision, evaluate
from tests.metrics.problems import partial, problems
from tests.reference import metrics as reference


class TestAveragePrecision:
    def test_ties_form_one_threshold(self) -> None:
        # 3.0: one of one; 2.0: two more images, one present: recall 1/2 -> 1 at precision 2/3
        scores = np.array([[3.0], [2.0], [2.0], [1.0]])
        labels = np.array([[1], [-1], [1], [-1]], dtype=np.int8)
        assert average_precision(scores, labels)[0] == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
        assert average_precision(scores[::-1], labels[::-1])[0] == average_precision(scores, labels)[0]

    def test_constant_scores_give_the_share_of_presents(self) -> None:
        labels = np.array([[1], [-1], [-1], [-1]], dtype=np.int8)
        assert average_precision(np.zeros((4, 1)), labels)[0] == 0.25
        # minus zero is the same score as zero
        assert average_precision(np.array([[0.0], [-0.0], [0.0], [-0.0]]), labels)[0] == 0.25

    @pytest.mark.parametrize("score", [1e-38, 1.0, 3e38, -1e-38, -1.0])
    def test_neighbours_in_float32_are_no_tie(self, score: float) -> None:
        higher = np.nextafter(np.float32(score), np.float32(np.inf))
        scores = np.array([[score, higher], [higher, score]], dtype=np.float32)
        labels = np.array([[-1, -1], [1, 1]], dtype=np.int8)
        assert average_precision(scores, labels).tolist() == [1.0, 0.5]

    def test_scores_are_ranked_without_a_sigmoid(self) -> None:
        # after a float32 sigmoid both would be exactly 1
        assert average_precision(np.array([[30.0], [20.0]]), np.array([[1], [-1]], np.int8))[0] == 1.0

    def test_equal_to_scikit_learn(self) -> None:
        for seed in range(5):
            scores, labels = partial(seed)
            found = average_precision(scores, labels)
            for c in range(scores.shape[1]):
                known = labels[:, c] != 0
                oracle = average_precision_score(labels[known, c] == 1, scores[known, c])
                assert found[c] == pytest.approx(oracle, abs=1e-12)

    @settings(max_examples=60, deadline=None)
    @given(problems)
    def test_equal_to_the_naive_loops(self, problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        scores, labels, _ = problem
        columns = range(scores.shape[1])
        area = [reference.average_precision(scores[:, c], labels[:, c]) for c in columns]
        points = [reference.average_precision_11_point(scores[:, c], labels[:, c]) for c in columns]
        np.testing.assert_allclose(average_precision(scores, labels), area, atol=1e-12)
        np.testing.assert_allclose(average_precision(scores, labels, form="11point"), points, atol=1e-12)

    def test_unknown_form(self) -> None:
        with pytest.raises(UserError, match=r"'voc'.*area, 11point"):
            average_precision(np.zeros((1, 1)), np.ones((1, 1), np.int8), form="voc")


class TestRocArea:
    def test_by_hand(self) -> None:
        """AUC-01."""
        # present 3, 2; absent 2, 1: of four pairs three are right and one is a tie
        scores, labels = np.array([[3.0], [2.0], [2.0], [1.0], [9.0]]), np.array([[1], [1], [-1], [-1], [0]], np.int8)
        assert evaluate(scores, labels).roc_auc.tolist() == [3.5 / 4]
        assert evaluate(np.zeros((5, 1)), labels).mean_roc_auc == 0.5

    def test_equal_to_scikit_learn(self) -> None:
        for seed in range(5):
            scores, labels = partial(seed)
            found = evaluate(scores, labels).roc_auc
            for c in range(scores.shape[1]):
                known = labels[:, c] != 0
                assert found[c] == pytest.approx(roc_auc_score(labels[known, c] == 1, scores[known, c]), abs=1e-12)

    @settings(max_examples=60, deadline=None)
    @given(problems)
    def test_equal_to_the_naive_loops(self, problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        scores, labels, _ = problem
        naive = [reference.roc_auc(scores[:, c], labels[:, c]) for c in range(scores.shape[1])]
        np.testing.assert_allclose(evaluate(scores, labels).roc_auc, naive, atol=1e-12)


class TestOneSign:
    """Labels of one sign alone cannot be measured: with presents only, any scores would look perfect."""

    def test_random_scores_are_not_called_good(self) -> None:
        # class a: known labels of both signs, a useless model; b, c: only presents are known
        labels = np.array([[1, 1, 1], [-1, 1, 0], [-1, 0, 1], [-1, 1, 1]], np.int8)
        metrics = evaluate(np.zeros((4, 3)), labels, class_names=["a", "b", "c"])
        assert metrics.mean_ap == 0.25
        result = metrics.to_dict()
        assert result["averaged_over"]["mean_ap"] == {"count": 1, "of": 3, "unit": "classes"}
        assert result["classes"]["without_known_absent"] == ["b", "c"]
        for name in ("average_precision", "roc_auc", "precision", "f1"):
            assert result["classes"]["undefined"][name] == ["b", "c"]
        assert metrics.ov_precision == metrics.pc_precision == 0.25
        assert metrics.micro_f1 == metrics.macro_f1 == 0.4
        assert metrics.recall.tolist() == [1.0, 1.0, 1.0]
        assert result["averaged_over"]["ov_precision"]["count"] == 4
        assert result["averaged_over"]["micro_f1"]["count"] == 4

    def test_presents_only(self) -> None:
        metrics = evaluate(np.ones((3, 2)), np.ones((3, 2), np.int8))
        for name in ("mean_ap", "mean_roc_auc", "macro_f1", "micro_f1", "pc_precision", "ov_precision"):
            assert np.isnan(getattr(metrics, name)), name

    @settings(max_examples=60, deadline=None)
    @given(problems)
    def test_known_presents_alone_never_raise_a_number(self, problem: tuple[np.ndarray, ...]) -> None:
        scores, labels, thresholds = problem
        labels = labels.copy()
        labels[:, 0] = np.abs(labels[:, 0])
        without_it = (labels * (np.arange(labels.shape[1]) > 0)).astype(np.int8)
        found, without = (evaluate(scores, some, thresholds) for some in (labels, without_it))
        for name in ("mean_ap", "mean_roc_auc", "macro_f1", "micro_f1", "pc_precision", "ov_precision"):
            np.testing.assert_equal(getattr(found, name), getattr(without, name), err_msg=name)
