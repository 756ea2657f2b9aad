"""Train multi-label image classifiers when only some labels of each image are known, and fill in the rest.

The public names are loaded when they are first used, so that ``import partlabel`` itself loads neither torch nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partlabel import formats, method, metrics
    from partlabel.app.api import (
        complete,
        export,
        next_labels,
        read,
        relabel,
        report,
        review,
        suspects,
        thresholds,
    )
    from partlabel.app.demo.job import run as demo
    from partlabel.app.download import download
    from partlabel.images.dataset import PartialLabelDataset
    from partlabel.labels import simulate
    from partlabel.labels.diff import diff
    from partlabel.labels.holdout import hold_out
    from partlabel.labels.inspect import inspect
    from partlabel.labels.table import LabelTable
    from partlabel.method.loss import PartialBCE
    from partlabel.models.model import Model
    from partlabel.tasks.evaluate import evaluate
    from partlabel.tasks.predict import predict
    from partlabel.training.callbacks import Callback
    from partlabel.training.config import Config
    from partlabel.training.loop import train
    from partlabel.training.run import Run

    __version__: str

__all__ = [
    "Callback",
    "Config",
    "LabelTable",
    "Model",
    "PartialBCE",
    "PartialLabelDataset",
    "Run",
    "__version__",
    "complete",
    "demo",
    "diff",
    "download",
    "evaluate",
    "export",
    "formats",
    "hold_out",
    "inspect",
    "method",
    "metrics",
    "next_labels",
    "predict",
    "read",
    "relabel",
    "report",
    "review",
    "simulate",
    "suspects",
    "thresholds",
    "train",
]

#: public name -> (module, attribute); no attribute: the module itself
_HOMES = {
    "Callback": ("partlabel.training.callbacks", "Callback"),
    "Config": ("partlabel.training.config", "Config"),
    "LabelTable": ("partlabel.labels.table", "LabelTable"),
    "Model": ("partlabel.models.model", "Model"),
    "PartialBCE": ("partlabel.method.loss", "PartialBCE"),
    "PartialLabelDataset": ("partlabel.images.dataset", "PartialLabelDataset"),
    "Run": ("partlabel.training.run", "Run"),
    "complete": ("partlabel.app.api", "complete"),
    "demo": ("partlabel.app.demo.job", "run"),
    "diff": ("partlabel.labels.diff", "diff"),
    "download": ("partlabel.app.download", "download"),
    "evaluate": ("partlabel.tasks.evaluate", "evaluate"),
    "export": ("partlabel.app.api", "export"),
    "formats": ("partlabel.formats", None),
    "hold_out": ("partlabel.labels.holdout", "hold_out"),
    "inspect": ("partlabel.labels.inspect", "inspect"),
    "method": ("partlabel.method", None),
    "metrics": ("partlabel.metrics", None),
    "next_labels": ("partlabel.app.api", "next_labels"),
    "predict": ("partlabel.tasks.predict", "predict"),
    "read": ("partlabel.app.api", "read"),
    "relabel": ("partlabel.app.api", "relabel"),
    "report": ("partlabel.app.api", "report"),
    "review": ("partlabel.app.api", "review"),
    "simulate": ("partlabel.labels.simulate", None),
    "suspects": ("partlabel.app.api", "suspects"),
    "thresholds": ("partlabel.app.api", "thresholds"),
    "train": ("partlabel.training.loop", "train"),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("partlabel")
    if name not in _HOMES:
        raise AttributeError(f"module 'partlabel' has no attribute {name!r}")
    module_name, attribute = _HOMES[name]
    module = import_module(module_name)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
