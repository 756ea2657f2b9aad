"""Whether the best methods for partial labels add up: means of their scores, and what each of them brings.

    python -m experiments.rival_combination 10 30 50 --data ../shared/data/coco-mini

The parts are the four best of ``experiments.rivals`` on the held-out fifth of the training images, at most one of each
kind (``KINDS``), at their settings there. Their scores, each class at unit variance over the scored images, are
averaged: all parts, all but one (the ablation), and the best alone. What is best on the held-out fifth, one draw of
known labels, is measured with all other rows on the test images with five draws. Results:
``experiments/results/rivals/combination-*.jsonl``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments import rival_methods as m
from experiments.closed_form import mean_ap
from experiments.reading import Results
from experiments.rendering import table, words
from experiments.rival_solvers import SOLVERS
from experiments.rivals import METHODS, RATE, SEEDS, Bench, chosen, known_labels, measured
from experiments.store import RESULTS, Store

#: methods of one idea, of which the best takes part
KINDS = {"csl, priors": "csl", "discriminant": "discriminant, round", "an": "wan", "an-ls": "wan"}
PARTS = 4
Scores = NDArray[np.float32]


def parts(setting: str) -> list[str]:
    """The best methods of a setting on the held-out fifth, the best first."""
    rows = Store(RESULTS / "rivals" / f"tune-{setting}.jsonl").read()
    names = {key.partition(" (")[0] for key, row in rows.items() if row["maps"]}
    ranked = sorted(names, key=lambda name: -max(chosen(setting, name)[1]["maps"]))
    best: dict[str, str] = {}
    for name in ranked:
        best.setdefault(KINDS.get(name, name), name)
    return list(best.values())[:PARTS]


def unit(scores: Scores) -> Scores:
    """Scores (N, C) with each class at unit variance, so that a mean counts all alike."""
    finite = np.nan_to_num(scores, posinf=0, neginf=0)
    deviation = finite.std(0)
    return (finite - finite.mean(0)) / np.where(deviation > 0, deviation, 1)


def subsets(names: list[str]) -> dict[str, list[str]]:
    """What is measured: all parts, all but each, and the best one alone."""
    return {
        "all": names,
        **{f"without {name}": [own for own in names if own != name] for name in names},
        f"{names[0]} alone": names[:1],
    }


def heads(setting: str, name: str, data: m.Data, labels: NDArray[np.int8], others: Scores) -> Scores:
    """Scores (S, n, C) of a method at its setting, from S draws of known labels."""
    variant, row = chosen(setting, name)
    if name in SOLVERS:
        x = data.x.numpy()
        return np.stack([SOLVERS[name][0](x, own, others, **variant) for own in labels])
    method = METHODS[name][0](data, **variant)
    count = len(labels)
    weight, bias = m.train(data, method, np.full(count, RATE), np.full(count, row["decay"]), 0)
    return (torch.from_numpy(others) @ weight + bias[:, None]).numpy()


def run(bench: Bench, setting: str) -> None:
    """The rows of a setting."""
    store = Store(RESULTS / "rivals" / f"combination-{setting}.jsonl")
    names = parts(setting)
    wanted = [name for name in subsets(names) if name not in store.read()]
    if not wanted:
        return
    began, (rows, held) = time.process_time(), bench.split()
    one = known_labels(setting, bench.table, 0)[rows][None]
    many = np.stack([known_labels(setting, bench.table, seed) for seed in SEEDS])
    data_one, data_many = bench.data(one, rows), bench.data(many)
    found = {
        name: (
            unit(heads(setting, name, data_one, one, bench.x[held])[0]),
            [unit(own) for own in heads(setting, name, data_many, many, bench.x_test)],
        )
        for name in names
    }
    for what in wanted:
        own = subsets(names)[what]
        held_out = mean_ap(np.mean([found[name][0] for name in own], axis=0), bench.truth[held])
        scores = np.stack([np.mean([found[name][1][s] for name in own], axis=0) for s in range(len(SEEDS))])
        record: dict[str, Any] = {"parts": own, "held_out": round(held_out, 3), **measured(bench, scores, 0.0)}
        store.add(what, {key: value for key, value in record.items() if key != "micro_f1"})
        print(setting, what, f"{held_out:.2f}", np.mean(record["map80"]), flush=True)
    print(f"{time.process_time() - began:.0f} s of processor time")


ABOUT = """**Do they add up?** Means of the scores of the four best methods on the held-out fifth, one of each kind,
each class at unit variance; without each of them; and the best alone. The held-out fifth chooses (bold)."""


def render(results: Results) -> str:
    """A table of what was run."""
    del results
    lines = []
    for setting in ("10", "30", "50"):
        rows = Store(RESULTS / "rivals" / f"combination-{setting}.jsonl").read()
        best = max((row["held_out"] for row in rows.values()), default=0.0)
        for what, row in rows.items():
            named = f"{what} ({', '.join(row['parts'])})" if what == "all" else what
            name = f"**{named}**" if row["held_out"] == best else named
            means = (f"{np.mean(row[key]):.2f} ± {np.std(row[key], ddof=1):.2f}" for key in ("map80", "map18"))
            lines.append((f"{setting} %", name, f"{row['held_out']:.2f}", *means))
    if not lines:
        return ""
    head = ("known", "mean of", "held-out fifth", "mAP80", "mAP18")
    return f"{words(ABOUT)}\n\n{table(head, lines)}\n\n`python -m experiments.rival_combination`."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="+", choices=("10", "30", "50"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    bench = Bench.of(arguments.data)
    for setting in arguments.settings:
        run(bench, setting)


if __name__ == "__main__":
    main()
