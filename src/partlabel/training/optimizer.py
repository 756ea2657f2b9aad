"""What is minimised and by which steps: the loss, the optimizer, what stays as it is."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from timm.layers import convert_sync_batchnorm
from torch import Tensor, nn

from partlabel.core.errors import UserError
from partlabel.method.losses import LOSSES
from partlabel.models.model import Model
from partlabel.training.config import Config, LossConfig, OptimConfig

_NORMS = (nn.modules.batchnorm._BatchNorm,)
#: images from which a mean and a variance are too uncertain
_FEW = 16


class Loss(Protocol):
    """What a training minimises."""

    def __call__(self, scores: Tensor, labels: Tensor, *, weight: Tensor | None, epoch: int) -> Tensor:
        """The sum over the rows of scores and labels (N, C), with weights of single labels, in an epoch from 1."""
        ...


def build_loss(config: LossConfig, num_classes: int) -> Loss:
    """The loss as a sum over the rows of a batch; the caller divides, as its rows may be a share of the batch.

    The values of labels and weights are not checked in each step: they come from a label table, which did so.

    Raises:
        UserError: no g has the wanted values.
    """
    entry = LOSSES[config.name]
    function, settings = entry.load(), {name: getattr(config, name) for name in entry.takes} | dict(entry.fixed)

    def loss(scores: Tensor, labels: Tensor, *, weight: Tensor | None, epoch: int) -> Tensor:
        now = {"epoch": epoch} if entry.by_epoch else {}
        return function(scores, labels, weight=weight, reduction="sum", check=False, **settings, **now)

    try:  # checks the settings, as g on all proportions
        loss(torch.zeros(1, num_classes), torch.zeros(1, num_classes, dtype=torch.int8), weight=None, epoch=1)
    except ValueError as error:
        raise UserError(f"loss: {error}") from None
    return loss


def frozen_stages(freeze: str | int, model: Model) -> int:
    """How many stages of the backbone ``Config.freeze`` keeps as they are."""
    if freeze == "none":
        return 0
    return model.backbone.num_stages if freeze == "all" else int(freeze)


def build_optimizer(model: Model, config: OptimConfig) -> torch.optim.Optimizer:
    """SGD or AdamW; weights decay, biases and the scales of normalisation do not.

    The last stage of the backbone learns at ``learning_rate``, each one before it at ``layer_decay`` times the rate of
    the next, the head at ``head_learning_rate``.
    """
    groups = []
    for parameters, rate in _parts(model, config):
        trained = [p for p in parameters if p.requires_grad]
        for decay, members in (
            (config.weight_decay, [p for p in trained if p.ndim > 1]),
            (0.0, [p for p in trained if p.ndim <= 1]),
        ):
            if members:
                groups.append({"params": members, "lr": rate, "base_lr": rate, "weight_decay": decay})
    if config.name == "adamw":
        return torch.optim.AdamW(groups)
    return torch.optim.SGD(groups, momentum=config.momentum)


def _parts(model: Model, config: OptimConfig) -> list[tuple[list[nn.Parameter], float]]:
    """Parameters of the backbone's stages, as far as their rates differ, and of the head, with their rates."""
    head = (list(model.head.parameters()), config.head_learning_rate or config.learning_rate)
    if config.layer_decay == 1:
        return [(list(model.backbone.parameters()), config.learning_rate), head]
    count, seen, parts = model.backbone.num_stages, set[int](), []
    for stage in range(count):
        own = [p for p in model.backbone.stage_parameters(stage + 1) if id(p) not in seen]
        seen |= {id(p) for p in own}
        parts.append((own, config.learning_rate * config.layer_decay ** (count - 1 - stage)))
    return [*parts, head]


def set_learning_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set the rate of each group to ``factor`` times its own."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * factor


class RunningMean:
    """An exponential moving average of the trained weights, ``mean <- decay mean + (1 - decay) weights`` per step."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.weights = [p for p in model.parameters() if p.requires_grad]
        self.mean = [p.detach().clone() for p in self.weights]
        self.decay = decay

    def update(self) -> None:
        """Take in the weights after a step."""
        torch._foreach_lerp_(self.mean, [p.detach() for p in self.weights], 1 - self.decay)

    def load(self, mean: list[torch.Tensor]) -> None:
        """Go on from a mean that was stored."""
        for own, stored in zip(self.mean, mean, strict=True):
            own.copy_(stored)

    @contextmanager
    def in_place(self) -> Generator[None, None, None]:
        """Let the model have the mean in place of its weights."""
        own = [p.detach().clone() for p in self.weights]
        self._set(self.mean)
        try:
            yield
        finally:
            self._set(own)

    def _set(self, values: list[torch.Tensor]) -> None:
        with torch.no_grad():
            for weight, value in zip(self.weights, values, strict=True):
                weight.copy_(value)


class WeightMean(RunningMean):
    """The running mean of a training that is validated and saved: of the statistics of batch normalisation too.

    After n steps the decay is at most ``(1 + n) / (10 + n)``, so that the first weights are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__(model, decay)
        norms = [m for m in model.modules() if isinstance(m, _NORMS)]
        self.statistics = [b for norm in norms for b in (norm.running_mean, norm.running_var) if b is not None]
        self.weights += self.statistics  # type: ignore[bad-argument-type]
        self.mean += [b.detach().clone() for b in self.statistics]
        self.full, self.steps = decay, 0

    def update(self) -> None:
        """Take in the weights after a step."""
        self.decay = min(self.full, (1 + self.steps) / (10 + self.steps))
        self.steps += 1
        super().update()

    @property
    def mean_statistics(self) -> list[torch.Tensor]:
        """The means of the statistics, which differ from process to process."""
        return self.mean[len(self.mean) - len(self.statistics) :]

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"mean": self.mean, "steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state`."""
        self.load(state["mean"])
        self.steps = state["steps"]


def images_at_once(config: Config, world: int) -> int:
    """Count the images that batch normalisation takes its statistics from in a step, of ``world`` processes."""
    alone = 1 if config.sync_batch_norm else world
    return config.optim.batch_size // (alone * config.optim.accumulate)


def freezes_batch_norm(config: Config, world: int) -> bool:
    """Whether batch normalisation keeps its statistics: as the configuration says, else where a batch is too small.

    A batch of a pretrained backbone is too small where fewer than 16 images go through it at once, in one of ``world``
    processes; the statistics of random weights have to be learned however small it is.
    """
    if config.freeze_batch_norm is not None:
        return config.freeze_batch_norm
    return config.model.weights != "none" and images_at_once(config, world) < _FEW


def synchronise(model: nn.Module, device: torch.device, world: int) -> None:
    """Let batch normalisation take its statistics over all processes; alone, there is nothing to do.

    Raises:
        UserError: on a CPU, where PyTorch cannot.
    """
    if world == 1:
        return
    if device.type == "cpu":
        raise UserError("sync_batch_norm needs GPUs: on a CPU, PyTorch has no statistics over several processes")
    convert_sync_batchnorm(model)


def unused(model: Model) -> list[nn.Parameter]:
    """Find the parameters that would learn and that no score depends on, which some networks of timm have."""
    wanted = [p for p in model.parameters() if p.requires_grad]
    if not wanted:
        return []
    was, size = model.training, model.preprocessing.size
    model.eval()  # a look that changes no statistics and draws nothing
    with torch.enable_grad():
        scores = model(torch.zeros(1, 3, size, size, dtype=torch.uint8, device=model.pixel_scale.device))
        found = torch.autograd.grad(scores.sum(), wanted, allow_unused=True)
    model.train(was)
    return [p for p, gradient in zip(wanted, found, strict=True) if gradient is None]


def keep_fixed(model: Model, stages: int, batch_norm: bool) -> None:
    """Of a model in training mode, put back the first stages and, if asked, all batch normalisation of the backbone.

    Args:
        model: of which the backbone's parts go into evaluation mode.
        stages: number of its first stages that are not trained.
        batch_norm: it keeps its mean and variance; its scale and shift still learn where they are trained.
    """
    fixed = list(model.backbone.stage_modules(stages))
    fixed += [m for m in model.backbone.modules() if batch_norm and isinstance(m, _NORMS)]
    for module in fixed:
        module.eval()


@contextmanager
def batch_of_one(model: nn.Module, active: bool) -> Generator[None, None, None]:
    """Let batch normalisation use its statistics while a batch has one image, as one value has no variance."""
    alone = [m for m in model.modules() if isinstance(m, _NORMS) and not isinstance(m, nn.SyncBatchNorm)]
    norms = [m for m in alone if m.training] if active else []
    for norm in norms:
        norm.eval()
    try:
        yield
    finally:
        for norm in norms:
            norm.train()
