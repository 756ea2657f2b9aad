"""The first stages of a network run by onnxruntime on the CPU, where it is installed, gives the same and is faster."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.models.model import Model
from partlabel.models.onnx import INPUT, OPSET, open_session, write_network

#: largest difference from PyTorch's values that is let through, of values up to 1; relative for larger ones
TOLERANCE = 1e-4
#: images below which writing the network takes longer than it saves
FEWEST = 500
_PACKAGES = ("onnx", "onnxruntime", "onnxscript")
_OUTPUT = "features"
#: images that both are tried with, and calls of each that are timed
_TRIED, _CALLS = 8, 3
#: the faster way, and why PyTorch has to do it then, as :func:`compared` says it
_REASONS = {"onnxruntime": None, "PyTorch": ""}

#: uint8 pixels (N, 3, size, size) to the output of the stages, float32 (N, D, h, w)
Features = Callable[[Tensor], Tensor]


def is_averaged(model: Model, stage: int) -> bool:
    """Whether the features of so many stages are averages over the regions."""
    return stage == model.backbone.num_stages and model.head.pool is None


def identity(model: Model, stage: int) -> str:
    """32 hexadecimal digits that change with anything that the features of an image depend on but the image."""
    digest = hashlib.blake2b(digest_size=16)
    about = [model.describe()["preprocessing"], model.config.backbone, stage, is_averaged(model, stage)]
    digest.update(json.dumps(about).encode())
    for module in model.backbone.stage_modules(stage):
        for name, value in module.state_dict().items():
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def plain_features(model: Model, stage: int, pixels: Tensor) -> Tensor:
    """Features of pixels (N, 3, size, size) on the model's device by PyTorch."""
    return model.features(pixels.contiguous(memory_format=torch.channels_last), stage)


def fast_features(
    model: Model, stage: int, sample: Tensor, images: int, folder: Path, say: Callable[[str], None] | None = None
) -> Features:
    """The fastest way to the output of the first stages of a model on the CPU.

    onnxruntime takes part where it is installed, there are many images, and its values are those of PyTorch within
    ``TOLERANCE``. Which is faster is timed on the sample once and then kept, as the last digits differ: the same
    machine does the same again.

    Args:
        model: in evaluation mode.
        stage: number of stages, at least 1.
        sample: uint8 (N, 3, size, size), images as they will come; the first few are looked at.
        images: how many images will be run.
        folder: where the written network, and which way is faster, are kept for the next time.
        say: gets a sentence where onnxruntime cannot take part.

    Returns:
        From pixels on the CPU to values as :meth:`Model.features`, to be called under ``torch.inference_mode``.
    """
    plain = partial(plain_features, model, stage)
    if images < FEWEST or model.pixel_scale.device.type != "cpu":
        return plain
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        return _left(plain, f"onnxruntime is often faster: pip install {' '.join(missing)}", say)
    try:
        compiled, decided = opened(model, stage, sample[:_TRIED], folder)
        reason = compared(plain, compiled, sample[:_TRIED], decided)
    except Exception as error:  # the exporters and onnxruntime raise almost anything
        said = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        return _left(plain, f"onnxruntime cannot: {said}", say)
    return compiled if reason is None else _left(plain, reason, say)


def _left(plain: Features, reason: str, say: Callable[[str], None] | None) -> Features:
    """PyTorch's way, after the reason has been said; an empty one is nothing to speak of."""
    if say and reason:
        say(f"PyTorch runs the backbone ({reason})")
    return plain


class _Stages(nn.Module):
    """The stages as a network of its own, from pixels on."""

    def __init__(self, model: Model, stage: int) -> None:
        super().__init__()
        self.model, self.stage = model, stage

    def forward(self, images: Tensor) -> Tensor:
        return self.model.features(images, self.stage)


def opened(model: Model, stage: int, sample: Tensor, folder: Path) -> tuple[Features, Path]:
    """The written network, written before where it has not been; and the file that says which way is faster."""
    import onnxruntime

    versions = f"{identity(model, stage)} {OPSET} {torch.__version__} {onnxruntime.__version__}"
    path = folder / f"{hashlib.blake2b(versions.encode(), digest_size=16).hexdigest()}.onnx"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        examples = sample if len(sample) > 1 else sample.repeat(2, 1, 1, 1)
        with replacing(path) as temporary, torch.inference_mode(False):
            write_network(_Stages(model, stage), examples, temporary, _OUTPUT)
    session = open_session(path)

    def compiled(pixels: Tensor) -> Tensor:
        return torch.from_numpy(np.asarray(session.run([_OUTPUT], {INPUT: pixels.numpy()})[0]))

    return compiled, path.with_suffix(".faster")


def compared(plain: Features, compiled: Features, sample: Tensor, decided: Path) -> str | None:
    """Why PyTorch has to do it: other values, said in words; not faster, said by an empty text; None: it need not."""
    with torch.inference_mode():
        wanted, found = plain(sample), compiled(sample)
        if wanted.shape != found.shape:
            return f"onnxruntime's output is {tuple(found.shape)}, not {tuple(wanted.shape)}"
        difference = float(((found - wanted).abs() / wanted.abs().clamp_min(1)).max())
        if not difference <= TOLERANCE:
            return f"onnxruntime's values differ by {difference:.2g}"
        return _REASONS[_faster(plain, compiled, sample, decided)]


def _faster(plain: Features, compiled: Features, sample: Tensor, decided: Path) -> str:
    """The name of the faster way, as it was found first."""
    with suppress(OSError, ValueError):
        if (found := decided.read_text(encoding="utf-8")) in _REASONS:
            return found
    seconds: dict[Any, float] = {}
    for _ in range(_CALLS):
        for way in (plain, compiled):
            start = time.perf_counter()
            way(sample)
            seconds[way] = min(seconds.get(way, float("inf")), time.perf_counter() - start)
    name = "onnxruntime" if seconds[compiled] < seconds[plain] else "PyTorch"
    with suppress(OSError, UserError), replacing(decided) as temporary:
        temporary.write_text(name, encoding="utf-8")
    return name
