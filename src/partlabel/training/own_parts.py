"""What a user's own code brings into a training: a network, a transform, a data set, and the settings with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partlabel.core.compute import has_gpu
from partlabel.core.errors import UserError
from partlabel.images.augment import Augment, OwnTransform, augmentation
from partlabel.images.own_dataset import keep_images
from partlabel.labels.table import LabelTable
from partlabel.method.strategies import STRATEGIES
from partlabel.models.own import own_name
from partlabel.training.config import Config
from partlabel.training.presets import DEFAULT
from partlabel.training.run import Run
from partlabel.training.state import Job

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import nn


def chosen(config: Config | None, preset: str | None, earlier: Run | None, model: nn.Module | None) -> Config:
    """Choose the settings of a training; those of a network of a user's name it.

    Raises:
        UserError: a preset beside a config, or settings that do not go with such a network, or need one.
    """
    if config is not None and preset is not None:
        raise UserError("config and preset both choose the settings; give one of them")
    if config is None and preset is None and earlier is not None:
        config = earlier.config
    if config is None:
        config = Config.preset(preset or (DEFAULT if model is None else "gpu"))
        config = config if preset or model is None else config.replace(precision="bf16" if has_gpu() else "32")
    if model is None:
        if config.model.is_own:
            raise UserError(f"these settings are of a network of your own ({config.model.backbone}): give it as model")
        return config
    relabel = config.relabel
    needed = {
        "optim.name = 'sgd' or 'adamw'": config.optim.name != "closed-form",
        "optim.start = 'random'": config.optim.start == "random",
        "model.heads = 1": config.model.heads == 1,
        "model.graph = false": not config.model.graph,
        "model.stages left out": config.model.stages is None,
        "relabel.strategy by score": not relabel.before or STRATEGIES[relabel.strategy].reads != "uncertainty",
    }
    if not all(needed.values()):
        raise UserError("a network of your own needs these settings", [text for text, ok in needed.items() if not ok])
    return config.replace(model__backbone=own_name(model), model__weights="none")


def keep(job: Job, dataset: Any, labels: LabelTable, folder: Path) -> None:
    """Have the images of a user's data set in the folder, on each node.

    Raises:
        UserError: see :func:`partlabel.images.own_dataset.keep_images`.
    """
    with job.engine.together():
        if job.engine.processes.local_rank == 0:
            with job.report.bar("reading the data set") as bar:
                keep_images(dataset, labels.images.to_pylist(), folder, bar)


def names_of(transform: Callable[[Image], Any] | None) -> dict[str, Any]:
    """Say what of a user's code makes two runs the same, by name: the transform."""
    if transform is None:
        return {"transform": None}
    kind = transform if hasattr(transform, "__qualname__") else type(transform)
    return {"transform": f"{kind.__module__}.{kind.__qualname__}"}


def build_augmentation(config: Config, transform: Callable[[Image], Any] | None) -> Augment | None:
    """Build what training images go through besides flips; None where they stay as they are.

    Raises:
        UserError: a transform beside settings that it does not go with.
    """
    wanted = config.augment
    if transform is not None:
        if wanted.of_pixels or config.optim.name == "closed-form":
            other = "augment" if wanted.of_pixels else "a head in closed form, which sees each image once"
            raise UserError(f"a transform of your own does not go with {other}; leave one of the two out")
        return OwnTransform(transform)
    if not wanted.of_pixels:
        return None
    return augmentation(config.images.size, crop=wanted.crop, colour=wanted.colour, policy=wanted.policy)
