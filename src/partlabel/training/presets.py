"""The presets of a training, by name, as plain values: what differs from the defaults of ``Config``. Loads no torch.

To add a preset, add its line here: the names that ``Config.preset`` knows, the choices and the help of the command line
and the table in the guide are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """One preset.

    Attributes:
        what: what it does and whom it suits, for people.
        settings: what differs from the defaults, as in a settings file.
    """

    what: str
    settings: Mapping[str, Any]


#: ResNet-101 WELDON with the weights that the paper started from (timm's plain name means another recipe); the backbone
#: at a tenth of the rate, as in the author's PyTorch code (docs/equations.md says what is whose)
_PAPER: dict[str, Any] = {
    "model": {"backbone": "resnet101.tv_in1k"},
    "images": {"size": 448},
    "optim": {"learning_rate": 0.001, "head_learning_rate": 0.01},
}

#: what is taken where nobody chose, and what chooses by itself (:mod:`partlabel.training.choosing`)
DEFAULT, AUTO = "small", "auto"
_AUTO = "looks at the table and the machine, tries a few settings on known labels for two minutes at most, and says why"

PRESETS: dict[str, Preset] = {
    "small": Preset(
        "keeps the backbone (EfficientNet-Lite0, 288 px) as it is and solves the part on top at once; for a laptop",
        {
            "model": {"pooling": "average", "square_root": True},
            "images": {"size": 288, "flip": False},
            # the rest is for who chooses --optimizer sgd
            "optim": {
                "name": "closed-form",
                "epochs": 20,
                "batch_size": 64,
                "learning_rate": 0.5,
                "weight_decay": 2e-3,
                "schedule": "cosine",
            },
            "freeze": "all",
        },
    ),
    "small-tuned": Preset(
        "goes on from `small`: the last stages of the backbone learn too, at small rates, on mixed images; minutes "
        "more on a laptop, for tables with many known labels",
        {
            "model": {"pooling": "average", "square_root": True},
            "images": {"size": 288},
            "augment": {"mix": "mixup"},
            "loss": {"name": "bce"},
            "optim": {
                "start": "closed-form",
                "name": "adamw",
                "epochs": 4,
                "batch_size": 32,
                "learning_rate": 3e-4,
                "layer_decay": 0.7,
                "weight_decay": 0.05,
                "schedule": "cosine",
                "warmup": 0.2,
                "ema": 0.998,
            },
            "freeze": 6,
            "freeze_batch_norm": True,
        },
    ),
    "gpu": Preset(
        "trains a whole ConvNeXt-Tiny at 288 px in bf16, with mixed images, rates by stage, a mean of the weights and "
        "early stopping; for one GPU",
        {
            "model": {"backbone": "convnext_tiny.in12k_ft_in1k", "pooling": "average", "square_root": True},
            "images": {"size": 288},
            "augment": {"mix": "mixup"},
            "optim": {
                "start": "closed-form",
                "name": "adamw",
                "epochs": 15,
                "batch_size": 32,
                "learning_rate": 1e-4,
                "layer_decay": 0.7,
                "head_learning_rate": 1e-4,
                "weight_decay": 0.05,
                "schedule": "cosine",
                "warmup": 0.5,
                "ema": 0.998,
                "patience": 3,
                "clip_norm": 1.0,
            },
            "precision": "bf16",
        },
    ),
    "paper": Preset("trains a whole ResNet-101 WELDON at 448 px with the paper's settings; wants a GPU", _PAPER),
    "paper-full": Preset(
        "is `paper` with the label graph and two rounds of relabelling by uncertainty, the paper's full model",
        {
            **_PAPER,
            "model": {**_PAPER["model"], "graph": True, "dropout": 0.5},
            "relabel": {"before": [10, 15], "strategy": "uncertainty", "theta": 0.3},
        },
    ),
}


def descriptions() -> dict[str, str]:
    """What each preset does, by its name, the automatic one last."""
    return {name: preset.what for name, preset in PRESETS.items()} | {AUTO: _AUTO}


def in_words() -> str:
    """What each preset does, in one sentence for each."""
    return "; ".join(f"`{name}` {what.replace(';', ',')}" for name, what in descriptions().items())
