"""The faults of tests/mutations.py: where, what was, what is put in its place, and the tests that have to fail."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """``old`` stands exactly once in ``file``, a path below src/partlabel; ``tests`` are paths below tests/."""

    file: str
    what: str
    old: str
    new: str
    selection: str

    @property
    def tests(self) -> tuple[str, ...]:
        """What pytest is asked to run."""
        return tuple(f"tests/{path}" for path in self.selection.split())


LOSS, GRAPH, CURRICULUM = "method/test_loss.py", "method/test_graph.py", "method/test_curriculum.py"
UNCERTAINTY, RIVALS = "method/test_uncertainty.py", "method/other_losses"
EVALUATE, ACCUMULATOR = "metrics/test_evaluate.py metrics/test_ranking.py", "metrics/test_accumulator.py"
TABLE, SPLIT, SIMULATE = "labels/test_table.py", "labels/test_split.py", "labels/test_simulate.py"
RISK, CALIBRATION = "metrics/test_risk_control.py", "metrics/test_calibration.py"
CODING, CASES = "formats/test_coding.py", "formats/test_table_cases.py"

FAULTS = [
    # the paper
    Fault("method/loss.py", "alpha of the paper's print", "return alpha, 1 - alpha", "return -4.45, 5.45", LOSS),
    Fault("method/loss.py", "g of the label count, not of the share", "(known / classes).pow_", "known.pow_", LOSS),
    Fault(
        "method/loss.py",
        "few labels known: gradient without the sign",
        "return loss, torch.sigmoid(wrong).mul_(weight).mul_(minus_y), index",
        "return loss, torch.sigmoid(wrong).mul_(weight), index",
        LOSS,
    ),
    Fault(
        "method/loss.py",
        "few labels known: rows counted by the wrong divisor",
        'row = torch.div(index, classes, rounding_mode="floor")',
        'row = torch.div(index, rows, rounding_mode="floor")',
        LOSS,
    ),
    Fault("method/loss.py", "the mean divides by 1", "divisor = max(rows, 1) if", "divisor = 1 if", LOSS),
    Fault(
        "method/loss.py",
        "a NaN score of an unknown label reaches the loss",
        "wrong = _zero_unknown(scores, labels).mul_(minus_y)",
        "wrong = scores * minus_y",
        LOSS,
    ),
    Fault("method/checks.py", "a label 2 is let through", "and low >= -1 and high <= 1)", "and low >= -1)", LOSS),
    Fault(
        "method/loss.py",
        "the weight of a label leaves its row's share",
        "weights = _weights(known.sum(1).clamp(min=1).to(scores.dtype)",
        "weights = _weights((known & (weight > 0)).sum(1).clamp(min=1).to(scores.dtype)",
        LOSS,
    ),
    Fault(
        "method/pooling.py",
        "the sum is halved",
        "highest.mean(2) + lowest.mean(2)",
        "(highest.mean(2) + lowest.mean(2)) / 2",
        "method/test_pooling.py",
    ),
    Fault(
        "method/pooling.py",
        "no region at least",
        "max(1, round(self.k_min * count))",
        "round(self.k_min * count)",
        "method/test_pooling.py",
    ),
    Fault(
        "method/graph.py",
        "messages over C, not C - 1",
        "return 1 / (self.num_classes - 1) if",
        "return 1 / self.num_classes if",
        GRAPH,
    ),
    Fault(
        "method/graph.py",
        "the output leaves h^0 out",
        "return scores + self._own_component(f, total, h).t()",
        "return self._own_component(f, total, h).t()",
        GRAPH,
    ),
    Fault(
        "method/graph.py",
        "one step too few",
        "for step in range(self.steps):",
        "for step in range(max(1, self.steps - 1)):",
        GRAPH,
    ),
    Fault(
        "method/graph.py",
        "the gate z is turned round",
        "return torch.lerp(n, torch.diagonal(h, dim1=0, dim2=2).t(), z)",
        "return torch.lerp(n, torch.diagonal(h, dim1=0, dim2=2).t(), 1 - z)",
        GRAPH,
    ),
    Fault("method/graph.py", "backward: no gradient to the state", "grad_h = grad * z\n", "grad_h = grad * 0\n", GRAPH),
    Fault(
        "method/curriculum.py",
        "[a] absent at x = -theta too",
        "return x >= theta, x < -theta",
        "return x >= theta, x <= -theta",
        CURRICULUM,
    ),
    Fault(
        "method/curriculum.py",
        "[b] shares are rounded up",
        "stable=True).indices[: _part(theta, len(values), ROUND_FLOOR)]",
        "stable=True).indices[: _part(theta, len(values), ROUND_HALF_UP)]",
        CURRICULUM,
    ),
    Fault(
        "method/curriculum.py",
        "[c] makes absent labels",
        "return _filled(labels, unknown, present, torch.zeros_like(present))",
        "return _filled(labels, unknown, present, ~present)",
        CURRICULUM,
    ),
    Fault(
        "method/curriculum.py",
        "[e] leaves out U = theta",
        "easy = unknown & (u <= _at_least_0(theta))",
        "easy = unknown & (u < _at_least_0(theta))",
        CURRICULUM,
    ),
    Fault("method/curriculum.py", "known labels change", "easy = unknown & (u <=", "easy = (u <=", CURRICULUM),
    Fault(
        "method/curriculum.py",
        "the prior is drawn to 1/2",
        "strength * common) /",
        "strength * 0.5) /",
        CURRICULUM,
    ),
    Fault(
        "method/curriculum.py",
        "G with the printed sign",
        "return -v.double().sum() *",
        "return v.double().sum() *",
        CURRICULUM,
    ),
    Fault(
        "method/rounds.py",
        "the label proportion forgets absent ones",
        "return (self.known + self.present + self.absent).double() / self.images",
        "return (self.known + self.present).double() / self.images",
        "method/test_rounds.py",
    ),
    Fault(
        "method/uncertainty.py", "p / (1 - p) becomes p", "rate / (1 - rate) * (weight", "rate * (weight", UNCERTAINTY
    ),
    Fault(
        "method/uncertainty.py",
        "kept values are not scaled",
        "values = (x / masks.keep).view",
        "values = x.view",
        UNCERTAINTY,
    ),
    Fault(
        "method/uncertainty.py",
        "all images have the masks of the first",
        "masks = _Masks(rate, samples, seed, number)",
        "masks = _Masks(rate, samples, seed, 0)",
        UNCERTAINTY,
    ),
    Fault(
        "method/other_losses/assume_negative.py",
        "WAN: known absent labels get the weak weight",
        "torch.where(unknown, losses / max",
        "torch.where(~present, losses / max",
        RIVALS,
    ),
    Fault(
        "method/other_losses/asymmetric.py",
        "ASL without its margin",
        "(torch.sigmoid(x) - margin).clamp(min=0)",
        "torch.sigmoid(x)",
        RIVALS,
    ),
    Fault(
        "method/other_losses/hill.py",
        "Hill: the margin is added",
        "if_present(x - margin)",
        "if_present(x + margin)",
        RIVALS,
    ),
    Fault(
        "method/other_losses/large_loss.py",
        "LL-R: known labels are left out too",
        "candidates = torch.where(unknown, losses.detach(), -1).flatten()",
        "candidates = losses.detach().flatten()",
        RIVALS,
    ),
    # labels
    Fault(
        "labels/pairs.py",
        "a model's label before a person's",
        "loses, runs.origin == MODEL)",
        "loses, runs.origin != MODEL)",
        f"{TABLE} labels/test_merge.py",
    ),
    Fault(
        "labels/pairs.py",
        "unknown keeps contradictions",
        'return chosen[~contradicting] if policy == "unknown" else chosen',
        "return chosen",
        f"{TABLE} labels/test_merge.py",
    ),
    Fault(
        "labels/pairs.py",
        "sorting loses origins",
        "(packed >> 1 & 7).astype(np.uint8)",
        "(packed >> 1 & 1).astype(np.uint8)",
        TABLE,
    ),
    Fault(
        "labels/merge.py",
        "a model may replace given labels",
        "changeable = np.isin(old.origin[at[known]], [MODEL, REVIEW]) & (code == REVIEW)",
        "changeable = np.ones(int(known.sum()), bool)",
        TABLE,
    ),
    Fault(
        "labels/merge.py",
        "the other table's images are mixed up",
        "image[one.pair_images()] * len(classes)",
        "one.pair_images() * len(classes)",
        "labels/test_merge.py",
    ),
    Fault(
        "labels/table.py",
        "undo takes all rounds",
        "hidden &= False if self.round is None else self.round >= since_round",
        "hidden &= True",
        f"{TABLE} labels/test_diff.py",
    ),
    Fault(
        "labels/table.py",
        "a selection keeps the old order of labels",
        "**self.taken(ranges(self.indptr[row], count)),",
        "**self.taken(np.sort(ranges(self.indptr[row], count))),",
        TABLE,
    ),
    Fault(
        "labels/split.py",
        "groups are torn apart",
        "unit, size = units(table.num_images, groups)",
        "unit, size = units(table.num_images, None)",
        SPLIT,
    ),
    Fault(
        "labels/split.py",
        "absent labels are not stratified",
        "code = table.indices + np.where(table.values > 0, 0, table.num_classes)",
        "code = table.indices",
        SPLIT,
    ),
    Fault(
        "labels/split.py",
        "the most frequent label first",
        "label = int(np.argmin(np.where(self.remaining > 0, self.remaining, far)))",
        "label = int(np.argmax(self.remaining))",
        SPLIT,
    ),
    Fault(
        "labels/holdout.py",
        "labels that were looked for are put aside",
        "eligible = np.flatnonzero(at_random(table))",
        "eligible = np.arange(table.num_known)",
        "labels/test_holdout.py",
    ),
    Fault(
        "labels/simulate.py",
        "exact becomes a share of the known",
        "_rounded(proportion * table.num_classes)",
        "_rounded(proportion * table.num_classes) - 1",
        SIMULATE,
    ),
    Fault(
        "labels/simulate.py",
        "noisy flips the share that stays",
        "count = _rounded((1 - proportion) * table.num_known)",
        "count = _rounded(proportion * table.num_known)",
        SIMULATE,
    ),
    Fault(
        "labels/simulate.py",
        "noisy+ leaves two present labels",
        "pointers(table.values > 0)[table.indptr], 1)",
        "pointers(table.values > 0)[table.indptr], 2)",
        SIMULATE,
    ),
    Fault(
        "labels/diff.py",
        "lost labels are not seen",
        "is_gone[at_old] = False",
        "is_gone[:] = False",
        "labels/test_diff.py",
    ),
    Fault(
        "labels/parquet.py",
        "origins are not written",
        '"origin": ("origin", pa.uint8()),',
        '"origin": ("indices", pa.uint8()),',
        "labels/test_parquet.py",
    ),
    # metrics
    Fault(
        "metrics/accumulator.py",
        "labels are turned round in the keys",
        "(label_array.reshape(-1)[flat] > 0).astype(np.uint64)",
        "(label_array.reshape(-1)[flat] < 0).astype(np.uint64)",
        EVALUATE,
    ),
    Fault(
        "metrics/pairs.py",
        "precision counts one pair less",
        "precision = found / (positive[last] + 1 - start[column])",
        "precision = found / np.maximum(positive[last] - start[column], 1)",
        EVALUATE,
    ),
    Fault(
        "metrics/pairs.py",
        "-0.0 and 0.0 differ",
        "bits = (values + np.float32(0)).view(np.int32)",
        "bits = values.copy().view(np.int32)",
        EVALUATE,
    ),
    Fault(
        "metrics/accumulator.py",
        "a score at the threshold is absent",
        "<< np.uint64(1) | np.uint64(1)\n",
        "<< np.uint64(1)\n",
        EVALUATE,
    ),
    Fault(
        "metrics/accumulator.py",
        "images without labels are exact",
        "exact_known=int(np.count_nonzero(exact & (counts > 0))),",
        "exact_known=int(np.count_nonzero(exact)),",
        EVALUATE,
    ),
    Fault("metrics/accumulator.py", "repeated images count twice", "if not self._numbered:", "if True:", ACCUMULATOR),
    Fault(
        "metrics/values.py",
        "recall over predicted",
        "return self._ratio(self.true_positive, self.present)",
        "return self._ratio(self.true_positive, self.true_positive + self.false_positive)",
        EVALUATE,
    ),
    Fault(
        "metrics/values.py",
        "macro-F1 counts undefined classes as 0",
        "defined = values[~np.isnan(values)]\n",
        "defined = np.nan_to_num(values)\n",
        EVALUATE,
    ),
    Fault(
        "metrics/values.py",
        "micro-F1 without the misses",
        "return self._overall(2 * right, predicted + present)",
        "return self._overall(2 * right, 2 * predicted)",
        EVALUATE,
    ),
    Fault(
        "metrics/bootstrap.py",
        "ties are not put together",
        "ends = np.append((cls[1:] != cls[:-1]) | (x[1:] != x[:-1]), True)[: len(x)]",
        "ends = np.ones(len(x), bool)",
        "metrics/test_bootstrap.py",
    ),
    Fault(
        "metrics/calibration.py",
        "classes do not lean on each other",
        "mean = theta[labelled].mean(0)",
        "mean = START",
        CALIBRATION,
    ),
    Fault(
        "metrics/calibration.py",
        "a slope may fall below its least",
        "low = theta[:, 0] < MIN_SLOPE",
        "low = np.zeros(len(theta), bool)",
        CALIBRATION,
    ),
    Fault(
        "metrics/calibration.py",
        "1 falls out of the last bin",
        "np.minimum((p * bins).astype(np.int64), bins - 1)",
        "(p * bins).astype(np.int64) % bins",
        CALIBRATION,
    ),
    Fault("metrics/risk_control.py", "binomial alone", "np.maximum(binomial, realised)", "binomial", RISK),
    Fault(
        "metrics/risk_control.py",
        "the level is not shared out",
        "level = error / (number + (number < len(expected)))",
        "level = error",
        RISK,
    ),
    Fault(
        "metrics/risk_control.py",
        "a failure does not end the sequence",
        "carried = now if passed else 0.0",
        "carried = now",
        RISK,
    ),
    Fault(
        "metrics/risk_control.py",
        "the bound is two-sided",
        "stats.beta.ppf(level, right, tested - right + 1)",
        "stats.beta.ppf(level / 2, right, tested - right + 1)",
        RISK,
    ),
    Fault(
        "metrics/thresholds.py",
        "recall just missed is enough",
        "at = int(np.argmax(found.hits / found.total >= wanted))",
        "at = max(int(np.argmax(found.hits / found.total >= wanted)) - 1, 0)",
        "training/test_thresholds.py",
    ),
    # formats
    Fault(
        "formats/coding.py",
        "words are case sensitive",
        "text = value.strip().casefold()",
        "text = value.strip()",
        f"{CODING} {CASES}",
    ),
    Fault(
        "formats/coding.py",
        "-1 and 0 without a 1 are native",
        'seen == {"1", "-1", "0"}',
        'seen <= {"1", "-1", "0", ""}',
        f"{CODING} {CASES}",
    ),
    Fault(
        "formats/coding.py",
        "uncertain counts as absent",
        'chexpert="1=present 0=absent -1=uncertain blank=unknown"',
        'chexpert="1=present 0=absent -1=absent blank=unknown"',
        f"{CODING} formats/test_chexpert.py {CASES}",
    ),
    Fault(
        "formats/coding.py",
        "a second meaning of a value wins",
        "elif codes.setdefault(token, code) != code:",
        "elif codes.update({token: code}):",
        CODING,
    ),
    Fault(
        "formats/source.py",
        "the last statement wins a contradiction",
        'value[clash] = {"present": 1, "absent": -1}.get(policy, 0)',
        'value[clash] = {"present": 1, "absent": -1}.get(policy, 1)',
        "formats/test_spine.py formats/test_assemble.py",
    ),
    Fault(
        "formats/source.py",
        "nobody looked becomes absent",
        "value.reshape(num_images, num_classes)[self.unlabelled] = 0",
        "pass",
        "formats/test_spine.py formats/test_cvat.py formats/test_yolo.py",
    ),
    Fault(
        "formats/source.py",
        "uncertain pairs become absent",
        "value[listed] = self.value\n",
        "value[listed] = np.where(self.value == 0, -1, self.value)\n",
        "formats/test_spine.py formats/test_coco.py formats/test_voc.py formats/test_voc_random.py",
    ),
    Fault(
        "formats/source.py",
        "a machine's label stays beside a person's",
        "lost = self.yields & plain",
        "lost = self.yields & False",
        "formats/test_spine.py formats/test_openimages.py",
    ),
    Fault(
        "formats/coco.py",
        "classes that were looked for are unknown",
        "value[len(annotations) :] = -1",
        "value[len(annotations) :] = 0",
        "formats/test_coco.py",
    ),
    Fault(
        "formats/coco.py",
        "category ids are positions",
        "found = np.fromiter(map(positions.get, ids, repeat(-1)), np.int32, len(ids))",
        "found = np.fromiter((int(number) - 1 for number in ids), np.int32, len(ids))",
        "formats/test_coco.py",
    ),
    Fault(
        "formats/yolo.py",
        "an image without a text file was looked at",
        "unlabelled=np.array([text is None for text in found.images.values()], bool),",
        "unlabelled=None,",
        "formats/test_yolo.py",
    ),
    Fault(
        "formats/voc/class_lists.py",
        "difficult counts as present",
        "np.where(value == 0, DIFFICULT[options.difficult], value),",
        "np.where(value == 0, 1, value),",
        "formats/test_voc.py formats/test_voc_random.py",
    ),
    Fault(
        "formats/openimages/rows.py",
        "a weak label counts as a person's",
        "np.where(codes == _WEAK, np.int8(_PRESENT), codes)[pair]",
        "np.where(codes == _WEAK, np.int8(_ABSENT), codes)[pair]",
        "formats/test_openimages.py",
    ),
    Fault(
        "metrics/prevalence.py",
        "present and absent change places",
        "present, absent = p / share, (1 - p) / (1 - share)",
        "absent, present = p / share, (1 - p) / (1 - share)",
        "metrics/test_prevalence.py",
    ),
    Fault(
        "metrics/prevalence.py",
        "classes are as far apart as they were taken for",
        "return of_class, mu, float(np.sqrt((away + TAU_CLASSES * TAU**2) / (len(found) + TAU_CLASSES)))",
        "return of_class, mu, TAU",
        "metrics/test_prevalence.py",
    ),
]
