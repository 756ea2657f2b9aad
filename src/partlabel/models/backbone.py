"""A timm model as a row of stages that ends in a spatial map."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from timm.models.convnext import ConvNeXt
from timm.models.efficientnet import EfficientNet
from timm.models.mobilenetv3 import MobileNetV3
from timm.models.resnet import ResNet
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from partlabel.core.errors import UserError


class Backbone(nn.Module):
    """A timm model cut into stages, so that the first ones can be run once and stored.

    ResNets, EfficientNets, MobileNetV3s and ConvNeXts have a stage for the stem and one for each group of blocks (and
    for the last convolution, where there is one). Vision transformers (ViT, DeiT, DINOv2, CLIP, SigLIP) have a stage
    for the patches and one for each block. Any other model is one stage.

    A transformer with a class token gives a map of twice its width: the class token beside each patch, so that average
    pooling yields the two halves that linear probes of these models take (Oquab et al., DINOv2, 2023, section 7).

    Attributes:
        net: the timm model; its parameters keep timm's names.
        num_stages: number of stages in use.
        channels: channels of the last stage's map.

    Args:
        net: a timm model without classifier and pooling.
        size: side in pixels of the images.
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
            images: normalised images (N, 3, H, W), or the output of stage ``first - 1``.
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

    def unused_parameters(self, size: int) -> list[nn.Parameter]:
        """Find parameters that no output depends on, such as a second head: some models without stages have them.

        Left to be trained, they would make training in several processes wait for their gradients.
        """
        if not isinstance(self._parts[0], _Whole):
            return []
        was_training, trained = self.net.training, [p for p in self.net.parameters() if p.requires_grad]
        self.net.eval()
        example = torch.zeros(1, 3, size, size, device=trained[0].device if trained else None)
        with torch.enable_grad():
            gradients = torch.autograd.grad(self(example).sum(), trained, allow_unused=True) if trained else ()
        self.net.train(was_training)
        return [parameter for parameter, gradient in zip(trained, gradients, strict=True) if gradient is None]

    def _probe(self, size: int) -> Tensor:
        was_training = self.net.training
        self.net.eval()
        try:
            with torch.no_grad():
                out = self(torch.zeros(1, 3, size, size))
        except (RuntimeError, AssertionError) as error:
            raise UserError(f"the backbone {type(self.net).__name__} does not take images of {size} px") from error
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
    if type(net) is VisionTransformer:
        return [_Patches(net), *(_Stage(block) for block in net.blocks[:-1]), _LastBlock(net)]
    if isinstance(net, ConvNeXt):
        stages = [_Stage(stage) for stage in net.stages]
        stages[-1].modules.append(net.norm_pre)
        net.head = nn.Identity()  # type: ignore[bad-assignment]
        return [_Stage(net.stem), *stages]
    return [_Whole(net)]


class _Patches(_Stage):
    """The first stage of a vision transformer: an image to its tokens."""

    def __init__(self, net: VisionTransformer) -> None:
        # the class token and the positions belong to the net itself; here they are found, frozen and hashed with it
        own = nn.ParameterDict(dict(net.named_parameters(recurse=False)))
        super().__init__(net.patch_embed, net.norm_pre, own)
        self.net = net

    def __call__(self, x: Tensor) -> Tensor:
        net = self.net
        return net.norm_pre(net.patch_drop(net._pos_embed(net.patch_embed(x))))


class _LastBlock(_Stage):
    """The last stage of a vision transformer: the last block and the map of its patches."""

    def __init__(self, net: VisionTransformer) -> None:
        super().__init__(net.blocks[-1], net.norm)
        self.net = net

    def __call__(self, x: Tensor) -> Tensor:
        tokens = super().__call__(x)
        prefix = self.net.num_prefix_tokens
        return _map(
            tokens[:, prefix:], tokens[:, 0] if self.net.has_class_token else None, self.net.patch_embed.grid_size
        )


def _map(patches: Tensor, class_token: Tensor | None, grid: tuple[int, int]) -> Tensor:
    """Patch tokens (N, h * w, D) as a map (N, D, h, w), with the class token (N, D) beside each: (N, 2 D, h, w)."""
    maps = patches.transpose(1, 2).unflatten(2, grid)
    return maps if class_token is None else torch.cat([maps, class_token[:, :, None, None].expand_as(maps)], 1)


class _Whole:
    """A model without known stages: its final map, from the features themselves or from its intermediates."""

    def __init__(self, net: Any) -> None:
        self.net = net
        self.kind: str | None = None
        self.normed = True

    def __call__(self, x: Tensor) -> Tensor:
        if self.kind is None:
            self.kind = self._kind_of(self.net.forward_features(x))
        if self.kind == "intermediates":
            return self._intermediates(x)
        out = self.net.forward_features(x)
        return out if self.kind == "channels first" else out.permute(0, 3, 1, 2)

    def _intermediates(self, x: Tensor) -> Tensor:
        """Give the map of the last block, with the class token beside each region where the model hands it out."""
        options: dict[str, Any] = {"indices": 1, "norm": self.normed, "intermediates_only": True}
        if "return_prefix_tokens" not in inspect.signature(self.net.forward_intermediates).parameters:
            return self.net.forward_intermediates(x, **options)[-1]
        if getattr(self.net, "cls_token", None) is None:
            return self.net.forward_intermediates(x, **options)[-1]
        maps, prefix = self.net.forward_intermediates(x, **options, return_prefix_tokens=True)[-1]
        return _map(maps.flatten(2).transpose(1, 2), prefix[:, 0], maps.shape[2:])

    def _kind_of(self, out: Tensor) -> str:
        if out.ndim == 4 and out.shape[1] == self.net.num_features:
            return "channels first"
        if out.ndim == 4 and out.shape[3] == self.net.num_features:
            return "channels last"
        if hasattr(self.net, "forward_intermediates"):
            self.normed = type(self.net).__name__ != "Hiera"  # it normalises only what it has pooled
            return "intermediates"
        raise UserError(f"the backbone {type(self.net).__name__} gives no spatial map")


def _unused(net: nn.Module, parts: list[Callable[[Tensor], Tensor]]) -> list[str]:
    """Names of the children that belong to the given stages only; EfficientNet's blocks share one child."""
    gone = {id(module) for part in parts for module in getattr(part, "modules", [])}
    names = [name for name, child in net.named_children() if id(child) in gone]
    blocks = getattr(net, "blocks", None)
    if isinstance(blocks, nn.Sequential) and isinstance(net, (EfficientNet, MobileNetV3, VisionTransformer)):
        net.blocks = nn.Sequential(*(block for block in blocks if id(block) not in gone))
    return names
