"""The settings of a training that have a flag of their own; all others are set in a settings file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from partlabel.core.errors import UserError
from partlabel.method.losses import LOSSES
from partlabel.method.strategies import STRATEGIES
from partlabel.training.presets import AUTO, DEFAULT, PRESETS

if TYPE_CHECKING:
    from partlabel.training.config import Config

if TYPE_CHECKING:
    LossName = str
    StrategyName = str
    PresetName = str
else:  # the choices of the command line are the names in the registries
    LossName = Literal[tuple(LOSSES)]
    StrategyName = Literal[tuple(STRATEGIES)]
    PresetName = Literal[(*PRESETS, AUTO)]

GROUP = Group("Settings (what is left out comes from the preset or the settings file)", sort_key=10)


@Parameter(name="*", group=GROUP)
@dataclass(frozen=True)
class Settings:
    """Flags that change single settings; None leaves a setting as it is.

    Attributes:
        on_bad: Images that are missing or cannot be read: `error`, or `skip` to train without them.
        assume_absent: Take every unknown label as absent.
        backbone: Name of a timm model.
        weights: `auto` for pretrained ones, `none` for random ones, a weights file of the backbone, or the run folder
            of an earlier training to go on from.
        freeze: What stays as it is: `none`, `all` for the whole backbone, or the number of its first stages.
        size: Side in pixels of the square that images are resized to.
        loss: `partial-bce` weighs an image by the share of its labels that is known; `bce` does not. The others take
            unknown labels as absent, each in its own way: see "Other losses" in the guide.
        gamma: Exponent of that weight.
        graph: Put the paper's label graph on top, which learns which classes go together.
        dropout: Share of the backbone's output that is left out at random in training.
        relabel_before: Numbers of the epochs before which the model labels easy unknown pairs, such as `10,15`.
        strategy: What makes a label easy: `score-threshold`, `score-proportion`, `positive-only`, `uncertainty` (needs
            dropout), `all-at-once` or `class-adaptive`; see `partlabel relabel --help`.
        theta: Threshold or share of the strategy; the paper's best where it is left out.
        optimizer: `closed-form` solves the head on a frozen backbone at once; `sgd` and `adamw` train in steps. Flags
            that only matter in steps, such as `--epochs`, `--loss`, `--graph` or `--freeze none`, choose `sgd`.
        epochs: How often every image is used.
        batch_size: Images of one step.
        learning_rate: Learning rate at the start; where the preset has another one for the head, that changes in
            proportion.
        weight_decay: Weight decay.
        precision: `32`, or half precision in the network: `bf16`, `16`.
        workers: Processes that decode images.
        seed: Number behind everything random; the same seed, settings and machine give the same model.
    """

    on_bad: Literal["error", "skip"] | None = None
    assume_absent: bool | None = None
    backbone: str | None = None
    weights: str | None = None
    freeze: str | None = None
    size: int | None = None
    loss: LossName | None = None
    gamma: float | None = None
    graph: Annotated[bool | None, Parameter(negative="--no-graph")] = None
    dropout: float | None = None
    relabel_before: str | None = None
    strategy: StrategyName | None = None
    theta: float | None = None
    optimizer: Literal["sgd", "adamw", "closed-form"] | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    precision: Literal["32", "bf16", "16"] | None = None
    workers: int | None = None
    seed: int | None = None


#: flags that only matter where a model is trained in steps; they choose SGD where the base has a closed form
_OF_STEPS = (
    "loss",
    "gamma",
    "graph",
    "dropout",
    "relabel_before",
    "strategy",
    "theta",
    "epochs",
    "batch_size",
    "learning_rate",
    "weight_decay",
)
#: what ``Config.replace`` calls the flags that have another name there
CONFIG_NAMES = {
    "on_bad": "images__on_bad",
    "size": "images__size",
    "backbone": "model__backbone",
    "weights": "model__weights",
    "graph": "model__graph",
    "dropout": "model__dropout",
    "relabel_before": "relabel__before",
    "strategy": "relabel__strategy",
    "theta": "relabel__theta",
    "loss": "loss__name",
    "gamma": "loss__gamma",
    "optimizer": "optim__name",
    "epochs": "optim__epochs",
    "batch_size": "optim__batch_size",
    "learning_rate": "optim__learning_rate",
    "head_learning_rate": "optim__head_learning_rate",
    "weight_decay": "optim__weight_decay",
}


def make_config(
    preset: str | None,
    file: Path | None,
    settings: Settings | None,
    validation: float | None,
    automatic: Callable[[], Config] | None = None,
) -> Config:
    """Put the settings of a training together: a preset or a file, with single settings changed.

    Args:
        preset: name of a preset; with no file either, the default one.
        file: settings file.
        settings: the flags.
        validation: share of the images held out; None leaves it as it is.
        automatic: gives the settings that the preset "auto" chooses.

    Raises:
        UserError: both a preset and a file, or settings that are wrong.
    """
    from partlabel.training.config import Config

    if preset is not None and file is not None:
        raise UserError("--preset and --config both choose the settings; give one of them")
    if preset == AUTO and automatic is not None:
        base = automatic()
    else:
        base = Config.read(file) if file is not None else Config.preset(preset or DEFAULT)
    given: dict[str, Any] = {**vars(settings or Settings()), "validation": validation}
    if given["relabel_before"] is not None:
        given["relabel_before"] = _epochs(given["relabel_before"])
    idle = [f"--{name.replace('_', '-')}" for name in _OF_STEPS if given[name]]
    if given["optimizer"] == "closed-form" and idle:
        raise UserError("--optimizer closed-form solves the head without steps, so these have no effect", idle)
    in_steps = bool(idle) or given["freeze"] not in (None, "all")
    if base.optim.name == "closed-form" and given["optimizer"] is None and in_steps:
        given["optimizer"] = "sgd"
    given["head_learning_rate"] = _in_proportion(base, given["learning_rate"])
    return base.replace(**{CONFIG_NAMES.get(name, name): value for name, value in given.items() if value is not None})


def _in_proportion(base: Config, rate: float | None) -> float | None:
    """The rate of the head that goes with another rate of the backbone; None leaves it as it is."""
    of_head = base.optim.head_learning_rate
    return None if rate is None or of_head is None else of_head * rate / base.optim.learning_rate


def _epochs(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    wrong = [part for part in parts if not part.isdecimal()]
    if wrong:
        raise UserError("--relabel-before is a list of numbers of epochs, such as 10,15", wrong)
    return [int(part) for part in parts]
