"""The numbers that stand at the top: what the metrics of all labels would be, where only some labels are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partlabel.calibration import ClassFits, fit_classes, sigmoid
from partlabel.metrics.prevalence import Shifts, histogram, likelihood, shifts

Floats = NDArray[np.float64]
NAMES = ("mean_ap", "mean_roc_auc", "pc_precision", "pc_recall", "macro_f1")
Z95 = 1.959963984540054


def expected(x, p, weight=None):
    raise NotImplementedError
