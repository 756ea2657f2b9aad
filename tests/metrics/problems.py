"""Scores with partly known labels, as cases and at random."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

CASES = Path(__file__).parent.parent / "cases"


def read_case(case: str, scores: str = "scores") -> tuple[list[str], np.ndarray, np.ndarray, dict[str, Any]]:
    def table(name: str) -> tuple[list[str], np.ndarray]:
        with open(CASES / case / f"{name}.csv", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        return header[1:], np.array([[float(value) for value in row[1:]] for row in rows])

    names, labels = table("labels")
    expected = json.loads((CASES / case / "expected.json").read_text(encoding="utf-8"))
    return names, table(scores)[1], labels.astype(np.int8), expected


def as_dict(names: list[str], values: np.ndarray) -> dict[str, float | None]:
    return {n: None if np.isnan(v) else round(float(v), 9) for n, v in zip(names, values, strict=True)}


def partial(seed: int, n: int = 60, c: int = 5, known: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.integers(-8, 9, size=(n, c)).astype(np.float32) / 4
    labels = rng.choice([-1, 1], size=(n, c)) * (rng.random((n, c)) < known)
    return scores, labels.astype(np.int8)


problems = st.tuples(st.integers(0, 10), st.integers(1, 4)).flatmap(
    lambda shape: st.tuples(
        hnp.arrays(
            np.float32, shape, elements=st.sampled_from([-np.inf, -2.0, -0.5, -0.0, 0.0, 0.5, 1e-30, 3.0, np.inf])
        ),
        hnp.arrays(np.int8, shape, elements=st.sampled_from([-1, 0, 1])),
        hnp.arrays(np.float64, shape[1], elements=st.sampled_from([-3.0, -0.5, 0.0, 0.5, 4.0])),
    )
)
