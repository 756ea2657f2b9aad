"""Results that are there, and means and intervals of them over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from experiments.jobs import Job, store
from experiments.presets import Preset

#: attribute of the metrics -> as the paper calls it
NAMES = {
    "mean_ap": "mAP",
    "zero_one": "0-1",
    "macro_f1": "M-F1",
    "micro_f1": "m-F1",
    "pc_precision": "PC-P",
    "pc_recall": "PC-R",
    "ov_precision": "OV-P",
    "ov_recall": "OV-R",
}
MISSING = "not run here"


@dataclass(frozen=True)
class Sample:
    """The values of a number over seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float:
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else math.nan

    @property
    def half_width(self) -> float:
        """Of the 95 % interval of the mean (Student's t); NaN for one seed."""
        count = len(self.values)
        return float(t.ppf(0.975, count - 1)) * self.deviation / math.sqrt(count) if count > 1 else math.nan

    def __str__(self) -> str:
        if not self.values:
            return MISSING
        return f"{self.mean:.2f}" if len(self.values) == 1 else f"{self.mean:.2f} ± {self.deviation:.2f}"

    def difference(self) -> str:
        """As a paired difference with its interval."""
        if not self.values:
            return MISSING
        if len(self.values) == 1:
            return f"{self.mean:+.2f} (one seed)"
        return f"{self.mean:+.2f} [{self.mean - self.half_width:+.2f}, {self.mean + self.half_width:+.2f}]"

    def verdict(self, agrees_if: int = 1) -> str:
        """Whether the difference has the sign that the paper claims, by the 95 % interval."""
        if not self.values:
            return "not measured"
        if len(self.values) > 1 and not any(self.values):
            return "equal in each seed"
        if len(self.values) == 1:
            return f"one seed, which {'agrees' if self.mean * agrees_if > 0 else 'differs'}"
        if abs(self.mean) <= self.half_width:
            return "undecided (the interval holds 0)"
        return "agrees" if self.mean * agrees_if > 0 else "differs"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper that a difference decides: ``sign`` is the one it claims, 0 where the paper has none."""

    text: str
    found: Sample
    sign: int = 1
    paper: str = ""


class Results:
    """The records of one preset, as they were when the first was asked for."""

    def __init__(self, folder: Path, preset: Preset) -> None:
        self.folder, self.preset = folder, preset
        self._records: dict[str, dict[str, Any]] | None = None
        self.used: dict[str, dict[str, Any]] = {}
        self.claimed: list[Claim] = []

    def get(self, job: Job) -> dict[str, Any] | None:
        """The record of a job, or None; what is read is noted in ``used``."""
        if self._records is None:
            self._records = store(self.folder, self.preset.name).read()
        record = self._records.get(job.name)
        if record is not None:
            self.used[job.name] = record
        return record

    def metric(self, job: Job, name: str = "mean_ap") -> float | None:
        record = self.get(job)
        return None if record is None else record["metrics"][name]

    def sample(self, jobs: Iterable[Job], name: str = "mean_ap") -> Sample:
        """A metric of jobs that differ in their seed; those not run are left out."""
        found = [self.metric(job, name) for job in jobs]
        return Sample(tuple(value for value in found if value is not None))

    def contrast(self, terms: Iterable[tuple[float, Sequence[Job]]], name: str = "mean_ap") -> Sample:
        """Weighted sums of a metric over lists of jobs of the same seeds, for the seeds of which all were run."""
        weights, columns = zip(*terms, strict=True)
        found = []
        for row in zip(*columns, strict=True):
            values = [self.metric(job, name) for job in row]
            if all(value is not None for value in values):
                found.append(sum(w * v for w, v in zip(weights, values, strict=True) if v is not None))
        return Sample(tuple(found))

    def paired(self, jobs: Sequence[Job], others: Sequence[Job], name: str = "mean_ap") -> Sample:
        """Differences of pairs of jobs, where both were run; none where a list is empty."""
        return self.contrast([(1, jobs), (-1, others)], name) if jobs and others else Sample(())

    def best(self, jobs: Sequence[Job]) -> Job | None:
        """The job with the highest mAP; None until all are there."""
        scored = [(self.metric(job), job) for job in jobs]
        if not scored or any(value is None for value, _ in scored):
            return None
        return max(scored, key=lambda pair: pair[0] or 0.0)[1]
