"""Table 2 of the paper and its long form: strategies of relabelling at 10 % known labels, against no relabelling.

    python -m experiments.relabeling frozen --data ../shared/data/coco-mini --out runs/relabeling
    python -m experiments.relabeling graph          the same with the label graph
    python -m experiments.relabeling finetuned      the best of each kind with the whole network trained
    python -m experiments.run results               the means over the seeds that are there, in RESULTS.md

Runs that differ in their rounds only share the epochs before the first one: a run goes on from the checkpoint that the
run without relabelling of the same seed had there, which gives the same result to the bit as training from the start.

Frozen: the small preset with partial-BCE and dropout 0.5, rounds before epochs 10 and 15 of 20. Fine-tuned: 3,000
pictures at 128 px, 6 epochs, rounds before epochs 4 and 5. The truth of the hidden labels serves for TP and TN only;
all metrics are those of the test pictures. Results: ``experiments/results/relabeling/*.json``, one for each run; a
killed run goes on where it stopped, a finished one is not run again.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.frozen import pooled, record
from experiments.main_job import FROZEN, TUNED, tables
from partlabel import Config, LabelTable, Model, checkpoints, simulate, train
from partlabel.metrics import evaluate
from partlabel.scoring import measure
from partlabel.storage import write_json

RESULTS = Path(__file__).parent / "results" / "relabeling"
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
#: passes of Monte-Carlo dropout with the graph, which has to run in each of them; 50 without it
GRAPH_SAMPLES = 20
METRICS = ("map80", "zero_one", "macro_f1", "micro_f1")
BASE = FROZEN.replace(model__dropout=0.5)
#: pictures, epochs and size of the fine-tuned runs
PICTURES = 3000
FINETUNED = TUNED.replace(images__size=128, loss__name="partial-bce", optim__epochs=6)


def jobs(kind: str) -> dict[str, dict[str, Any]]:
    """Name of each run of a seed -> changes of its configuration; the first is the one without relabelling."""
    found: dict[str, dict[str, Any]] = {"none": {}}
    chosen = STRATEGIES
    before = [10, 15]
    if kind == "finetuned":
        chosen = {
            "2 steps": ("all-at-once", (None,)),
            "[a] score threshold": ("score-threshold", (2.0,)),
            "[e] uncertainty": ("uncertainty", (0.3,)),
        }
        before = [4, 5]
    for name, (strategy, thetas) in chosen.items():
        for theta in thetas:
            change = {"relabel__before": before, "relabel__strategy": strategy, "relabel__theta": theta}
            if name.startswith("[d]"):
                change["model__heads"] = HEADS
            if kind == "graph" and strategy == "uncertainty":
                change["relabel__samples"] = GRAPH_SAMPLES
            if name == "[e] of probabilities":
                change["relabel__measure"] = "probability-variance"
            found[name if theta is None else f"{name} {theta:g}"] = change
    return found


def begin(run: Path, none: Path, config: Config) -> None:
    """Give a new run the epochs before its first round from the run without relabelling, where those are the same."""
    first = none / "checkpoints" / f"epoch-{config.relabel.before[0] - 1}.pt"
    if run.exists() or not first.is_file():
        return
    identity = json.loads((none / "run.json").read_text())
    theirs = {**identity["config"], "relabel": config.to_dict()["relabel"]}
    if theirs != config.to_dict():
        return
    (run / "checkpoints").mkdir(parents=True)
    shutil.copy(first, run / "checkpoints")
    for path in none.glob("*.parquet"):
        shutil.copy(path, run)
    config.write(run / "config.toml")
    write_json(run / "run.json", {**identity, "config": theirs})


def run_frozen(config: Config, known: LabelTable, truth: LabelTable, test: LabelTable, data: Path, run: Path) -> dict:
    folder = data / "images"
    summary = train(config, known, folder, run, truth=truth, resume=(run / "run.json").is_file())
    model = Model.load(run, which="last")
    source = pooled(model, [folder / name for name in test.images.to_pylist()], flip=False)
    batches = [np.arange(a, min(a + 512, test.num_images)) for a in range(0, test.num_images, 512)]
    with torch.inference_mode():
        scores = [model(batch, model.backbone.num_stages) for batch in source.batches(batches, None)]
    return record(evaluate(torch.cat(scores), test.dense()), rounds=summary["rounds"], seconds=summary["seconds"])


def run_finetuned(
    config: Config, known: LabelTable, truth: LabelTable, test: LabelTable, data: Path, run: Path
) -> dict[str, Any]:
    """From a head that was trained on the frozen backbone, as in the main job."""
    head = Path(config.model.weights)
    if not (head / "summary.json").is_file():
        start = BASE.replace(images__size=128, seed=config.seed)
        train(start, known, data / "images", head, resume=(head / "run.json").is_file())
    summary = train(config, known, data / "images", run, truth=truth, resume=(run / "run.json").is_file())
    metrics = measure(Model.load(run, which="last"), test, data / "images")
    return record(metrics, rounds=summary["rounds"], seconds=summary["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["frozen", "graph", "finetuned"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--out", type=Path, default=Path("runs/relabeling"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=[""], help="runs whose names start with one of these")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    whole, test = tables(arguments.data)
    RESULTS.mkdir(parents=True, exist_ok=True)
    checkpoints._KEPT = 100  # one of the run without relabelling is where the others begin
    for seed in arguments.seeds:
        truth = whole.select(slice(0, PICTURES)) if arguments.kind == "finetuned" else whole
        known = simulate.partial(truth, KNOWN, seed)
        for name, change in jobs(arguments.kind).items():
            path = RESULTS / f"{arguments.kind}-{seed}.json"
            rows: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
            if name in rows or not name.startswith(tuple(arguments.only)):
                continue
            base = FINETUNED if arguments.kind == "finetuned" else BASE
            config = base.replace(seed=seed, model__graph=arguments.kind == "graph", **change)
            run = arguments.out / f"{arguments.kind}-{seed}" / name.replace(" ", "_")
            if arguments.kind == "finetuned":
                config = config.replace(model__weights=str(run.parent / "head"))
            if change:
                begin(run, run.parent / "none", config)
            work = run_finetuned if arguments.kind == "finetuned" else run_frozen
            rows[name] = work(config, known, truth, test, arguments.data, run)
            write_json(path, rows)
            if change:
                shutil.rmtree(run / "checkpoints", ignore_errors=True)
            say(seed, name, rows)


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
