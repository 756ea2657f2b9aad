"""Does the preset ``auto`` choose better than the preset ``small``? Tables of many kinds, the truth known.

    python -m experiments.auto --features FOLDER --data ../shared/data/coco-mini

``FOLDER`` holds ``NAME.npy`` for each candidate, what the head sees of the training images (``lite0-288``,
``lite0-224``, ``lite2-288``), all for the first so many images. For each table the candidates are tried on 300 of its
images by known labels only, as :mod:`partlabel.training.choosing` does, and each is learned on the whole table and
measured on held-out images with all their labels. Results: ``experiments/results/auto.jsonl``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from experiments.closed_form import KINDS, Features, mean_ap
from experiments.main_job import tables
from experiments.store import RESULTS, Store
from partlabel import LabelTable
from partlabel.training.choosing import Candidate, decide, precision_of, sample_rows
from partlabel.training.discriminant import Round, fit
from partlabel.training.folds import out_of_fold

NAMES = ("lite0-288", "lite0-224", "lite2-288")
TRIED, HELD = 300, 1000


def row(features: dict[str, Features], table: LabelTable, own: Any, held: Any, truth: Any) -> dict[str, Any]:
    """What is chosen, and what each candidate gives on the held-out images."""
    labels, rows = table.dense(), sample_rows(table, TRIED)
    tried, gives = [], {}
    for name in NAMES:
        for words, rounds in ((name, Round()), (f"{name} without", None)):
            x = features[name][own]
            scores = out_of_fold(x[rows], table.select(rows), rounds=rounds).dense()
            tried.append(Candidate(words, {}, 0.0, precision_of(scores, table.select(rows))))
            gives[words] = mean_ap(fit(x, labels, rounds=rounds).scores(features[name][held]), truth)
    best, reason = decide(tried)
    assert best is not None
    return {"chosen": best.name, "reason": reason, "map": gives}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    arguments = parser.parse_args()
    store = Store(RESULTS / "auto.jsonl")
    done = store.read()
    features = {name: np.load(arguments.features / f"{name}-train.npy", mmap_mode="r") for name in NAMES}
    images = min(map(len, features.values()))
    features = {name: np.asarray(x[:images], np.float32) for name, x in features.items()}
    table, _ = tables(arguments.data)
    names, everything = table.images.to_pylist(), table.dense()[:images]
    for size in (600,):
        for classes in (6, 20, 80):
            for share in (0.05, 0.3):
                for kind, draw in KINDS.items():
                    key = f"{size} images, {classes} classes, {100 * share:g} % known {kind}"
                    if key in done:
                        continue
                    random = np.random.default_rng([size, classes, int(1000 * share), len(kind)])
                    order = random.permutation(images)
                    held, own = order[:HELD], order[HELD : HELD + size]
                    frequent = np.argsort(-(everything[held] > 0).sum(0))[:60]
                    columns = np.arange(80) if classes == 80 else random.permutation(frequent)[:classes]
                    labels = draw(everything[own][:, columns], share, random)
                    if not (labels > 0).any():
                        continue
                    small = LabelTable.from_dense([names[i] for i in own], [table.classes[c] for c in columns], labels)
                    store.add(key, row(features, small, own, held, everything[held][:, columns]))
    rows = store.read().values()
    gains = np.array([each["map"][each["chosen"]] - each["map"][NAMES[0]] for each in rows])
    best = np.array([max(each["map"].values()) - each["map"][NAMES[0]] for each in rows])
    moved = np.array([each["chosen"] != NAMES[0] for each in rows])
    print(
        f"{len(gains)} tables: auto takes another setting in {moved.sum()}, which is worse in {(gains < 0).sum()}; "
        f"mean gain {gains.mean():+.2f} mAP, of {best.mean():.2f} in sight of the truth, worst {gains.min():+.2f}"
    )
    for words in next(iter(rows))["map"]:
        found = np.array([each["map"][words] - each["map"][NAMES[0]] for each in rows])
        print(f"{words}: {found.mean():+.2f} on average, better in {(found > 0).mean():.0%}, worst {found.min():+.2f}")


if __name__ == "__main__":
    main()
