"""A timm model as a row of stages that ends in a spatial map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from timm.models.convnext import ConvNeXt
from timm.models.efficientnet import EfficientNet
from timm.models.mobilenetv3 import MobileNetV3
from timm.models.resnet import ResNet
from torch import Tensor, nn

from partlabel.core.errors import UserError


class Backbone(nn.Module):
    """A timm model cut into stages, so that the first ones can be run once and stored.

    ResNets, EfficientNets, MobileNetV3s and ConvNeXts have a stage for the stem and one for each group of blocks (and
    for the last convolution, where there is one). Any other model is one stage.

    Attributes:
        net: the timm model; its parameters keep timm's names.
        num_stages: number of stages in use.
        channels: channels of the last stage's map.

    Args:
        net: a timm model without classifier and pooling.
        size: side in pixels of the pictures.
        stages: use only the first ones; None uses all.

    Raises:
        UserError: the model has fewer stages, or gives no spatial map.
    """

    def __init__(self, net: nn.Module, size: int, stages: int | None = None) -> None:
        super().__init__()
        self.net = net
        parts = _parts(net)
        if stages is not None and stages > len(parts):
            raise UserError(f"the backbone {type(net).__name__} has {len(parts)} stages, not {stages}")
        if stages is not None:
            for name in _unused(net, parts[stages:]):
                setattr(net, name, nn.Identity())
        self._parts = parts[:stages]
        self.num_stages = len(self._parts)
        self.channels = self._probe(size).shape[1]

    def forward(self, images: Tensor, first: int = 0, last: int | None = None) -> Tensor:
        """Run stages ``first`` to ``last`` (excluded).

        Args:
            images: normalised pictures (N, 3, H, W), or the output of stage ``first - 1``.
            first: first stage to run.
            last: stage to stop before; None runs to the end.

        Returns:
            (N, D, h, w) map.
        """
        x = images
        for part in self._parts[first:last]:
            x = part(x)
        return x

    def stage_parameters(self, last: int) -> list[nn.Parameter]:
        """Parameters of the stages before ``last``."""
        return [p for module in self.stage_modules(last) for p in module.parameters()]

    def stage_modules(self, last: int) -> list[nn.Module]:
        """Modules of the stages before ``last``."""
        if last == self.num_stages:
            return [self.net]
        return [module for part in self._parts[:last] for module in getattr(part, "modules", [self.net])]

    def _probe(self, size: int) -> Tensor:
        was_training = self.net.training
        self.net.eval()
        try:
            with torch.no_grad():
                out = self(torch.zeros(1, 3, size, size))
        except (RuntimeError, AssertionError) as error:
            raise UserError(
                f"the backbone {type(self.net).__name__} does not take pictures of {size} px: {error}"
            ) from None
        finally:
            self.net.train(was_training)
        if out.ndim != 4:
            raise UserError(f"the backbone {type(self.net).__name__} gives no spatial map (output {tuple(out.shape)})")
        return out


class _Stage:
    """Modules applied one after the other; not a Module, so that parameters keep the names they have in the net."""

    def __init__(self, *modules: Any) -> None:
        self.modules: list[nn.Module] = list(modules)

    def __call__(self, x: Tensor) -> Tensor:
        for module in self.modules:
            x = module(x)
        return x


def _parts(net: nn.Module) -> list[Callable[[Tensor], Tensor]]:
    if isinstance(net, (EfficientNet, MobileNetV3)):
        parts = [_Stage(net.conv_stem, net.bn1), *(_Stage(block) for block in net.blocks)]
        if isinstance(net, EfficientNet):
            parts.append(_Stage(net.conv_head, net.bn2))
        else:  # MobileNetV3 has its last convolution after the pooling
            net.conv_head, net.norm_head = nn.Identity(), nn.Identity()
        return list(parts)
    if isinstance(net, ResNet):
        stem = _Stage(net.conv1, net.bn1, net.act1, net.maxpool)
        return [stem, *(_Stage(layer) for layer in (net.layer1, net.layer2, net.layer3, net.layer4))]
    if isinstance(net, ConvNeXt):
        stages = [_Stage(stage) for stage in net.stages]
        stages[-1].modules.append(net.norm_pre)
        net.head = nn.Identity()  # type: ignore[bad-assignment]
        return [_Stage(net.stem), *stages]
    return [_Whole(net)]


class _Whole:
    """A model without known stages: its final map, from the features themselves or from its intermediates."""

    def __init__(self, net: Any) -> None:
        self.net = net
        self.kind: str | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if self.kind is None:
            self.kind = self._kind_of(self.net.forward_features(x))
        if self.kind == "intermediates":
            return self.net.forward_intermediates(x, indices=1, norm=True, intermediates_only=True)[-1]
        out = self.net.forward_features(x)
        return out if self.kind == "channels first" else out.permute(0, 3, 1, 2)

    def _kind_of(self, out: Tensor) -> str:
        if out.ndim == 4 and out.shape[1] == self.net.num_features:
            return "channels first"
        if out.ndim == 4 and out.shape[3] == self.net.num_features:
            return "channels last"
        if hasattr(self.net, "forward_intermediates"):
            return "intermediates"
        raise UserError(f"the backbone {type(self.net).__name__} gives no spatial map")


def _unused(net: nn.Module, parts: list[Callable[[Tensor], Tensor]]) -> list[str]:
    """Names of the children that belong to the given stages only; EfficientNet's blocks share one child."""
    gone = {id(module) for part in parts for module in getattr(part, "modules", [])}
    names = [name for name, child in net.named_children() if id(child) in gone]
    blocks = getattr(net, "blocks", None)
    if isinstance(blocks, nn.Sequential) and isinstance(net, (EfficientNet, MobileNetV3)):
        net.blocks = nn.Sequential(*(block for block in blocks if id(block) not in gone))
    return names
