"""The own files of a run, and what is read of each, as values that can be compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from partlabel import LabelTable, Model, Run
from partlabel.app.review.answers import AnswerStore
from partlabel.training.checkpoints import Checkpoints
from partlabel.training.evidence import evidence


def _table(name: str) -> Callable[[Path], Any]:
    return lambda place: LabelTable.read_parquet(place / name).content_hash()


def _model(which: Any) -> Callable[[Path], Any]:
    def read(place: Path) -> Any:
        model = Model.load(place / "run", which)
        weights = {name: value.numpy().tobytes() for name, value in model.state_dict().items()}
        return weights, model.describe()

    return read


def _evidence(place: Path) -> Any:
    found = evidence(Run(place / "run"))
    return None if found is None else (found.table.content_hash(), found.scores.tobytes())


def _checkpoint(place: Path) -> Any:
    state = Checkpoints(place / "run" / "checkpoints").newest()
    assert state is not None
    weights = {name: value.numpy().tobytes() for name, value in state["model"].items()}
    return weights, state["epoch"], state["history"], state["best"]


def _answers(place: Path) -> Any:
    store = AnswerStore(place / "run" / "review" / "answers.sqlite")
    try:
        return store.verdicts(), store.identity
    finally:
        store.close()


#: file -> what is read of it, from the folder that holds ``run``
FILES: dict[str, Callable[[Path], Any]] = {
    "labels.parquet": _table("labels.parquet"),
    "run/labels.parquet": _table("run/labels.parquet"),
    "run/validation.parquet": _table("run/validation.parquet"),
    "run/validation_scores.parquet": lambda place: Run(place / "run").held_out.scores.tobytes(),
    "run/out_of_fold.parquet": _evidence,
    "run/run.json": lambda place: (Run(place / "run").config, Run(place / "run").after),
    "run/config.toml": lambda place: Run(place / "run").config,
    "run/metrics.jsonl": lambda place: Run(place / "run").history,
    "run/summary.json": lambda place: Run(place / "run").summary,
    "run/headline.json": lambda place: Run(place / "run").headline,
    "run/thresholds.json": lambda place: Run(place / "run").thresholds,
    "run/best/model.toml": _model("best"),
    "run/best/model.safetensors": _model("best"),
    "run/last/model.safetensors": _model("last"),
    "run/checkpoints/epoch-1.pt": _checkpoint,
    "run/review/answers.sqlite": _answers,
}
