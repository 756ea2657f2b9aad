"""The metrics of one evaluation, with the forms in which they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partlabel.core.optional import load
from partlabel.metrics import report
from partlabel.metrics.values import MetricValues

if TYPE_CHECKING:
    from pandas import DataFrame


class Metrics(MetricValues):
    """The metrics of one evaluation: values as described at :class:`MetricValues`, as JSON, text or a data frame.

    >>> from partlabel.metrics import evaluate
    >>> found = evaluate([[2.0], [-1.0], [0.5]], [[1], [-1], [-1]], class_names=["cat"])
    >>> found.mean_ap, found.micro_f1
    (1.0, 0.6666666666666666)
    """

    def to_dict(self) -> dict[str, Any]:
        """Everything as values that JSON can hold: ratios in [0, 1], None where undefined."""
        return report.to_dict(self)

    def __str__(self) -> str:
        """Return :meth:`table` with as many classes as a screen holds."""
        return self.table()

    def _repr_html_(self) -> str:
        """Show the metrics, and the classes with the lowest average precision, in a notebook."""
        return report.html(self)

    def table(self, classes: int = 20) -> str:
        """The metrics as text in percent, with at most this many classes (those of the lowest average precision)."""
        return report.table(self, classes)

    def to_pandas(self) -> DataFrame:
        """Return one row for each class: known labels and metrics in [0, 1], NaN where undefined.

        Raises:
            UserError: pandas is not installed.
        """
        pandas = load("data frames need", "pandas")
        names = ("present", "absent", "average_precision", "roc_auc", "precision", "recall", "f1")
        columns = {name: getattr(self, name) for name in names}
        index = pandas.Index(self.class_names, name="class")
        return pandas.DataFrame({**columns, "threshold": self.thresholds}, index=index)[~self.excluded]
