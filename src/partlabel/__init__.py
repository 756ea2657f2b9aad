"""Train multi-label image classifiers when only some labels of each image are known, and fill in the rest.

The public names are loaded when they are first used, so that ``import partlabel`` itself loads neither torch nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partlabel import formats, method, metrics, simulate
    from partlabel.images.dataset import PartialLabelDataset
    from partlabel.labels.table import LabelTable
    from partlabel.method.loss import PartialBCE
    from partlabel.models.model import Model
    from partlabel.tasks.predict import predict
    from partlabel.training.config import Config
    from partlabel.training.loop import train
    from partlabel.training.run import Run

    __version__: str

__all__ = [
    "Config",
    "LabelTable",
    "Model",
    "PartialBCE",
    "PartialLabelDataset",
    "Run",
    "__version__",
    "formats",
    "method",
    "metrics",
    "predict",
    "simulate",
    "train",
]

#: public name -> (module, attribute); no attribute: the module itself
_HOMES = {
    "Config": ("partlabel.training.config", "Config"),
    "LabelTable": ("partlabel.labels.table", "LabelTable"),
    "Model": ("partlabel.models.model", "Model"),
    "PartialBCE": ("partlabel.method.loss", "PartialBCE"),
    "PartialLabelDataset": ("partlabel.images.dataset", "PartialLabelDataset"),
    "Run": ("partlabel.training.run", "Run"),
    "formats": ("partlabel.formats", None),
    "method": ("partlabel.method", None),
    "metrics": ("partlabel.metrics", None),
    "predict": ("partlabel.tasks.predict", "predict"),
    "simulate": ("partlabel.labels.simulate", None),
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
