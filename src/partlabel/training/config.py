"""All that a training run is: frozen dataclasses, TOML in and out."""

from __future__ import annotations

import dataclasses
import math
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from partlabel.core.errors import UserError, check_name
from partlabel.core.files import to_toml, write_text
from partlabel.core.trouble import plainly
from partlabel.method.losses import LOSSES
from partlabel.method.strategies import STRATEGIES
from partlabel.models.config import ModelConfig
from partlabel.training.presets import AUTO, PRESETS


@dataclass(frozen=True)
class ImageConfig:
    """How an image becomes a tensor."""

    #: side in pixels of the square that images are resized to
    size: int = 224
    #: random horizontal flip in training
    flip: bool = True
    #: what happens to images that are missing or cannot be decoded
    on_bad: Literal["error", "skip"] = "error"
    #: images with more pixels are treated as unreadable
    max_pixels: int = 178_956_970


@dataclass(frozen=True)
class AugmentConfig:
    """What images go through in training besides flips, drawn anew in each epoch; evaluation never sees it."""

    #: smallest share of an image's area that a random crop keeps; 1 does not crop. Small objects get lost below 0.5
    crop: float = 1.0
    #: strength of random changes of brightness, contrast and saturation; 0 leaves the colours, 0.4 is usual
    colour: float = 0.0
    #: "trivial" and "rand" are torchvision's TrivialAugmentWide and RandAugment
    policy: Literal["none", "trivial", "rand"] = "none"
    #: "mixup" averages two images of a step, "cutmix" pastes a box of one into the other; a pair is known as far as its
    #: parts are (docs/equations.md)
    mix: Literal["none", "mixup", "cutmix"] = "none"
    #: the share of the first image is drawn from Beta(a, a); large values mix evenly
    mix_alpha: float = 0.2

    @property
    def of_pixels(self) -> bool:
        """Whether single images change, so that what frozen stages make of them cannot be stored."""
        return self.crop < 1 or self.colour > 0 or self.policy != "none"


@dataclass(frozen=True)
class LossConfig:
    """The loss, and the g(p) = alpha p^gamma + beta with g(p0) = value and g(1) = 1 of partial-bce (equation 2)."""

    #: a name of ``partlabel.method.losses.LOSSES``
    name: str = "partial-bce"
    gamma: float = 1.0  #: how g falls with the share of known labels p: 1 is linear, as in the paper
    p0: float = 0.1  #: the share of known labels at which g is ``value``
    value: float = 5.0  #: how many times an image weighs whose labels are known to the share ``p0``


@dataclass(frozen=True)
class OptimConfig:
    """The optimizer and the schedule of its learning rate.

    "closed-form" solves the head on frozen, averaged features in one step (``partlabel.training.discriminant``); all
    else in here is then without effect, and so are the loss and the curriculum.
    """

    #: "closed-form" solves the head on frozen features at once; the others train in steps
    name: Literal["sgd", "adamw", "closed-form"] = "sgd"
    epochs: int = 20  #: how often every image is used
    #: images of one step, over all processes
    batch_size: int = 16
    #: parts of a step that a process runs one after the other, for networks whose batch does not fit the memory; batch
    #: normalisation, and losses that compare the labels of a batch, look at one part
    accumulate: int = 1
    learning_rate: float = 0.01  #: at the start, after the warm-up
    #: learning rate of everything after the backbone; None is the same
    head_learning_rate: float | None = None
    #: each stage of the backbone learns at so many times the rate of the next one; the last stage has learning_rate
    layer_decay: float = 1.0
    #: what the head starts from: "closed-form" first solves it on the backbone as it is (with "average" pooling)
    start: Literal["random", "closed-form"] = "random"
    #: decay, per step, of a running mean of the weights, which is then validated and saved; 0 takes the weights
    #: themselves. The first steps count more: after n of them the decay is at most (1 + n) / (10 + n)
    ema: float = 0.0
    #: epochs without a better one on the validation part after which the training ends; None runs all
    patience: int | None = None
    momentum: float = 0.9  #: of "sgd"
    weight_decay: float = 1e-4  #: pull of all weights towards 0
    #: "step" multiplies by step_factor after the epochs in step_after; "cosine" falls to 0; "constant" stays
    schedule: Literal["step", "cosine", "constant"] = "step"
    #: numbers of the epochs after which "step" multiplies the learning rate
    step_after: tuple[int, ...] = (10,)
    step_factor: float = 0.1  #: by what it is multiplied
    #: epochs of linear warm-up; fractions are allowed
    warmup: float = 0.0
    #: largest norm of the gradient; None does not clip
    clip_norm: float | None = None


@dataclass(frozen=True)
class RelabelConfig:
    """The curriculum (algorithm 1): a model label for each easy unknown pair, before chosen epochs."""

    #: numbers of the epochs, from 1, before which a round of relabelling takes place; the paper has 10 and 15 of 20
    before: tuple[int, ...] = ()
    #: which unknown pairs are easy: a name of ``partlabel.method.strategies.STRATEGIES``; "score-threshold" is also the
    #: paper's [d] where the model has several heads
    strategy: str = "uncertainty"
    #: the strategy's theta: a score, a share of the unknown pairs, or an uncertainty; None is the strategy's own
    theta: float | None = None
    #: of "class-adaptive": the share of the expected absent pairs that become absent, theta being that of the expected
    #: present ones; None is theta for both
    theta_absent: float | None = None
    #: what "uncertainty" is: of the scores or of the probabilities, over the dropout samples
    measure: Literal["variance", "deviation", "probability-variance", "entropy", "mutual-information"] = "variance"
    #: T, dropout samples of an image
    samples: int = 50
    #: weight of model labels in the loss
    weight: float = 1.0
    #: decay of a running mean of the weights, which then does the relabelling; 0 takes the weights themselves
    ema: float = 0.0
    #: stop the training where a round gives a warning
    stop_on_warning: bool = False

    @property
    def threshold(self) -> float:
        """Theta, chosen or the strategy's own."""
        return (STRATEGIES[self.strategy].theta or 0.0) if self.theta is None else self.theta


#: settings of earlier versions that nobody changed; files that hold them are still read
_REMOVED = ("channels_last", "relabel.warn_share")


@dataclass(frozen=True)
class SelfTrainingConfig:
    """The round of self-training of the closed-form head: what becomes of unknown pairs before it is solved again."""

    #: share of the expected present pairs that become present, those with the highest scores
    present: float = 0.5
    #: share of the other unknown pairs that become absent; 0 and 0 leave the round out
    absent: float = 0.8
    #: of the new present labels; a known label counts 1
    weight: float = 0.25


@dataclass(frozen=True)
class Config:
    """One training run.

    ``Config.preset("paper")`` is the paper's setting; ``Config.preset("small")`` trains on a laptop CPU.

    >>> config = Config.preset("paper").replace(optim__epochs=5, seed=1)
    >>> config.optim.epochs, config.images.size
    (5, 448)
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    images: ImageConfig = field(default_factory=ImageConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    relabel: RelabelConfig = field(default_factory=RelabelConfig)
    self_training: SelfTrainingConfig = field(default_factory=SelfTrainingConfig)
    #: "none", "all" (the whole backbone), or the number of stages that stay as they are
    freeze: str | int = "none"
    #: batch normalisation keeps its mean and variance in training, while its scale and shift learn: for few images,
    #: small batches, or images of another size than the weights were made with. None: where a pretrained backbone sees
    #: fewer than 16 images at once
    freeze_batch_norm: bool | None = None
    #: batch normalisation takes its statistics over all processes (SyncBN); on GPUs, and one part of a batch at a time
    sync_batch_norm: bool = False
    #: share of the images held out of the training table to validate on; 0 validates on nothing
    validation: float = 0.1
    #: unknown labels are taken as absent; stored, and shown wherever the run is reported
    assume_absent: bool = False
    #: number behind everything random: the same seed, settings and machine give the same model
    seed: int = 0
    #: bits of the numbers in the network: "32", or half precision, "bf16" or "16", on processors that have it
    precision: Literal["32", "bf16", "16"] = "32"
    #: processes that decode images; None chooses
    workers: int | None = None
    #: what the preset "auto" chose for which table, and why; a note without effect
    chosen: str = ""

    def __post_init__(self) -> None:
        """Refuse values that no run can have.

        Raises:
            UserError: listing every value that is out of its range, or naming a loss or strategy that does not exist
                together with those that do.
        """
        check_name("loss.name", self.loss.name, LOSSES)
        check_name("relabel.strategy", self.relabel.strategy, STRATEGIES)
        checks = {
            "model.dropout": 0 <= self.model.dropout < 1,
            "model.k_max": 0 < self.model.k_max <= 1,
            "model.k_min": 0 < self.model.k_min <= 1,
            "model.stages": self.model.stages is None or self.model.stages >= 1,
            "model.heads": self.model.heads >= 1,
            "model.graph_hidden": self.model.graph_hidden is None or self.model.graph_hidden >= 1,
            "model.graph_steps": self.model.graph_steps >= 1,
            "images.size": self.images.size >= 1,
            "images.max_pixels": self.images.max_pixels >= 1,
            "augment.crop": 0 < self.augment.crop <= 1,
            "augment.colour": 0 <= self.augment.colour <= 1,
            "augment.mix_alpha": self.augment.mix_alpha > 0,
            "loss.p0": 0 < self.loss.p0 < 1,
            "loss.gamma": self.loss.gamma != 0,
            "optim.epochs": self.optim.epochs >= 1,
            "optim.batch_size": self.optim.batch_size >= 1,
            "optim.accumulate": self.optim.accumulate >= 1,
            "optim.learning_rate": self.optim.learning_rate > 0,
            "optim.head_learning_rate": self.optim.head_learning_rate is None or self.optim.head_learning_rate > 0,
            "optim.layer_decay": 0 < self.optim.layer_decay <= 1,
            "optim.ema": 0 <= self.optim.ema < 1,
            "optim.patience": self.optim.patience is None or self.optim.patience >= 1,
            "optim.momentum": 0 <= self.optim.momentum < 1,
            "optim.weight_decay": self.optim.weight_decay >= 0,
            "optim.warmup": self.optim.warmup >= 0,
            "optim.clip_norm": self.optim.clip_norm is None or self.optim.clip_norm > 0,
            "freeze": self.freeze in ("none", "all") or str(self.freeze).isdecimal(),
            "optim.step_factor": self.optim.step_factor > 0,
            "loss.value": self.loss.value > 0,
            "relabel.before": all(1 < epoch <= self.optim.epochs for epoch in self.relabel.before),
            "relabel.theta": self._theta_fits(),
            "relabel.theta_absent": self.relabel.theta_absent is None
            or (self.relabel.strategy == "class-adaptive" and 0 <= self.relabel.theta_absent <= 1),
            "self_training.present": 0 <= self.self_training.present <= 1,
            "self_training.absent": 0 <= self.self_training.absent <= 1,
            "self_training.weight": 0 <= self.self_training.weight <= 1,
            "relabel.samples": self.relabel.samples >= 2,
            "relabel.weight": 0 <= self.relabel.weight <= 1,
            "relabel.ema": 0 <= self.relabel.ema < 1,
            "validation": 0 <= self.validation < 1,
            "workers": self.workers is None or self.workers >= 0,
        }
        wrong = [f"{name} = {self.get(name)!r}" for name, good in checks.items() if not good]
        if wrong:
            raise UserError("the configuration has values out of their range", wrong)
        self._closed_form_fits()
        if self.sync_batch_norm and self.optim.accumulate > 1:
            raise UserError("sync_batch_norm takes optim.accumulate = 1: processes may have unlike numbers of parts")
        sampled = self.relabel.before and STRATEGIES[self.relabel.strategy].reads == "uncertainty"
        if sampled and not self.model.dropout:
            raise UserError(
                "relabelling by uncertainty needs model.dropout above 0: without dropout, every uncertainty would be 0"
            )
        if self.assume_absent and not LOSSES[self.loss.name].leaves_out_unknown:
            raise UserError(
                f"assume_absent hides from the loss {self.loss.name} which labels are unknown; it takes them as absent "
                "in its own way: leave one of the two out"
            )
        if sampled and self.model.heads > 1:
            raise UserError("relabelling by uncertainty takes one head; several go with the strategies by score")

    def _closed_form_fits(self) -> None:
        """Refuse what the closed-form head cannot have."""
        model = self.model
        needed = {
            "freeze = 'all'": self.freeze == "all",
            "model.pooling = 'average'": model.pooling == "average",
            "model.heads = 1": model.heads == 1,
            "model.graph = false": not model.graph,
            "model.dropout = 0": model.dropout == 0,
            "relabel.before = []": not self.relabel.before,
            "loss.name = 'partial-bce' or 'bce'": self.loss.name in ("partial-bce", "bce"),
            "no augmentation (augment)": not self.augment.of_pixels and self.augment.mix == "none",
        }
        missing = [text for text, given in needed.items() if not given]
        if self.optim.name == "closed-form" and missing:
            raise UserError(
                "the head is solved in closed form (optim.name), which needs the following; "
                "optim.name = 'sgd' (--optimizer sgd) trains it in steps instead",
                missing,
            )
        start = {name: needed[name] for name in ("model.pooling = 'average'", "model.heads = 1", "model.graph = false")}
        if self.optim.start == "closed-form" and not all(start.values()):
            raise UserError("optim.start = 'closed-form' needs", [text for text, given in start.items() if not given])
        averaged = self.freeze == "all" and model.pooling == "average" and not self.augment.of_pixels
        if self.augment.mix == "cutmix" and averaged:
            raise UserError("cutmix needs a map, and with freeze = 'all' the features are averaged: take mixup")
        if model.square_root and model.pooling != "average":
            raise UserError("model.square_root needs model.pooling = 'average'")

    @property
    def epochs(self) -> int:
        """Epochs of the training; a closed-form head takes one."""
        return 1 if self.optim.name == "closed-form" else self.optim.epochs

    @property
    def unknown_as_absent(self) -> bool:
        """Whether unknown labels are learned from as absent ones, by ``assume_absent`` or by the loss."""
        return self.assume_absent or not LOSSES[self.loss.name].leaves_out_unknown

    def _theta_fits(self) -> bool:
        """Scores and uncertainties are thresholds of at least 0, shares are at most 1."""
        return 0 <= self.relabel.threshold <= (1 if STRATEGIES[self.relabel.strategy].is_share else math.inf)

    @staticmethod
    def preset(name: str) -> Config:
        """The named setting.

        Args:
            name: a key of :data:`partlabel.training.presets.PRESETS`, which says what each is: "small",
                "small-tuned", "gpu", "paper", "paper-full".

        Raises:
            UserError: no preset has that name, or it is "auto", which is chosen for a table.
        """
        if name == AUTO:
            raise UserError("the preset auto looks at a table: it is for partlabel.train and partlabel train")
        check_name("preset", name, [*PRESETS, AUTO])
        return Config.from_dict(dict(PRESETS[name].settings), f"preset {name}")

    def get(self, name: str) -> Any:
        """The value of a dotted name such as ``"optim.learning_rate"``."""
        value: Any = self
        for part in name.split("."):
            value = getattr(value, part)
        return value

    def replace(self, **changes: Any) -> Config:
        """A copy with other values; a double underscore reaches into a part: ``replace(optim__epochs=5, seed=1)``.

        Raises:
            UserError: a name that does not exist, or a value of the wrong type or out of its range.
        """
        document = self.to_dict()
        for name, value in changes.items():
            part, _, leaf = name.partition("__")
            if leaf and not isinstance(document.get(part), dict):
                raise UserError("configuration: unknown settings", [f"{part}.{leaf}"])
            place = document[part] if leaf else document
            place[leaf or part] = value
        return Config.from_dict(document)

    def to_dict(self) -> dict[str, Any]:
        """All values as nested plain dictionaries; tuples become lists."""
        return msgspec.json.decode(msgspec.json.encode(dataclasses.asdict(self)))  # msgspec leaves out defaults

    @staticmethod
    def from_dict(document: dict[str, Any], source: str = "configuration") -> Config:
        """The inverse of :meth:`to_dict`; names that are left out keep their default.

        Raises:
            UserError: listing every unknown name, or naming the value of the wrong type.
        """
        unknown = [name for name in _unknown_names(document, Config) if name not in _REMOVED]
        if unknown:
            raise UserError(f"{source}: unknown settings", unknown)
        try:
            return msgspec.convert(document, Config)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, UserError):
                raise error.__cause__ from None
            raise UserError(f"{source}: {plainly(error)}") from error

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Config:
        """Read a TOML file.

        Raises:
            UserError: the file is missing, is not TOML (with its line), or has wrong settings.
        """
        try:
            document = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from None
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: {plainly(error)}") from error
        return Config.from_dict(document, source=str(path))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a TOML file; settings that are None are left out, as TOML has no null."""
        write_text(path, to_toml(self.to_dict()))


def _unknown_names(document: dict[str, Any], kind: type, prefix: str = "") -> list[str]:
    fields = {f.name: f.default_factory for f in dataclasses.fields(kind)}
    unknown = []
    for name, value in document.items():
        if name not in fields:
            unknown.append(prefix + name)
            continue
        if isinstance(part := fields[name], type) and isinstance(value, dict):
            unknown += _unknown_names(value, part, f"{name}.")
    return unknown
