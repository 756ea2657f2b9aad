"""Table 2 of the paper and its long form: strategies of relabelling at 10 % known labels, against no relabelling.

    python -m experiments.relabeling frozen --data ../shared/data/coco-mini --out runs/relabeling
    python -m experiments.relabeling graph          the same with the label graph
    python -m experiments.relabeling finetuned      the best of each kind with the whole network trained
    python -m experiments.run results               the means over the seeds that are there, in RESULTS.md

The paper's protocol, on a machine with a GPU (trained on the training and measured on the validation set of VOC 2007):

    python -m experiments.relabeling paper --data VOCdevkit/VOC2007
    python -m experiments.relabeling paper-plain --data VOCdevkit/VOC2007   without the graph
    python -m experiments.run results --preset paper

Runs that differ in their rounds only share the epochs before the first one: a run goes on from the checkpoint that the
run without relabelling of the same seed had there, which gives the same result to the bit as training from the start.

Frozen: the small preset with partial-BCE and dropout 0.5, rounds before epochs 10 and 15 of 20. Fine-tuned: 3,000
images at 128 px, 6 epochs, rounds before epochs 4 and 5. The truth of the hidden labels serves for TP and TN only;
all metrics are those of the test images. Results: ``experiments/results/relabeling/KIND.jsonl``; a killed run
goes on where it stopped, a finished one is not run again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from experiments.carry_out import same_data, scores_of
from experiments.datasets import DATASETS, Dataset, open_dataset
from experiments.frozen import record
from experiments.jobs import where
from experiments.main_job import FROZEN, TUNED
from experiments.presets import SMOKE_PRESET
from experiments.store import RESULTS, Store
from partlabel import Config, Model, simulate, train
from partlabel.core.errors import UserError
from partlabel.core.records import read_record, write_record
from partlabel.metrics import evaluate
from partlabel.training import checkpoints

KNOWN = 0.1
#: name in the paper -> (strategy, thetas of its table); the last two are not in the paper
STRATEGIES: dict[str, tuple[str, tuple[float | None, ...]]] = {
    "2 steps": ("all-at-once", (None,)),
    "[e] uncertainty": ("uncertainty", (0.1, 0.2, 0.3, 0.4, 0.5)),
    "[a] score threshold": ("score-threshold", (1.0, 2.0, 5.0)),
    "[b] score proportion": ("score-proportion", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)),
    "[c] positive only": ("positive-only", (1.0, 2.0, 5.0)),
    "[d] ensemble": ("score-threshold", (1.0, 2.0, 5.0)),
    "class-adaptive": ("class-adaptive", (0.5, 0.8, 1.0)),
    "[e] of probabilities": ("uncertainty", (0.001, 0.003, 0.01)),
}
HEADS = 3
METRICS = ("map80", "zero_one", "macro_f1", "micro_f1")
BASE = FROZEN.replace(model__dropout=0.5)
PAPER = Config.preset("paper").replace(validation=0.0, model__dropout=0.5)
TUNED_BASE = TUNED.replace(images__size=128, loss__name="partial-bce", optim__epochs=6)


@dataclass(frozen=True)
class Kind:
    """What the runs of one table have in common.

    Attributes:
        config: of the run without relabelling.
        before: epochs of the two rounds.
        only: the runs that are made; empty for all of ``STRATEGIES``.
        samples: passes of Monte-Carlo dropout; fewer with the graph on two cores, as it has to run in each of them.
        head: of the training on the frozen backbone that a run starts from, where there is one.
        pictures: only the first so many.
        dataset: the data set where none is named.
    """

    config: Config
    before: tuple[int, int] = (10, 15)
    only: tuple[str, ...] = ()
    samples: int = 50
    head: Config | None = None
    pictures: int | None = None
    dataset: str = "coco-mini"


KINDS = {
    "frozen": Kind(BASE),
    "graph": Kind(BASE.replace(model__graph=True), samples=20),
    "finetuned": Kind(
        TUNED_BASE,
        before=(4, 5),
        only=("2 steps", "[a] score threshold 2", "[e] uncertainty 0.3"),
        head=BASE.replace(images__size=128),
        pictures=3000,
    ),
    "paper": Kind(PAPER.replace(model__graph=True), dataset="voc2007-val"),
    "paper-plain": Kind(PAPER, dataset="voc2007-val"),
    "smoke": Kind(
        SMOKE_PRESET.bases["continued"].config.replace(loss__name="partial-bce"),
        before=(2, 2),
        only=("2 steps", "[d] ensemble 2", "[e] uncertainty 0.3"),
        dataset="digits",
    ),
}


def store_of(results: Path, kind: str) -> Store:
    """The runs of one kind, named by their seed and their run."""
    return Store(results / "relabeling" / f"{kind}.jsonl")


def of_seeds(store: Store) -> dict[int, dict[str, Any]]:
    """Seed -> name of the run -> its row."""
    found: dict[int, dict[str, Any]] = {}
    for key, row in store.read().items():
        seed, _, name = key.removeprefix("seed ").partition(", ")
        found.setdefault(int(seed), {})[name] = row
    return found


def jobs(kind: Kind) -> dict[str, dict[str, Any]]:
    """Name of each run of a seed -> changes of its configuration; the first is the one without relabelling."""
    found: dict[str, dict[str, Any]] = {"none": {}}
    for family, (strategy, thetas) in STRATEGIES.items():
        for theta in thetas:
            name = family if theta is None else f"{family} {theta:g}"
            if kind.only and name not in kind.only:
                continue
            change = {"relabel__before": list(kind.before), "relabel__strategy": strategy, "relabel__theta": theta}
            if family == "[d] ensemble":
                change["model__heads"] = HEADS
            if strategy == "uncertainty":
                change["relabel__samples"] = kind.samples
            if family == "[e] of probabilities":
                change["relabel__measure"] = "probability-variance"
            found[name] = change
    return found


def begin(run: Path, none: Path, config: Config) -> None:
    """Give a new run the epochs before its first round from the run without relabelling, where those are the same."""
    first = none / "checkpoints" / f"epoch-{config.relabel.before[0] - 1}.pt"
    if run.exists() or not first.is_file():
        return
    identity = read_record(none / "run.json")
    theirs = {**identity["config"], "relabel": config.to_dict()["relabel"]}
    if theirs != config.to_dict():
        return
    (run / "checkpoints").mkdir(parents=True)
    shutil.copy(first, run / "checkpoints")
    for path in none.glob("*.parquet"):
        shutil.copy(path, run)
    config.write(run / "config.toml")
    write_record(run / "run.json", {**identity, "config": theirs})


def carry_out(name: str, kind: Kind, seed: int, dataset: Dataset, folder: Path) -> dict[str, Any]:
    """Train one run and measure it on the test images; the runs of a seed lie in one folder."""
    whole = dataset.train
    truth = whole.table if kind.pictures is None else whole.table.select(slice(0, kind.pictures))
    known = simulate.partial(truth, KNOWN, seed)
    run = folder / name.replace(" ", "_")
    config = kind.config.replace(seed=seed, **jobs(kind)[name])
    if kind.head is not None:
        head = folder / "head"
        config = config.replace(model__weights=str(head))
        if not (head / "summary.json").is_file():
            train(
                known, whole.folder, out=head, config=kind.head.replace(seed=seed), resume=(head / "run.json").is_file()
            )
    if name != "none":
        begin(run, folder / "none", config)
    summary = train(
        known, whole.folder, out=run, config=config, truth=truth, resume=(run / "run.json").is_file()
    ).summary
    scores = scores_of(Model.load(run, which="last"), config, dataset.test.paths, train=False)
    metrics = evaluate(scores, dataset.test.table.dense())
    if name != "none":
        shutil.rmtree(run / "checkpoints", ignore_errors=True)
    return record(metrics, rounds=summary["rounds"], seconds=summary["seconds"], dataset=dataset.name, **where())


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--dataset", choices=DATASETS, help="what lies in --data; by default that of the kind")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--out", type=Path, default=Path("runs/relabeling"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=[""], help="runs whose names start with one of these")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args(given)
    torch.set_num_threads(arguments.threads)
    kind = KINDS[arguments.kind]
    try:
        dataset = open_dataset(arguments.dataset or kind.dataset, arguments.data)
        store = store_of(arguments.results, arguments.kind)
        for seed in arguments.seeds:
            folder = arguments.out / f"{arguments.kind}-{seed}"
            for name in jobs(kind):
                rows = of_seeds(store).get(seed, {})
                for there, row in rows.items():
                    same_data(row, dataset.name, store.path, there)
                if name in rows or not name.startswith(tuple(arguments.only)):
                    continue
                # all checkpoints are kept, as one of the run without relabelling is where the others begin
                with mock.patch.object(checkpoints, "_KEPT", kind.config.optim.epochs):
                    row = carry_out(name, kind, seed, dataset, folder)
                store.add(f"seed {seed}, {name}", row)
                say(seed, name, of_seeds(store)[seed])
    except UserError as error:
        sys.exit(str(error))


def say(seed: int, name: str, rows: dict[str, Any]) -> None:
    """Print a row as the paper's table has it: relative to no relabelling."""
    row, none = rows[name], rows.get("none", rows[name])
    text = "  ".join(f"{key} {row[key] - (none[key] if name != 'none' else 0):+.2f}" for key in METRICS)
    if row["rounds"]:
        last = row["rounds"][-1]
        rates = [last["truth"]["all_rounds"][key] for key in ("true_positive_rate", "true_negative_rate")]
        shown = "  ".join("-" if rate is None else f"{100 * rate:.2f}" for rate in rates)
        text += f"  label prop. {100 * last['label_proportion']:.2f}  TP, TN {shown}"
    print(f"seed {seed}  {name:25} {text}  {row['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
