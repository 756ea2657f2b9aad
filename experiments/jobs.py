"""A job: one training of an experiment, given by its settings alone; what it is called and where its result is."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from experiments.store import Store

#: shares of labels that are known after each round of ``asked``; the first round is drawn at random
ASKED = (0.02, 0.04, 0.06, 0.08, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PACKAGES = ("partlabel", "torch", "timm", "numpy", "scikit-learn")


@dataclass(frozen=True)
class Labels:
    """Which training labels are known: a strategy, and the share of labels that are known and right."""

    kind: str = "all"
    share: float = 1.0

    @property
    def name(self) -> str:
        return self.kind if self.share == 1 else f"{self.kind}-{100 * self.share:g}"


def labels(kind: str, share: float) -> Labels:
    """The labels of a strategy; with a share of 1, those of every strategy are the same."""
    return Labels() if share == 1 else Labels(kind, share)


@dataclass(frozen=True, kw_only=True)
class Job:
    """The settings of one training; what they change is the base configuration of a preset.

    ``base``: its name. ``seed``: draws the known labels, the first weights and the order of training.
    ``loss``, ``gamma``, ``value``: equations 1 and 2, ``value`` is g(0.1). ``rate``, ``decay``: factors of the base's
    learning rate and weight decay. ``graph``: T of the label graph, 0 is none; ``last_only`` leaves its first hidden
    state out of the output. ``relabel``: two rounds by ``strategy`` with ``theta``; by default [e] with the paper's
    best theta. ``backbone``, ``pooling``: other than the base's.
    ``held_out``: trained without a part of the training images, and measured on that part instead of the test part.
    """

    labels: Labels
    seed: int
    base: str = "sweep"
    loss: str = "bce"
    gamma: float = 1.0
    value: float = 5.0
    rate: float = 1.0
    decay: float = 1.0
    graph: int = 0
    last_only: bool = False
    relabel: bool = False
    strategy: str = "uncertainty"
    theta: float = 0.3
    backbone: str = ""
    pooling: str = ""
    held_out: bool = False

    @property
    def name(self) -> str:
        """Unique for the settings, and a file name."""
        parts = [self.base, self.labels.name, self.loss]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("labels", "seed", "base", "loss") or value == field.default:
                continue
            parts.append(field.name if value is True else f"{field.name}{value}".replace("backbone", ""))
        return "_".join([*parts, f"seed{self.seed}"]).replace("last_only", "last-only").replace("held_out", "held-out")

    @property
    def previous(self) -> Job | None:
        """Of ``asked``, the round before: its model says what to ask."""
        if self.labels.kind != "asked" or self.labels.share == ASKED[0]:
            return None
        return replace(self, labels=Labels("asked", ASKED[ASKED.index(self.labels.share) - 1]))


def store(results: Path, preset: str) -> Store:
    """The results of all jobs of a preset, by the name of the job."""
    return Store(results / "jobs" / f"{preset}.jsonl")


def commit() -> str | None:
    """The commit of the code, with a mark where files differ from it; None outside of a checkout."""

    def git(*words: str) -> str:
        place = Path(__file__).parent
        return subprocess.run(["git", *words], cwd=place, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", "../src")
        return git("rev-parse", "HEAD") + (" and changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def where() -> dict[str, Any]:
    """The code, the machine class and the versions that a result was made with."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        named = [
            line.partition(":")[2].strip()
            for line in info.read_text(encoding="utf-8").splitlines()
            if "model name" in line
        ]
        cpu = named[0] if named else cpu
    machine = f"{cpu}, {os.cpu_count()} cores, {torch.get_num_threads()} threads used"
    if torch.cuda.is_available():
        machine += f", {torch.cuda.get_device_name()}"
    return {"commit": commit(), "machine": machine, "versions": {name: version(name) for name in PACKAGES}}
