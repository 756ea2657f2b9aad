"""How sure a model is of its scores: MC dropout over pictures, or over stored features."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from partlabel.errors import UserError
from partlabel.features import Files, Source
from partlabel.images import ImageDataset
from partlabel.method.uncertainty import Uncertainty, mc_dropout
from partlabel.model import Head, Model
from partlabel.progress import Reporter

#: pictures that the backbone takes at once; on a CPU more would not fit its cache, which doubles the time of a picture
_BATCH = {"cpu": 8, "cuda": 64}


def uncertainty(
    model: Model,
    images: Sequence[str | os.PathLike[str]],
    *,
    samples: int = 50,
    seed: int = 0,
    device: str | torch.device | None = None,
    workers: int | None = None,
) -> Uncertainty:
    """Uncertainty of a model on pictures, by MC dropout; the backbone runs once.

    Args:
        model: the classifier; it has dropout. Only the dropout is on, and the mode of every part is put back.
        images: N picture files; the masks depend on the place in this list.
        samples: T, passes of an image, at least 2.
        seed: of the masks.
        device: where to run; None takes the GPU if there is one.
        workers: loader processes; None chooses.

    Returns:
        Measures (N, C) on the CPU, float32, in the order of ``images``; see
        :class:`partlabel.method.uncertainty.Uncertainty`.

    Raises:
        UserError: the model has no dropout or several heads, samples is below 2, or a picture cannot be read.
    """
    paths = [Path(path) for path in images]
    if workers is None:
        workers = 0 if len(paths) <= 64 else max(1, (os.cpu_count() or 1) // 2)
    model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    source = Files(ImageDataset(paths, model.preprocessing.size), workers)
    with Reporter().bar("measuring uncertainty") as bar:
        return uncertainty_from(model, source, np.arange(len(paths)), samples=samples, seed=seed, progress=bar)


def uncertainty_from(
    model: Model,
    source: Source,
    rows: NDArray[np.int64],
    *,
    samples: int = 50,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Uncertainty:
    """Uncertainty on some images of a source, such as stored features; see :func:`uncertainty`.

    Args:
        model: the classifier, on the device where it is to run.
        source: the images, from some stage of the backbone on.
        rows: int64 (N,), the numbers of the images in the source; the masks depend on them.
        samples: T, passes of an image, at least 2.
        seed: of the masks.
        progress: called with (images done, images in all).

    Returns:
        Measures (N, C) on the CPU, in the order of ``rows``.

    Raises:
        UserError: the model has no dropout or several heads, or samples is below 2.
    """
    head = model.head
    if not isinstance(head, Head):
        raise UserError(f"uncertainty by dropout takes a model with one head, not {model.config.heads}")
    if not head.dropout.p:
        raise UserError("the model has no dropout, uncertainty would be 0; train with model.dropout above 0")
    if samples < 2:
        raise UserError(f"samples is at least 2, not {samples}: one pass has no variance")
    result = torch.empty(len(Uncertainty._fields), len(rows), len(model.classes))
    device = model.pixel_scale.device
    step = _BATCH.get(device.type, _BATCH["cpu"])
    places = [slice(a, a + step) for a in range(0, len(rows), step)]
    batches = source.batches([rows[place] for place in places], None)
    with _evaluation(model), torch.inference_mode():
        for place, pictures in zip(places, batches, strict=True):
            x = pictures.to(device)
            if not source.stage:
                x = model.normalise(x.contiguous(memory_format=torch.channels_last))
            features = model.backbone(x, first=source.stage)
            numbers = torch.from_numpy(rows[place])
            found = mc_dropout(head, features, numbers, samples=samples, seed=seed)
            result[:, place] = torch.stack(found).float().cpu()
            progress(min(place.stop, len(rows)), len(rows))
    return Uncertainty(*result)


@contextmanager
def _evaluation(model: Model) -> Generator[None, None, None]:
    """Evaluation mode for the block; afterwards each part is in the mode that it was in."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
