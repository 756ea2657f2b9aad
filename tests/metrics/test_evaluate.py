"""Values of the metrics: the published cases, hand-written numbers, naive loops and scikit-learn."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from sklearn.metrics import (
    accuracy_score,
    precision_recall_fscore_support,
)

from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.metrics import average_precision, evaluate
from tests.metrics.problems import as_dict, partial, problems, read_case
from tests.reference import metrics as reference

SCALARS = (
    "mean_ap",
    "mean_roc_auc",
    "zero_one",
    "zero_one_full_rows",
    "macro_f1",
    "micro_f1",
    "pc_precision",
    "pc_recall",
    "ov_precision",
    "ov_recall",
)


class TestCases:
    def test_most_labels_unknown(self) -> None:
        names, scores, labels, expected = read_case("MET-01")
        metrics = evaluate(scores, labels, class_names=names)
        assert as_dict(names, metrics.average_precision) == expected["AP"]
        assert round(metrics.mean_ap, 9) == expected["mAP"]
        support = {n: [int(p), int(a)] for n, p, a in zip(names, metrics.present, metrics.absent, strict=True)}
        assert support == expected["support"]
        as_absent = evaluate(scores, np.where(labels == 0, -1, labels).astype(np.int8))
        assert round(as_absent.mean_ap, 9) == expected["wrong_if_unknown_is_absent"]["mAP"]

    @pytest.mark.filterwarnings("error")
    def test_undefined_classes(self) -> None:
        names, scores, labels, expected = read_case("MET-02")
        metrics = evaluate(scores, labels, class_names=names, min_support=2)
        result = metrics.to_dict()
        assert {row["class"]: row["average_precision"] for row in result["per_class"]} == pytest.approx(
            expected["AP"], abs=1e-9
        )
        assert round(result["metrics"]["mean_ap"], 9) == expected["mAP"]
        assert result["averaged_over"]["mean_ap"] == {"count": 2, "of": 4, "unit": "classes"}
        assert result["classes"]["undefined"]["average_precision"] == ["dog", "car"]
        assert result["classes"]["below_min_support"] == ["bus"]
        assert "2 of 4 classes" in metrics.table()

    def test_exact_match(self) -> None:
        names, scores, labels, expected = read_case("MET-04", "predictions")
        metrics = evaluate(scores, labels, class_names=names)
        assert round(metrics.zero_one, 9) == expected["known_labels"]["value"]
        assert metrics.zero_one_full_rows == expected["fully_known_rows"]["value"]
        assert (metrics.images_known, metrics.images_full) == (3, 2)
        assert metrics.to_dict()["images"]["without_known_labels"] == 1

    @pytest.mark.filterwarnings("error")
    def test_zero_division(self) -> None:
        names, scores, labels, expected = read_case("MET-05", "predictions")
        result = evaluate(scores, labels, class_names=names).to_dict()
        short = {"true_positive": "tp", "false_positive": "fp", "false_negative": "fn"}
        wanted = ("true_positive", "false_positive", "false_negative", "precision", "recall", "f1")
        found = {row["class"]: {short.get(k, k): row[k] for k in wanted} for row in result["per_class"]}
        assert found == expected["per_class"]
        values = result["metrics"]
        assert round(values["macro_f1"], 9) == expected["macro_f1"]
        assert result["averaged_over"]["macro_f1"]["count"] == expected["macro_f1_classes"]
        assert round(values["pc_precision"], 9) == expected["per_class_precision_mean"]
        assert round(values["pc_recall"], 9) == expected["per_class_recall_mean"]
        assert round(values["micro_f1"], 9) == expected["micro_f1"]
        assert values["ov_precision"] == expected["overall_precision"]
        assert values["ov_recall"] == expected["overall_recall"]
        zero = evaluate(scores, labels, class_names=names, zero_division=0)
        assert round(zero.macro_f1, 9) == expected["wrong_undefined_as_zero_macro_f1"]

    def test_excluded_class_leaves_the_divisor(self) -> None:
        names, scores, labels, _ = read_case("MET-05", "predictions")
        metrics = evaluate(scores, labels, class_names=names, exclude=["bus"])
        assert metrics.macro_f1 == pytest.approx((2 / 3 + 0) / 2)  # cat and dog; car is undefined
        assert metrics.pc_precision == pytest.approx(2 / 3)
        result = metrics.to_dict()
        assert result["averaged_over"]["macro_f1"] == {"count": 2, "of": 3, "unit": "classes"}
        assert result["classes"]["excluded"] == ["bus"]
        assert [row["class"] for row in result["per_class"]] == ["cat", "dog", "car"]
        assert "bus" not in result["classes"]["undefined"]["average_precision"]

    @pytest.mark.parametrize("zero_division", [None, 0, 1])
    @pytest.mark.parametrize("left_out", range(4))
    def test_perfect_prediction_is_1_with_any_class_left_out(self, left_out: int, zero_division: Any) -> None:
        labels = np.array([[1, 1, -1, 1], [1, -1, -1, -1], [-1, 1, 1, -1], [1, -1, 1, 0]], dtype=np.int8)
        scores = labels.astype(np.float32)
        scores[:, left_out] *= -1  # the class that is left out is wrong everywhere
        metrics = evaluate(scores, labels, exclude=[left_out], zero_division=zero_division)
        assert {name: getattr(metrics, name) for name in SCALARS} == dict.fromkeys(SCALARS, 1.0)

    def test_forms_of_average_precision(self) -> None:
        names, scores, labels, expected = read_case("MET-09")
        assert as_dict(names, average_precision(scores, labels)) == expected["AP_full_curve"]
        assert as_dict(names, average_precision(scores, labels, form="11point")) == expected["AP_11_point"]
        for form, words in (("area", "area under the full"), ("11point", "11-point")):
            metrics = evaluate(scores, labels, class_names=names, form=form)
            assert metrics.average_precision[1] == 1.0
            assert metrics.to_dict()["average_precision"]["form"] == form
            assert words in metrics.to_dict()["average_precision"]["meaning"]
            assert words in metrics.table()


class TestDecisions:
    @settings(max_examples=80, deadline=None)
    @given(problems)
    def test_equal_to_the_naive_loops(self, problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        scores, labels, thresholds = problem
        metrics = evaluate(scores, labels, thresholds)
        expected = reference.all_metrics(scores, labels, thresholds)
        for name in SCALARS:
            np.testing.assert_allclose(getattr(metrics, name), expected[name], atol=1e-12, err_msg=name)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
    @pytest.mark.parametrize("zero_division", [0, 1])
    def test_equal_to_scikit_learn_on_fully_known_data(self, zero_division: Any) -> None:
        scores, labels = partial(3, n=12, known=1.0)
        labels[:, 1], scores[:, 2] = -1, -1.0  # never present; never predicted
        labels[:, 3], scores[:, 3] = -1, -1.0  # neither
        metrics = evaluate(scores, labels, zero_division=zero_division)
        truth, predicted = labels == 1, scores >= 0
        names = ("precision", "recall", "f1")
        per_class = precision_recall_fscore_support(truth, predicted, average=None, zero_division=zero_division)
        for name, oracle in zip(names, per_class[:3], strict=True):
            np.testing.assert_allclose(getattr(metrics, name), oracle, atol=1e-12, err_msg=name)
        for average, found in (
            ("macro", (metrics.pc_precision, metrics.pc_recall, metrics.macro_f1)),
            ("micro", (metrics.ov_precision, metrics.ov_recall, metrics.micro_f1)),
        ):
            oracle = precision_recall_fscore_support(truth, predicted, average=average, zero_division=zero_division)
            assert found == pytest.approx(oracle[:3], abs=1e-12)
        assert metrics.zero_one == metrics.zero_one_full_rows == accuracy_score(truth, predicted)

    def test_macro_f1_is_the_mean_of_class_f1(self) -> None:
        # a: TP 1, FP 1, FN 0 -> F1 2/3; b: TP 1, FP 0, FN 1 -> F1 2/3; mean P = mean R = 0.75 would give 0.75
        labels = np.array([[1, 1], [-1, 1], [0, -1]], dtype=np.int8)
        scores = np.array([[1.0, 1.0], [1.0, -1.0], [0.0, -1.0]])
        metrics = evaluate(scores, labels)
        assert (metrics.pc_precision, metrics.pc_recall) == (0.75, 0.75)
        assert metrics.macro_f1 == pytest.approx(2 / 3)

    def test_threshold_itself_is_present(self) -> None:
        labels = np.ones((1, 1), np.int8)
        assert evaluate(np.array([[0.0]]), labels).zero_one == 1.0
        assert evaluate(np.array([[-0.0]]), labels).zero_one == 1.0
        # 0.7 has no exact float32; score and threshold are rounded alike
        assert evaluate(np.array([[0.7]], np.float32), labels, 0.7).zero_one == 1.0
        assert evaluate(np.array([[0.7]]), labels, [0.7]).thresholds.tolist() == [0.7]

    def test_thresholds_per_class(self) -> None:
        labels = np.array([[1, 1]], dtype=np.int8)
        metrics = evaluate(np.array([[0.3, 0.3]]), labels, [0.2, 0.4])
        assert metrics.true_positive.tolist() == [1, 0]
        assert metrics.false_negative.tolist() == [0, 1]

    @pytest.mark.parametrize("thresholds", [[0.0], [0.0, 0.0, 0.0], [[0.0, 0.0]]])
    def test_thresholds_of_wrong_shape(self, thresholds: Any) -> None:
        with pytest.raises(UserError, match="one number or 2"):
            evaluate(np.zeros((1, 2)), np.ones((1, 2), np.int8), thresholds)

    def test_thresholds_not_finite(self) -> None:
        with pytest.raises(UserError) as caught:
            evaluate(np.zeros((1, 3)), np.ones((1, 3), np.int8), [np.nan, 0, 1e39], ["cat", "dog", "bus"])
        assert caught.value.offenders == ["cat: nan", "bus: 1e+39"]

    def test_classes_to_exclude_that_do_not_exist(self) -> None:
        with pytest.raises(UserError) as caught:
            evaluate(
                np.zeros((1, 2)), np.ones((1, 2), np.int8), class_names=["cat", "dog"], exclude=["bus", 0, 2, "car"]
            )
        assert caught.value.offenders == ["bus", "2", "car"]
        with pytest.raises(UserError, match="every class is excluded"):
            evaluate(np.zeros((1, 2)), np.ones((1, 2), np.int8), exclude=[0, 1])


class TestInputs:
    def test_nothing_about_an_unknown_pair_counts(self) -> None:
        scores, labels = partial(0)
        changed = np.where(labels == 0, np.nan, scores)
        assert evaluate(changed, labels).to_dict() == evaluate(scores, labels).to_dict()

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
    def test_tensors(self, dtype: torch.dtype) -> None:
        scores, labels = partial(1)  # quarters: exact in every type
        tensor = torch.from_numpy(scores).to(dtype).requires_grad_()
        found = evaluate(tensor * 1, torch.from_numpy(labels), torch.tensor(0.5))
        assert found.to_dict() == evaluate(scores, labels, 0.5).to_dict()
        assert tensor.grad is None

    def test_memory_order_does_not_matter(self) -> None:
        scores, labels = partial(2)
        found = evaluate(np.asfortranarray(scores), np.asfortranarray(labels))
        assert found.to_dict() == evaluate(scores, labels).to_dict()
        transposed = evaluate(torch.from_numpy(scores.T.copy()).T, torch.from_numpy(labels.T.copy()).T)
        assert transposed.to_dict() == found.to_dict()

    @pytest.mark.filterwarnings("error")
    def test_scores_beyond_float32_become_infinite(self) -> None:
        labels = np.array([[1], [-1], [1]], dtype=np.int8)
        metrics = evaluate(np.array([[1e300], [0.0], [-np.inf]]), labels)
        assert metrics.average_precision[0] == pytest.approx((1 + 2 / 3) / 2)
        assert metrics.true_positive[0] == 1

    @pytest.mark.filterwarnings("error")
    def test_nothing_known(self) -> None:
        for shape in ((0, 2), (3, 2)):
            metrics = evaluate(np.zeros(shape), np.zeros(shape, np.int8))
            assert all(np.isnan(getattr(metrics, name)) for name in SCALARS)
            assert set(metrics.to_dict()["metrics"].values()) == {None}
            json.dumps(metrics.to_dict(), allow_nan=False)

    def test_scores_that_are_not_numbers(self) -> None:
        scores, labels = np.zeros((3, 2)), np.ones((3, 2), np.int8)
        scores[0, 1] = scores[2, 0] = np.nan
        with pytest.raises(UserError, match="2 known labels are not numbers") as caught:
            evaluate(scores, labels, class_names=["cat", "dog"])
        assert caught.value.offenders == ["image row 0, class dog", "image row 2, class cat"]

    @pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32])
    def test_values_that_are_not_labels(self, dtype: Any) -> None:
        labels = np.array([[1, 2], [0, -1], [-3, 0]], dtype=dtype)
        with pytest.raises(UserError, match="2 labels are not") as caught:
            evaluate(np.zeros((3, 2)), labels, class_names=["cat", "dog"])
        places = [offender.split(":")[0] for offender in caught.value.offenders]
        assert places == ["image row 0, class dog", "image row 2, class cat"]

    def test_label_that_is_nan(self) -> None:
        with pytest.raises(UserError, match="1 labels are not"):
            evaluate(np.zeros((1, 2)), np.array([[np.nan, 1.0]]))

    @pytest.mark.parametrize("dtype", [bool, np.uint8])
    def test_types_without_minus_one(self, dtype: Any) -> None:
        with pytest.raises(UserError, match="cannot hold -1"):
            evaluate(np.zeros((1, 2)), np.ones((1, 2), dtype))

    @pytest.mark.parametrize("dtype", [np.int64, np.float32])
    def test_matrices_of_0_and_1(self, dtype: Any) -> None:
        with pytest.warns(PartlabelWarning, match="is 0 meant as absent"):
            evaluate(np.zeros((2, 2)), np.array([[1, 0], [0, 1]], dtype))

    def test_shapes(self) -> None:
        with pytest.raises(UserError, match=r"found \(3, 2\) and \(2, 3\)"):
            evaluate(np.zeros((3, 2)), np.zeros((2, 3), np.int8))
        with pytest.raises(UserError, match=r"found \(3,\)"):
            evaluate(np.zeros(3), np.zeros(3, np.int8))
        with pytest.raises(UserError, match="3 class names for 2"):
            evaluate(np.zeros((3, 2)), np.zeros((3, 2), np.int8), class_names=["a", "b", "c"])
        with pytest.raises(UserError, match="repeated") as caught:
            evaluate(np.zeros((3, 2)), np.zeros((3, 2), np.int8), class_names=["a", "a"])
        assert caught.value.offenders == ["a"]
