"""Where in an image a class is seen: its score map, or what each region adds to its score."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partlabel.core.compute import autocast, default_device, inference_batch, loader_workers
from partlabel.core.progress import Reporter
from partlabel.images import ImageDataset, make_loader
from partlabel.models.model import Head, Heads, Model


def class_map(head: Head | Heads, features: Tensor, classes: Tensor) -> Tensor:
    """Evidence for one class of each image, region by region; the label graph is left out.

    With WELDON pooling it is the score map of the class (Durand, Thome, Cord, CVPR 2016). With averaged features it is
    the gradient of the score times the features, summed over the channels, which for a linear classifier is the class
    activation map of Zhou et al. (CVPR 2016) up to a constant, and holds for square roots of features too.

    Args:
        head: one, or several whose maps are averaged.
        features: (N, D, h, w), what the backbone gives.
        classes: (N,) the class of each image.

    Returns:
        (N, h, w), higher where the class is seen.

    >>> head = Model.load("run").head
    >>> class_map(head, torch.rand(2, head.classifier.in_channels, 4, 4), torch.tensor([0, 1])).shape
    torch.Size([2, 4, 4])
    """
    if isinstance(head, Heads):
        return torch.stack([class_map(own, features, classes) for own in head.members]).mean(0)  # type: ignore[arg-type]
    weight = head.classifier.weight[classes, :, 0, 0]  # (N, D)
    with torch.enable_grad():
        free = features.detach().requires_grad_()
        standard = head.before_dropout(free)
        if head.pool is not None:
            return torch.einsum("nd,ndhw->nhw", weight, standard).detach()
        score = (weight * standard.flatten(1)).sum()
        (gradient,) = torch.autograd.grad(score, free)
    return (gradient * free).sum(1).detach()


def class_maps(
    model: Model,
    paths: Sequence[str | os.PathLike[str]],
    classes: Sequence[int] | NDArray[np.integer],
    *,
    workers: int | None = None,
) -> NDArray[np.float32]:
    """Evidence for one class of each image file, region by region.

    Args:
        model: the classifier, the mode of which is put back afterwards.
        paths: N image files.
        classes: N numbers of classes.
        workers: loader processes; None chooses.

    Returns:
        (N, h, w) float32, higher where the class is seen; the regions share the whole image out evenly.

    Raises:
        UserError: an image cannot be read.
    """
    files, wanted = [Path(path) for path in paths], torch.as_tensor(np.asarray(classes))
    device = torch.device(default_device())
    size = inference_batch(device.type)
    batches = [list(range(start, min(start + size, len(files)))) for start in range(0, len(files), size)]
    workers = loader_workers(device.type, workers, len(files))
    loader = make_loader(ImageDataset(files, model.preprocessing.size), batches, workers)
    was_training, found = model.training, []
    model.eval().to(device)
    with torch.no_grad(), Reporter().bar("finding where classes are seen") as bar:
        for rows, (pixels, _) in zip(batches, loader, strict=True):
            with autocast(device, model.precision):
                x = pixels.to(device, non_blocking=True).contiguous(memory_format=torch.channels_last)
                features = model.backbone(model.normalise(x))
            found.append(class_map(model.head, features.float(), wanted[rows].to(device)).cpu().numpy())
            bar(rows[-1] + 1, len(files))
    model.train(was_training)
    return np.concatenate(found) if found else np.empty((0, 1, 1), np.float32)
