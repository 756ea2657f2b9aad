"""Faults of the label table and all that works on it."""

from __future__ import annotations

from tests.faults.fault import Fault

TABLE = "labels/test_table.py"
SPLIT = "labels/test_split.py"
SIMULATE = "labels/test_simulate.py"

FAULTS = [
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
        "changeable = np.isin(table.origin[at[known]], [MODEL, REVIEW]) & (code == REVIEW)",
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
]
