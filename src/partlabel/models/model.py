"""The network: backbone -> dropout -> 1x1 convolution -> WELDON pooling -> optional label graph; saved as a folder."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from timm.data import resolve_model_data_config
from torch import Tensor, nn

from partlabel.core.errors import UserError
from partlabel.core.files import make_folder
from partlabel.method.graph import LabelGraph
from partlabel.method.pooling import WeldonPool2d
from partlabel.metrics.calibration import Calibration, sigmoid
from partlabel.models.backbone import Backbone
from partlabel.models.config import ModelConfig
from partlabel.models.description import (
    DESCRIPTION_FILE,
    VERSION,
    WEIGHTS_FILE,
    decision,
    read_description,
    write_description,
)
from partlabel.models.own import OwnBackbone, OwnHead, check_network, check_scores, own_name
from partlabel.models.stored import read_state, write_state
from partlabel.models.weights import create_backbone


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """How an image becomes the model's input; the model itself applies mean and std.

    ``size``: side of the square in pixels. ``mean`` and ``std``: per channel, of values in [0, 1].
    ``resize``: squash without keeping the aspect ratio, bilinear, antialiased. ``orientation``: EXIF turns are applied.
    ``background``: what transparent pixels are laid on.
    """

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resize: str = "squash, bilinear, antialias"
    orientation: str = "exif applied"
    background: str = "white"


class Head(nn.Module):
    """Everything after the backbone.

    With "weldon", a 1x1 convolution gives one score map per class, which WELDON pools; with "average", the map is
    averaged first and the convolution is a linear layer on it. The input can be standardised per channel (see
    :meth:`standardise`).
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, channels: int, num_classes: int, config: ModelConfig) -> None:
        super().__init__()
        self.pooling = config.pooling
        self.square_root = config.square_root
        self.register_buffer("shift", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Conv2d(channels, num_classes, kernel_size=1)
        self.pool = (
            WeldonPool2d(config.k_max, config.k_min, halved=config.halved) if config.pooling == "weldon" else None
        )
        try:
            self.graph = LabelGraph(num_classes, config.graph_hidden, config.graph_steps) if config.graph else None
        except ValueError as error:
            raise UserError(f"label graph: {error}") from None

    def forward(self, features: Tensor) -> Tensor:
        """Features (N, D, h, w), or (N, D, 1, 1) where they are averaged already, to scores (N, C)."""
        weight, bias = self.classifier.weight, self.classifier.bias
        if not (self.training and self.dropout.p):
            # standardising folds into the convolution, which saves a pass over the map; folded in full precision
            weight = weight * self.scale[:, None, None]
            bias = bias - (weight.flatten(1) * self.shift).sum(1)  # type: ignore[operator]
            features = self.pooled(features)
        else:
            features = self.dropout(self.before_dropout(features))
        if self.pool is None:  # on one position the convolution is a linear layer, which is faster
            scores = nn.functional.linear(features.flatten(1), weight.flatten(1), bias)
        else:
            scores = self.pool(nn.functional.conv2d(features, weight, bias))
        return scores if self.graph is None else self.graph(scores)

    def before_dropout(self, features: Tensor) -> Tensor:
        """What the dropout takes in training: the features, averaged with "average" pooling, standardised."""
        return (self.pooled(features) - self.shift[:, None, None]) * self.scale[:, None, None]

    def pooled(self, features: Tensor) -> Tensor:
        """Features (N, D, h, w) as the classifier takes them, before they are standardised.

        With "average" pooling (N, D, 1, 1): averaged, and of each its square root with the sign kept, where the model
        has that. Magnitudes below 1e-6 count as 1e-6, so that the slope of the root stays finite.
        """
        if self.pool is None and features.shape[-1] * features.shape[-2] > 1:
            features = features.mean((2, 3), keepdim=True)
        if self.square_root:
            features = features.sign() * features.abs().clamp_min(1e-6).sqrt()
        return features

    def standardise(self, mean: Tensor, std: Tensor) -> None:
        """Give each channel mean 0 and deviation 1 before the convolution, from statistics of the training set.

        Args:
            mean: (D,) per channel.
            std: (D,) per channel; channels that never change (std 0) are only shifted.
        """
        self.shift.copy_(mean)
        self.scale.copy_(torch.where(std > 0, 1 / std.clamp_min(torch.finfo(std.dtype).tiny), 1.0))


class Heads(nn.Module):
    """Several heads on one backbone, an ensemble: each has its own start and its own dropout.

    Their scores are kept apart in training, (K, N, C), so that each learns by itself, and averaged in evaluation.
    """

    def __init__(self, channels: int, num_classes: int, config: ModelConfig) -> None:
        super().__init__()
        self.members = nn.ModuleList(Head(channels, num_classes, config) for _ in range(config.heads))

    @property
    def pool(self) -> WeldonPool2d | None:
        """The pooling of each head."""
        return self.members[0].pool  # type: ignore[return-value]

    def forward(self, features: Tensor) -> Tensor:
        """Features as of :class:`Head` to scores, (K, N, C) in training, else their mean (N, C)."""
        share = 1 / len(self.members)  # each head learns as if alone, the backbone from the mean of their gradients
        features = features * share + (features * (1 - share)).detach()
        scores = torch.stack([head(features) for head in self.members])
        return scores if self.training else scores.mean(0)

    def pooled(self, features: Tensor) -> Tensor:
        """See :meth:`Head.pooled`."""
        return self.members[0].pooled(features)  # type: ignore[operator]

    def standardise(self, mean: Tensor, std: Tensor) -> None:
        """See :meth:`Head.standardise`."""
        for head in self.members:
            head.standardise(mean, std)  # type: ignore[operator]


class Model(nn.Module):
    """A multi-label classifier with all that it needs to be used: classes, preprocessing, thresholds, calibration.

    Args:
        config: the network.
        classes: C class names, in the order of the scores.
        size: side in pixels of the images.
        class_ids: the source's ids of the classes, or None.
        thresholds: per class, on scores; present where score >= threshold. None is the default of 0.
        network: a network of a user's in place of backbone and head: normalised float images (N, 3, size, size) to
            scores (N, C). With ``stages``, a sequence of modules, and ``head``, its first stages can be frozen. It
            becomes part of the model. Mean and deviation are those of its ``pretrained_cfg`` (timm's), else ImageNet's.

    Attributes:
        threshold_goal: what the thresholds were chosen by, in words; "default" where nobody chose.
        threshold_sources: per class, where its threshold came from, a key of
            :data:`partlabel.metrics.thresholds.SOURCES`.
        calibration: how scores become probabilities; None is the plain sigmoid.
        precision: in which it is run outside of the steps of a training, a value of ``Config.precision``; not stored.
        start_note: which classes go on from an earlier model, where it had other ones; None otherwise.

    Raises:
        UserError: see :func:`partlabel.models.weights.create_backbone` and :class:`Backbone`.

    >>> model = Model.load("run")
    >>> model.classes, model.preprocessing.size
    (('red', 'green'), 32)
    """

    pixel_scale: Tensor
    pixel_shift: Tensor

    def __init__(
        self,
        config: ModelConfig,
        classes: Sequence[str],
        size: int,
        class_ids: Sequence[str] | None = None,
        thresholds: Sequence[float] | None = None,
        network: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.classes = tuple(classes)
        self.class_ids = None if class_ids is None else tuple(class_ids)
        self.thresholds = tuple(thresholds) if thresholds is not None else (0.0,) * len(self.classes)
        self.threshold_goal = "default"
        self.threshold_sources = ("default",) * len(self.classes)
        self.calibration: Calibration | None = None
        self.precision = "32"
        start = Path(config.weights)
        whole = config.weights not in ("auto", "none") and start.is_dir()
        net = network
        if net is None:
            net = create_backbone(config.backbone, "none" if whole else config.weights, size)
        data = resolve_model_data_config(net)
        self.preprocessing = Preprocessing(size, tuple(data["mean"]), tuple(data["std"]))
        if network is None:
            backbone = Backbone(net, size, config.stages)
            head = (Head if config.heads == 1 else Heads)(backbone.channels, len(self.classes), config)
        else:
            backbone, head = OwnBackbone(network), OwnHead(network)
        self.backbone: Any = backbone
        self.head: Any = head
        self._set_pixels(self.preprocessing)
        self.started_from = start if whole else None
        self.start_note: str | None = None
        if self.started_from:
            self._start_from(self.started_from)
        if network is not None:
            check_scores(self, own_name(network), size, len(self.classes))

    def forward(self, images: Tensor, stage: int = 0) -> Tensor:
        """Scores of a batch.

        Args:
            images: (N, 3, size, size) images in RGB, uint8 or float in 0..255; or, with ``stage`` > 0, the output of
                the backbone's first ``stage`` stages.
            stage: stages of the backbone that have been run already.

        Returns:
            (N, C) float scores, before the sigmoid; of several heads their mean, and (K, N, C) in training.
        """
        x = images if stage else self.normalise(images)
        x = x.contiguous() if self.config.is_own else x  # a user's network may not take channels last
        return self.head(self.backbone(x, first=stage))

    def features(self, images: Tensor, stage: int) -> Tensor:
        """Output of the backbone's first ``stage`` stages, averaged over the regions for "average" pooling."""
        maps = self.backbone(self.normalise(images), last=stage)
        averaged = stage == self.backbone.num_stages and self.head.pool is None
        return maps.mean((2, 3), keepdim=True) if averaged else maps

    def normalise(self, images: Tensor) -> Tensor:
        """Pixels in 0..255 to the backbone's input."""
        return torch.addcmul(self.pixel_shift, images.to(self.pixel_scale.dtype), self.pixel_scale)

    def probabilities(self, scores: NDArray[np.floating]) -> NDArray[np.float64]:
        """Scores (N, C) to probabilities (N, C) in [0, 1]: calibrated where the model is, else the sigmoid."""
        return (
            sigmoid(scores.astype(np.float64)) if self.calibration is None else self.calibration.probabilities(scores)
        )

    def freeze(self, stages: int) -> None:
        """Stop training the first ``stages`` stages of the backbone, and what no output depends on.

        Raises:
            UserError: the backbone has fewer stages.
        """
        if stages > self.backbone.num_stages:
            raise UserError(
                f"{self.config.backbone} has {self.backbone.num_stages} stages; {stages} of them cannot be frozen"
            )
        fixed = self.backbone.stage_parameters(stages) + self.backbone.unused_parameters(self.preprocessing.size)
        for parameter in fixed:
            parameter.requires_grad_(False)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model as a folder: ``model.safetensors`` and ``model.toml``, each whole or not at all.

        Raises:
            UserError: the disk is full or refuses.
        """
        folder = Path(folder)
        make_folder(folder)
        write_state(folder / WEIGHTS_FILE, self.state_dict())
        write_description(folder, self.describe())

    def describe(self) -> dict[str, Any]:
        """All but the weights, as nested plain values."""
        return {
            "version": VERSION,
            "classes": list(self.classes),
            "class_ids": None if self.class_ids is None else list(self.class_ids),
            **decision(self.thresholds, self.threshold_goal, self.threshold_sources, self.calibration),
            "preprocessing": msgspec.to_builtins(dataclasses.asdict(self.preprocessing)),
            "model": dataclasses.asdict(self.config),
        }

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        which: Literal["best", "last"] = "best",
        network: nn.Module | None = None,
    ) -> Model:
        """Read a model folder, or the model of a run folder; needs no network and runs no code from the files.

        Args:
            folder: a folder that :meth:`save` wrote, or a run folder.
            which: of a run folder, the model with the best validation or the last one.
            network: the user's network that was trained, of which only the weights are stored; a copy of it is taken.

        Raises:
            UserError: the folder holds no model, its files are damaged or of a newer version, or the network that
                belongs to it is not given.
        """
        folder = Path(folder)
        if not (folder / DESCRIPTION_FILE).is_file() and (folder / which / DESCRIPTION_FILE).is_file():
            folder = folder / which
        path = folder / DESCRIPTION_FILE
        description = read_description(folder)
        try:
            config = msgspec.convert(description["model"], ModelConfig)
            check_network(folder, config, network)
            preprocessing = msgspec.convert(description["preprocessing"], Preprocessing)
            model = cls(
                dataclasses.replace(config, weights="none"),
                description["classes"],
                preprocessing.size,
                description.get("class_ids"),
                description["thresholds"],
                copy.deepcopy(network),
            )
            model._set_decision(description)
        except (KeyError, msgspec.ValidationError) as error:
            raise UserError(f"{path}: is damaged") from error
        model.config = config
        model._set_pixels(preprocessing)
        state = read_state(folder / WEIGHTS_FILE)
        try:
            model.load_state_dict(state)
        except RuntimeError as error:
            raise UserError(f"{folder / WEIGHTS_FILE}: holds the weights of another model") from error
        if odd := [name for name, value in model.named_parameters() if not value.isfinite().all()]:
            raise UserError(f"{folder / WEIGHTS_FILE}: holds weights that are no finite numbers", odd)
        return model.eval()

    def _set_decision(self, description: dict[str, Any]) -> None:
        """Take goal and sources of the thresholds and the calibration of a ``model.toml``."""
        self.threshold_goal = description["threshold_goal"]
        self.threshold_sources = tuple(description["threshold_sources"])
        stored = description.get("calibration")
        self.calibration = None if stored is None else msgspec.convert(stored, Calibration)

    def _start_from(self, folder: Path) -> None:
        """Take all weights of an earlier model; rows of its head go to the classes of the same name.

        Its graph and ours may differ; over other classes the graph starts anew.
        """
        other = Model.load(folder)
        ours, theirs = self.state_dict(), other.state_dict()
        if other.classes != self.classes:
            theirs = self._rows_by_class(ours, theirs, other.classes)
            new = [name for name in self.classes if name not in other.classes]
            self.start_note = f"going on from {folder}: {len(self.classes) - len(new)} classes as there" + (
                f", {len(new)} new: {', '.join(new)}" if new else ""
            )
        shared = {k: v for k, v in theirs.items() if k in ours or not (k.startswith("head.") and ".graph." in k)}
        wrong = [k for k, v in shared.items() if k not in ours or ours[k].shape != v.shape]
        if wrong or other.config.backbone != self.config.backbone:
            raise UserError(f"{folder}: the model to start from has another network", wrong)
        self.load_state_dict(shared, strict=False)

    def _rows_by_class(
        self, ours: dict[str, Tensor], theirs: dict[str, Tensor], classes: tuple[str, ...]
    ) -> dict[str, Tensor]:
        """Give their weights with the rows of the classifier in our order; a class that they lack keeps our row."""
        rows = [(i, classes.index(name)) for i, name in enumerate(self.classes) if name in classes]
        here, there = [i for i, _ in rows], [j for _, j in rows]
        result = {}
        for key, value in theirs.items():
            if ".graph." in key:
                continue
            if ".classifier." in key and key in ours:
                row = ours[key].clone()
                row[here] = value[there].to(row.dtype)
                value = row
            result[key] = value
        return result

    def _set_pixels(self, preprocessing: Preprocessing) -> None:
        """Images arrive as 0..255: one multiplication and one addition turn them into the backbone's input."""
        self.preprocessing = preprocessing
        mean, std = torch.tensor(preprocessing.mean), torch.tensor(preprocessing.std)
        self.register_buffer("pixel_scale", (1 / (255 * std)).view(3, 1, 1), persistent=False)
        self.register_buffer("pixel_shift", (-mean / std).view(3, 1, 1), persistent=False)
