"""Does the precision that completion states hold? Frozen backbone, 10 % known at random, hidden truth, 60 seeds.

    python -m experiments.completion train --data ../shared/data/coco-mini --out runs/completion
    python -m experiments.completion measure --out runs/completion
    python -m experiments.completion draw --out runs/completion

One training for each seed holds out both a tenth of the images and a fifth of the known labels of the others, so that
completion by either kind of held-out labels is compared on the same scores. Filled in are all labels that were hidden.
As the promise is about the draw of the held-out labels, they are also drawn anew several times for each model.
The results are ``experiments/results/completion.jsonl``, one row a seed; finished seeds are not computed again.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.frozen import pooled
from experiments.main_job import FROZEN, tables
from experiments.store import RESULTS, Store
from partlabel import LabelTable, Model, simulate, train
from partlabel.labels.holdout import hold_out
from partlabel.tasks.completion import SIGNS, complete

STORE = Store(RESULTS / "completion.jsonl")
KNOWN, PICTURES, LABELS = 0.1, 0.1, 0.2
PRECISIONS, CONFIDENCE = (0.9, 0.95, 0.99), 0.9
#: times that the labels held out of one model are drawn anew; the model has seen none of them
DRAWS = 4


def parts(truth: LabelTable, seed: int) -> tuple[LabelTable, LabelTable, LabelTable, NDArray[np.bool_]]:
    """Labels to train on, labels held out by image, labels held out by label, and which images are held out."""
    known = simulate.partial(truth, KNOWN, seed)
    pictures = np.random.default_rng(seed).random(truth.num_images) < PICTURES
    of_held = pictures[known.pair_images()]
    by_picture, rest = known.hide(of_held), known.hide(~of_held)
    learned, by_label = hold_out(rest, LABELS, seed)
    return learned, by_picture, by_label, pictures


def train_one(truth: LabelTable, seed: int, data: Path, out: Path) -> None:
    """Train on a seed and keep the scores of all images."""
    target = out / f"scores-{seed}.npy"
    if target.is_file():
        return
    run, folder = out / f"seed-{seed}", data / "images"
    learned = parts(truth, seed)[0]
    train(learned, folder, out=run, config=FROZEN.replace(seed=seed), resume=(run / "run.json").is_file())
    model = Model.load(run, which="last")
    source = pooled(model, [folder / name for name in truth.images.to_pylist()], flip=True)
    batches = [np.arange(a, min(a + 512, truth.num_images)) for a in range(0, truth.num_images, 512)]
    with torch.inference_mode():
        scores = [model(batch, model.backbone.num_stages) for batch in source.batches(batches, None)]
    np.save(target, torch.cat(scores).numpy())
    shutil.rmtree(run)


def measured(truth: LabelTable, table: LabelTable, held: LabelTable, scores: NDArray[np.float32], seed: int) -> dict:
    """What is filled in at each precision, and how much of it is right."""
    found: dict[str, Any] = {}
    true, unknown = truth.dense(), table.dense() == 0
    for precision in PRECISIONS:
        made, report = complete(table, scores, held, scores, precision=precision, confidence=CONFIDENCE, seed=seed)
        filled, row = made.dense(), {}
        for name, sign in SIGNS.items():
            here = unknown & (filled == sign)
            right = here & (true == sign)
            alone = [truth.class_index(t["class"]) for t in report[name]["tests"] if t["class"] and t["filled"]]
            row[name] = {
                "filled": int(here.sum()),
                "share_of_unknown": float(here.sum() / unknown.sum()),
                "recall": float(right.sum() / (unknown & (true == sign)).sum()),
                "right": float(right.sum() / here.sum()) if here.any() else None,
                "classes_alone": len(alone),
                "classes_alone_missed": sum(bool(right[:, c].sum() < precision * here[:, c].sum()) for c in alone),
                "design_effect": max((t["design_effect"] or 0 for t in report[name]["tests"]), default=0),
                "not_like_a_random_sample": sum(not c["like_a_random_sample"] for c in report["classes"]),
            }
        found[f"{precision:g}"] = {**row, "given_changed": int((filled[~unknown] != table.dense()[~unknown]).sum())}
    return found


def measure(truth: LabelTable, seed: int, out: Path) -> dict[str, Any]:
    """One row: completion by labels held out, and by images held out."""
    scores = np.load(out / f"scores-{seed}.npy")
    learned, by_picture, by_label, _ = parts(truth, seed)
    table = learned.merge(by_picture).merge(by_label)
    return {
        "labels": measured(truth, table, by_label, scores, seed),
        "pictures": measured(truth, table, by_picture, scores, seed),
        "drawn_anew": [],
    }


def draw_anew(truth: LabelTable, seed: int, out: Path) -> list[dict[str, Any]]:
    """Completion by labels drawn anew for the same model."""
    scores = np.load(out / f"scores-{seed}.npy")
    learned, _, by_label, pictures = parts(truth, seed)
    rows = []
    outside = truth.hide((learned.dense() == 0)[truth.pair_images(), truth.indices] & ~pictures[truth.pair_images()])
    share = by_label.num_known / outside.num_known
    for draw in range(DRAWS):
        held = hold_out(outside, share, 1000 * seed + draw)[1]
        rows.append(measured(truth, learned.merge(held), held, scores, seed))
    return rows


def came_to(rows: dict[str, Any]) -> dict[str, Any]:
    """Over the seeds: in which share of them the precision held, and what was filled in, on average."""
    found: dict[str, Any] = {}
    for kind in ("labels", "pictures", "drawn_anew"):
        for precision in PRECISIONS:
            for name in SIGNS:
                each = [
                    case[f"{precision:g}"][name]
                    for row in rows.values()
                    for case in (row[kind] if kind == "drawn_anew" else [row[kind]])
                ]
                kept = [one["right"] is None or one["right"] >= precision for one in each]
                if not each:
                    continue
                found[f"{kind}, {name}, {precision:g}"] = {
                    "cases": len(each),
                    "held_in": float(np.mean(kept)),
                    "filled_in_none": sum(one["right"] is None for one in each),
                    "share_of_unknown": float(np.mean([one["share_of_unknown"] for one in each])),
                    "recall": float(np.mean([one["recall"] for one in each])),
                    "right_least": min((one["right"] for one in each if one["right"] is not None), default=None),
                    "tests_of_a_class": sum(one["classes_alone"] for one in each),
                    "of_these_missed": sum(one["classes_alone_missed"] for one in each),
                }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["train", "measure", "draw"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--out", type=Path, default=Path("runs/completion"))
    parser.add_argument("--seeds", type=int, default=60)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    truth = tables(arguments.data)[0]
    rows = {name: row for name, row in STORE.read().items() if name != "summary"}
    for seed in range(arguments.seeds):
        if arguments.part == "train":
            train_one(truth, seed, arguments.data, arguments.out)
        elif (arguments.out / f"scores-{seed}.npy").is_file():
            name = f"seed {seed}"
            if name not in rows:
                rows[name] = measure(truth, seed, arguments.out)
            elif arguments.part == "draw" and not rows[name]["drawn_anew"]:
                rows[name]["drawn_anew"] = draw_anew(truth, seed, arguments.out)
            else:
                continue
            STORE.add(name, rows[name])
            print(name, flush=True)
    summary = came_to(rows) if rows else {}
    STORE.add("summary", summary)
    for name, row in summary.items():
        print(
            f"{name:32} held in {row['held_in']:.1%} of {row['cases']} cases ({row['filled_in_none']} filled none), "
            f"{row['share_of_unknown']:.2%} of the unknown, {row['recall']:.1%} of those of the sign"
        )


if __name__ == "__main__":
    main()
