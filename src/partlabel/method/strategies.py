"""The strategies that say which unknown labels are easy, by name. Loads no torch until one is asked for.

To add a strategy, write its function in :mod:`partlabel.method.curriculum` and add its line here: the names that a
configuration allows, the choices of the command line and the list in the guide are made from this table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Strategy:
    """One strategy.

    Attributes:
        function: ``module:name``. What is called depends on ``reads``: "scores": ``(scores, labels, theta)`` on a
            mini-batch, "uncertainty": ``(scores, uncertainty, labels, theta)`` on a mini-batch, with the mean scores
            and the uncertainty of MC dropout, "class": ``(scores, labels, prior, theta, theta_absent)`` on some
            classes of all images. Labels int8 (N, C) in and out.
        theta: where none is chosen, the paper's best; None where the function takes no theta.
        when: when it fills in an unknown label, for people.
        reads: see ``function``.
        is_share: theta is a share of the unknown labels, at most 1.
    """

    function: str
    theta: float | None
    when: str
    reads: Literal["scores", "uncertainty", "class"] = "scores"
    is_share: bool = False

    def load(self) -> Callable[..., Tensor]:
        """Import the function; it takes a theta in any case."""
        module, _, name = self.function.partition(":")
        function = getattr(import_module(module), name)
        return function if self.theta is not None else lambda scores, labels, theta: function(scores, labels)


_HERE = "partlabel.method.curriculum"
STRATEGIES: dict[str, Strategy] = {
    "score-threshold": Strategy(
        f"{_HERE}:score_threshold",
        2.0,
        "the score is at least theta (present) or below minus theta (absent); the paper's [a], and [d] with "
        "`model.heads` above 1",
    ),
    "score-proportion": Strategy(
        f"{_HERE}:score_proportion",
        0.4,
        "it is among the share theta of its mini-batch with the largest scores of either sign; [b]",
        is_share=True,
    ),
    "positive-only": Strategy(f"{_HERE}:positive_only", 5.0, "the score is at least theta, as present; [c]"),
    "uncertainty": Strategy(
        f"{_HERE}:uncertainty_threshold",
        0.3,
        "the uncertainty over samples of dropout is at most theta; [e]; the sign of the mean score decides",
        reads="uncertainty",
    ),
    "all-at-once": Strategy(
        f"{_HERE}:all_at_once", None, "always, by the sign of its score; the paper's 2-step baseline"
    ),
    "class-adaptive": Strategy(
        f"{_HERE}:class_adaptive",
        1.0,
        "it is among the share theta of its class with the highest or lowest scores, so that the class stays as "
        "frequent as among the known labels (after CAP, 2023); all that is unknown of a class is absent where only "
        "present labels of it are known",
        reads="class",
        is_share=True,
    ),
}
