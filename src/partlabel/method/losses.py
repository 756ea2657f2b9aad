"""The losses that a training can minimise, by name. Loads no torch until one is asked for.

To add a loss, write its function in a module of :mod:`partlabel.method.other_losses` and add its line here: the names
that a configuration allows, the choices of the command line and the list in the guide are made from this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class LossEntry:
    """One loss.

    Attributes:
        function: ``module:name`` of the function ``(scores, labels, *, reduction, weight, ...)``, see
            :func:`partlabel.method.loss.partial_bce`.
        unknown: what an unknown label is to it, for people.
        source: where it comes from.
        by_epoch: the function also takes the number of the epoch, from 1, as ``epoch``.
        takes: names of the settings of ``LossConfig`` that are passed on to it.
        fixed: arguments that it always gets.
        leaves_out_unknown: unknown labels teach nothing.
    """

    function: str
    unknown: str
    source: str
    by_epoch: bool = False
    takes: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    leaves_out_unknown: bool = False

    def load(self) -> Callable[..., Tensor]:
        """Import the function."""
        module, _, name = self.function.partition(":")
        return getattr(import_module(module), name)


_OTHER = "partlabel.method.other_losses"
LOSSES: dict[str, LossEntry] = {
    "partial-bce": LossEntry(
        "partlabel.method.loss:partial_bce",
        "left out, and an image is weighed by the share of its labels that is known",
        "the paper, equations 1 and 2",
        takes=("gamma", "p0", "value"),
        leaves_out_unknown=True,
    ),
    "bce": LossEntry(
        "partlabel.method.loss:partial_bce",
        "left out, and all images weigh the same",
        "plain binary cross-entropy",
        takes=("gamma", "p0"),
        fixed={"value": 1.0},
        leaves_out_unknown=True,
    ),
    "an": LossEntry(f"{_OTHER}.assume_negative:assume_negative", "absent", 'Cole et al. 2021, "assume negative"'),
    "wan": LossEntry(
        f"{_OTHER}.assume_negative:weak_assume_negative",
        "absent, with the weight 1/(number of classes - 1); known absent labels keep the weight 1",
        'Cole et al. 2021, "weak assume negative"',
    ),
    "an-ls": LossEntry(
        f"{_OTHER}.assume_negative:smoothed_assume_negative",
        "absent, and 5 % of every label is given to its opposite",
        "Cole et al. 2021, label smoothing",
    ),
    "asl": LossEntry(
        f"{_OTHER}.asymmetric:asymmetric",
        "absent; the easier, the less it counts, and below a probability of 5 % not at all",
        "Ridnik et al. 2021, asymmetric loss",
    ),
    "hill": LossEntry(
        f"{_OTHER}.hill:hill",
        "absent; it counts most at a probability of 50 % and little near 100 %",
        "Zhang et al. 2021, Hill loss",
    ),
    "splc": LossEntry(
        f"{_OTHER}.splc:splc",
        "absent; from the second epoch on present where its probability is above 60 %",
        "Zhang et al. 2021, self-paced loss correction",
        by_epoch=True,
    ),
    "ll-r": LossEntry(
        f"{_OTHER}.large_loss:large_loss_rejection",
        "absent; in epoch t the (t - 1) 0.1 % of all labels of a batch with the largest loss are left out",
        "Kim et al. 2022, large loss rejection",
        by_epoch=True,
    ),
    "ll-ct": LossEntry(
        f"{_OTHER}.large_loss:large_loss_correction",
        "absent; in epoch t the (t - 1) 0.1 % of all labels of a batch with the largest loss are present",
        "Kim et al. 2022, large loss, temporary correction",
        by_epoch=True,
    ),
    "em": LossEntry(
        f"{_OTHER}.entropy:entropy_maximization",
        "kept uncertain: a tenth of what its entropy lacks to that of a probability of 50 %",
        "Zhou et al. 2022, entropy maximization",
    ),
    "p-asl": LossEntry(
        f"{_OTHER}.selective:partial_asymmetric",
        "absent; the easier, the less it counts, and less than a known absent label",
        "Ben-Baruch et al. 2022, partial asymmetric loss",
    ),
    "csl": LossEntry(
        f"{_OTHER}.selective:selective",
        "as in p-asl; the highest scores of a batch, 5 for each image, are left out",
        "Ben-Baruch et al. 2022, class-aware selective loss, by score",
    ),
}
