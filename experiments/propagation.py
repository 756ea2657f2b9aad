"""A method for missing labels that cannot fine-tune: label spreading over a graph of neighbours (supplementary).

The paper compares with such a method on VOC 2007. Here it is scikit-learn's LabelSpreading (Zhou et al., 2004), one
class after the other, on the frozen features that the frozen head sees too; training and test images are the nodes,
and the test images have no labels. The number of neighbours and alpha are chosen on a held-out part of the training
images, at 10 % known labels of the first seed.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from experiments import known_labels
from experiments.carry_out import Place, metrics_record
from experiments.jobs import Job, labels, where
from experiments.reading import Claim, Results
from experiments.rendering import about, claims, table
from partlabel import Model
from partlabel.metrics import evaluate
from partlabel.training.batches import Stored, open_source

SHARES = (0.1, 0.4, 1.0)
NEIGHBOURS = (10, 30, 100)
ALPHAS = (0.5, 0.9, 0.99)
ITERATIONS = 60


def of_spreading(share: float, seed: int, neighbours: int, alpha: float, held_out: bool = False) -> Job:
    """A job of another kind: its base names the method and its two settings."""
    base = f"spreading-k{neighbours}-alpha{alpha:g}"
    return Job(labels=labels("partial", share), seed=seed, base=base, loss="none", held_out=held_out)


def grid(results: Results) -> list[Job]:
    preset = results.preset
    return [
        of_spreading(0.1, preset.seeds[0], neighbours, alpha, held_out=True)
        for neighbours in preset.grid(NEIGHBOURS)
        for alpha in preset.grid(ALPHAS)
    ]


def chosen(results: Results, share: float) -> list[Job]:
    """The best setting on the test images; none while the grid is not complete."""
    best = results.best(grid(results))
    if best is None:
        return []
    return [replace(best, labels=labels("partial", share), seed=seed, held_out=False) for seed in results.preset.seeds]


def _all_chosen(results: Results) -> list[Job]:
    return [job for share in results.preset.some(SHARES) for job in chosen(results, share)]


def peers(results: Results, share: float, loss: str) -> list[Job]:
    """The frozen head on the same features and labels."""
    loss = "bce" if share == 1 else loss
    return [Job(labels=labels("partial", share), seed=seed, loss=loss) for seed in results.preset.seeds]


def run(place: Place) -> None:
    """All jobs that are not there and that no other process has."""
    features: NDArray[np.float32] | None = None
    for listed in (grid, _all_chosen):
        for job in listed(Results(place.results, place.preset)):
            with place.store.alone(job.name, wait=False) as alone:
                if not alone or job.name in place.store.read():
                    continue
                features = _features(place) if features is None else features
                record = _record(job, place, features)
                place.store.add(job.name, record)
            print(f"{job.name}: mAP {record['metrics']['mean_ap']:.2f}, {record['seconds']:.0f} s", flush=True)


def _features(place: Place) -> NDArray[np.float32]:
    """Standardised pooled features of the training images, then of the test images, each of length 1."""
    bases = place.preset.bases
    config = next(bases[name].config for name in ("sweep", "head") if bases[name].config.freeze == "all")
    train, test = place.dataset.train, place.dataset.test
    model = Model(replace(config.model, pooling="average"), train.table.classes, config.images.size)
    parts = []
    for paths, flip in ((train.paths, config.images.flip), (test.paths, False)):
        limit = config.images.max_pixels
        source = open_source(model, model.backbone.num_stages, paths, flip=flip, workers=1, max_pixels=limit)
        assert isinstance(source, Stored)
        parts.append(source.array[:, 0, :, 0, 0].astype(np.float32))
    mean, deviation = parts[0].mean(0), parts[0].std(0) + 1e-6
    x = (np.concatenate(parts) - mean) / deviation
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _record(job: Job, place: Place, features: NDArray[np.float32]) -> dict[str, Any]:
    from sklearn.neighbors import kneighbors_graph

    began = time.perf_counter()
    _, k, alpha = job.base.split("-")
    truth = place.dataset.train.table
    known = known_labels.draw(job.labels, truth, job.seed)
    state = np.zeros((len(features), truth.num_classes), np.int8)
    state[: truth.num_images] = known.dense()
    rows, answers = np.arange(truth.num_images, len(features)), place.dataset.test.table.dense()
    if job.held_out:
        share = place.preset.held_out
        _, rows = truth.split([1 - share, share], seed=0)
        answers = truth.dense(rows)
        state[rows] = 0
    neighbours = min(int(k[1:]), len(features) - 1)
    near = kneighbors_graph(features, neighbours, mode="connectivity")
    scores = spread(near.maximum(near.T).tocsr(), state, float(alpha.removeprefix("alpha")))[rows]
    return {
        "job": job.name,
        "dataset": place.dataset.name,
        "known": known.num_known / (known.num_images * known.num_classes),
        "metrics": metrics_record(evaluate(scores, answers)),
        "seed": job.seed,
        "seconds": round(time.perf_counter() - began, 1),
        "command": place.command,
        **where(),
    }


def spread(near: scipy.sparse.csr_matrix, state: NDArray[np.int8], alpha: float) -> NDArray[np.float32]:
    """Log-odds (N, C) of label spreading, class by class.

    Args:
        near: symmetric weights (N, N) of the neighbours.
        state: labels (N, C), 0 unknown.
        alpha: share of what a node takes from its neighbours.
    """
    from sklearn.exceptions import ConvergenceWarning  # which takes a second to load
    from sklearn.semi_supervised import LabelSpreading

    count, classes = state.shape
    scores = np.zeros((count, classes), np.float32)
    for c in range(classes):
        given = state[:, c]
        if not (given > 0).any() or not (given < 0).any():
            continue
        target = np.where(given == 0, -1, (given > 0).astype(np.int64))
        spreading = LabelSpreading(kernel=lambda x, y: near, alpha=alpha, max_iter=ITERATIONS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the ranking has long settled
            spreading.fit(np.zeros((count, 1)), target)
        odds = np.clip(spreading.label_distributions_, 1e-12, None)
        scores[:, c] = np.log(odds[:, 1] / odds[:, 0])
    return scores


CLAIM = """Paper: on VOC 2007 the method is compared with APG-Graph, which models semantic correlations between images
and cannot fine-tune the network (a plot; the text gives no number and no verdict). Here it is another such method,
label spreading on frozen features, so the paper has no claim on it. The test images are nodes of its graph, without
labels. Its neighbours and alpha are chosen on held-out training images with all their labels (10 % known, first
seed)."""
HERE = "No side is fine-tuned: both see the same frozen features. The head has the preset's settings."


def render(results: Results) -> str:
    """The section of RESULTS.md."""
    best = results.best(grid(results))
    rows, found = [], []
    for share in SHARES:
        spreading, head = chosen(results, share), peers(results, share, "partial-bce")
        rows.append(
            (
                f"{100 * share:g} %",
                str(results.sample(spreading)),
                str(results.sample(peers(results, share, "bce"))),
                str(results.sample(head)),
            )
        )
        text = f"partial-BCE on the frozen head - label spreading, {100 * share:g} %"
        found.append(Claim(text, results.paired(head, spreading), 0))
    setting = ""
    if best:
        own = best.base.replace("spreading-k", "k = ").replace("-alpha", ", alpha = ")
        tried = (", ".join(f"{value:g}" for value in values) for values in (NEIGHBOURS, ALPHAS))
        setting = "Chosen: {}; of k = {} and alpha = {}.".format(own, *tried)
    parts = (
        about(results, CLAIM, HERE),
        setting,
        table(("known", "label spreading", "BCE", "partial-BCE"), rows),
        claims(results, found),
    )
    return "\n\n".join(part for part in parts if part)
