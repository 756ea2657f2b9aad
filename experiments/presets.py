"""The configurations that jobs change, by preset: on this machine, of the paper, and for a quick test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from experiments.jobs import Job
from experiments.main_job import FROZEN, TUNED
from experiments.main_job import PAPER as SHORT
from partlabel import Config

T = TypeVar("T")


@dataclass(frozen=True)
class Base:
    """A configuration that jobs change.

    ``before``: epochs of the two rounds of relabelling. ``start``: the base of the training whose model a job goes on
    from; its labels and seed are the job's own, its loss is partial-BCE. ``pictures``: only the first so many.
    """

    config: Config
    before: tuple[int, int] = (10, 15)
    start: str = ""
    pictures: int | None = None


@dataclass(frozen=True)
class Preset:
    """What differs between a laptop, the paper and a test."""

    name: str
    dataset: str
    data: str
    bases: dict[str, Base]
    seeds: tuple[int, ...] = (0, 1, 2)
    held_out: float = 0.2
    smoke: bool = False
    #: passes of Monte-Carlo dropout where the graph has to run in each of them; 50 without it
    graph_samples: int = 50
    #: backbones of the table of backbones
    backbones: tuple[str, ...] = field(default=())

    def some(self, values: Sequence[T]) -> list[T]:
        """All values of a sweep, or the first and the last one in a test."""
        return [values[0], values[-1]] if self.smoke else list(values)

    def grid(self, values: Sequence[T]) -> list[T]:
        """All settings that the best one is chosen among, or one in a test."""
        return list(values[:1]) if self.smoke else list(values)

    def of_dataset(self, dataset: str | None) -> Preset:
        """The preset on another data set; its results have a folder of their own."""
        if dataset is None or dataset == self.dataset:
            return self
        return replace(self, name=f"{self.name}-{dataset}", dataset=dataset)

    @property
    def options(self) -> str:
        """What a command needs for this preset."""
        own, _, dataset = self.name.partition("-")
        return ("" if own == "frozen" else f" --preset {own}") + (f" --dataset {dataset}" if dataset else "")

    def start(self, job: Job) -> Job | None:
        """The training that a job goes on from."""
        base = self.bases[job.base].start
        if not base:
            return None
        return Job(labels=job.labels, seed=job.seed, base=base, loss="partial-bce", held_out=job.held_out)

    def config(self, job: Job) -> Config:
        """The whole configuration of a job, but for the model it starts from."""
        base = self.bases[job.base]
        optim = base.config.optim
        changes: dict[str, Any] = {
            "seed": job.seed,
            "loss__name": job.loss,
            "loss__gamma": job.gamma,
            "loss__value": job.value,
            "optim__learning_rate": optim.learning_rate * job.rate,
            "optim__weight_decay": optim.weight_decay * job.decay,
        }
        if optim.head_learning_rate is not None:
            changes["optim__head_learning_rate"] = optim.head_learning_rate * job.rate
        if job.graph:
            changes |= {"model__graph": True, "model__graph_steps": job.graph}
        if job.backbone:
            changes["model__backbone"] = job.backbone
        if job.pooling:
            changes["model__pooling"] = job.pooling
        if job.relabel:
            changes |= {
                "relabel__before": list(base.before),
                "relabel__strategy": job.strategy,
                "relabel__theta": job.theta,
                "relabel__samples": self.graph_samples if job.graph else 50,
                "model__dropout": base.config.model.dropout or 0.5,
            }
        return base.config.replace(**changes)


_continued = FROZEN.replace(optim__epochs=6, optim__learning_rate=0.1, model__dropout=0.5)
_head = FROZEN.replace(images__size=128, model__dropout=0.5)
# with batches of 16 at 128 px, statistics of batch normalisation that move cost 4 to 8 points of mAP (LOG.md)
_tuned = TUNED.replace(images__size=128, optim__epochs=3, freeze_batch_norm=True)

#: what fits on two cores: a frozen backbone for sweeps, 3,000 images of 128 px where the whole network is trained
FROZEN_PRESET = Preset(
    name="frozen",
    dataset="coco-mini",
    data="../shared/data/coco-mini",
    bases={
        "sweep": Base(FROZEN),
        "adamw": Base(FROZEN.replace(optim__name="adamw", optim__learning_rate=1e-3, optim__weight_decay=0.05)),
        "continued": Base(_continued, before=(2, 4), start="sweep"),
        "head": Base(_head, pictures=3000),
        "tuned": Base(_tuned, before=(2, 3), start="head", pictures=3000),
        "single-rate": Base(SHORT.replace(optim__learning_rate=0.01), before=(2, 3), pictures=3000),
    },
    graph_samples=20,
    backbones=("tf_efficientnet_lite0", "tf_efficientnet_lite1", "tf_efficientnet_lite2"),
)

_paper = Base(Config.preset("paper").replace(validation=0.0))

#: the paper's protocol for every job
PAPER_PRESET = Preset(
    name="paper",
    dataset="coco",
    data="coco",
    bases={
        "sweep": _paper,
        "adamw": replace(
            _paper,
            config=_paper.config.replace(
                optim__name="adamw", optim__learning_rate=1e-4, optim__head_learning_rate=1e-3
            ),
        ),
        "continued": _paper,
        "head": replace(_paper, config=_paper.config.replace(freeze="all")),
        "tuned": _paper,
        "single-rate": _paper,
    },
    held_out=0.06,
    backbones=("resnet50.tv_in1k", "resnet101.tv_in1k", "resnext101_32x8d.tv_in1k"),
)

_tiny = FROZEN.replace(
    model__backbone="test_resnet",
    model__weights="none",
    model__stages=2,
    images__size=32,
    images__flip=False,
    optim__epochs=2,
    optim__learning_rate=0.05,
)
_tiny_all = _tiny.replace(freeze="none")

#: seconds on real handwritten digits, to see that everything runs
SMOKE_PRESET = Preset(
    name="smoke",
    dataset="digits",
    data="runs/digits",
    bases={
        "sweep": Base(_tiny, before=(2, 2)),
        "adamw": Base(_tiny.replace(optim__name="adamw", optim__learning_rate=1e-3)),
        "continued": Base(_tiny.replace(model__dropout=0.5), before=(2, 2), start="sweep"),
        "head": Base(_tiny),
        "tuned": Base(_tiny_all.replace(model__dropout=0.2), before=(2, 2), start="head"),
        "single-rate": Base(_tiny_all, before=(2, 2)),
    },
    seeds=(0,),
    smoke=True,
    backbones=("test_resnet",),
)

PRESETS = {preset.name: preset for preset in (FROZEN_PRESET, PAPER_PRESET, SMOKE_PRESET)}
