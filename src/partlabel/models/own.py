"""A network of a user's in place of a timm backbone and its head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from partlabel.core.errors import UserError
from partlabel.models.config import ModelConfig

#: what the name of the backbone begins with in the settings of a run with a network of a user's
OWN = "own:"


class OwnBackbone(nn.Module):
    """The stages of a network of a user's, as far as it names them; otherwise all of it is one stage.

    Attributes:
        num_stages: number of stages.

    Args:
        network: with ``stages``, a sequence of modules applied one after the other, and ``head``; or any module.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.has_stages = has_stages(network)
        own: Any = network
        self.stages = nn.ModuleList(own.stages if self.has_stages else [network])
        self.num_stages = len(self.stages)

    def forward(self, images: Tensor, first: int = 0, last: int | None = None) -> Tensor:
        """Run stages ``first`` to ``last`` (excluded), see :meth:`partlabel.models.backbone.Backbone.forward`."""
        x = images
        for stage in self.stages[first:last]:
            x = stage(x)
        return x

    def stage_parameters(self, last: int) -> list[nn.Parameter]:
        """Parameters of the stages before ``last``."""
        return [p for module in self.stage_modules(last) for p in module.parameters()]

    def stage_modules(self, last: int) -> list[nn.Module]:
        """Modules of the stages before ``last``."""
        return list(self.stages[:last])

    def unused_parameters(self, size: int) -> list[nn.Parameter]:
        """Find parameters that no output depends on, see :meth:`Backbone.unused_parameters` beside this."""
        was_training, trained = self.training, [p for p in self.parameters() if p.requires_grad]
        self.eval()
        example = torch.zeros(1, 3, size, size, device=trained[0].device if trained else None)
        with torch.enable_grad():
            gradients = torch.autograd.grad(self(example).sum(), trained, allow_unused=True) if trained else ()
        self.train(was_training)
        return [parameter for parameter, gradient in zip(trained, gradients, strict=True) if gradient is None]


class OwnHead(nn.Module):
    """The head of a network of a user's; nothing where the network has no stages, as the scores are there already."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        own: Any = network
        self.module = own.head if has_stages(network) else nn.Identity()
        self.pool = "its own"  # what the stages give is not averaged

    def forward(self, features: Tensor) -> Tensor:
        """Output of the last stage to scores (N, C)."""
        return self.module(features)


def has_stages(network: nn.Module) -> bool:
    """Whether a network has ``stages``, a sequence of modules, and ``head``, a module."""
    stages, head = getattr(network, "stages", None), getattr(network, "head", None)
    is_sequence = isinstance(stages, nn.ModuleList | nn.Sequential | list | tuple)
    return is_sequence and len(stages) > 0 and isinstance(head, nn.Module)  # type: ignore[bad-argument-type]


def own_name(network: nn.Module) -> str:
    """What a network is called in settings and messages."""
    return f"{OWN}{type(network).__module__}.{type(network).__qualname__}"


def check_network(folder: Path, config: ModelConfig, network: nn.Module | None) -> None:
    """Refuse a stored model without the user's network that it belongs to, or with one that it does not belong to.

    Raises:
        UserError: so it is.
    """
    if config.is_own and network is None:
        name = config.backbone.removeprefix(OWN)
        raise UserError(
            f"{folder}: was trained with a network of your own ({name}), of which only the weights are stored; give "
            "it in Python: partlabel.Run(folder, model=network)"
        )
    if network is not None and not config.is_own:
        raise UserError(f"{folder}: holds {config.backbone}, which needs no network of your own")


def check_scores(model: nn.Module, name: str, size: int, classes: int) -> None:
    """Run one image, so that a network that does not fit is refused before anything else happens.

    Raises:
        UserError: it does not take images (1, 3, size, size) in floating point, or does not give scores (1, classes).
    """
    was_training = model.training
    model.eval()
    device = next((p.device for p in model.parameters()), None)
    try:
        with torch.no_grad():
            scores = model(torch.zeros(1, 3, size, size, device=device))
    except Exception as error:  # it is the user's code
        raise UserError(f"{name} does not take a batch of one image of {size} px ({type(error).__name__})") from error
    finally:
        model.train(was_training)
    if not isinstance(scores, Tensor) or tuple(scores.shape) != (1, classes):
        gives = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise UserError(f"{name} has to give a score for each of the {classes} classes, (N, {classes}), not {gives}")
