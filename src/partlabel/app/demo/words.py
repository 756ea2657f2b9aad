"""What the demo says at its end: three small tables, and the commands that do the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from partlabel.core.text import as_typed

#: metrics of a row, with their titles
_COLUMNS = {"mAP": "mean_ap", "macro-F1": "macro_f1", "all ten right": "zero_one"}
_WIDE = 39


def table(results: dict[str, Any]) -> str:
    """The three lessons as text, in percent, from what ``results.json`` holds."""
    labels, asked, filled = results["labels"], results["asked"], results["filled_in"]
    one_in = round(labels["of"] / labels["known"])
    return "\n".join(
        [
            f"Measured on {results['test_scenes']:,} new scenes, in percent",
            "",
            f"1. Unknown is not absent: one label in {one_in} is known, the others were never looked at.",
            *_rows(results, 1),
            "",
            f"2. Ask: {asked['questions']:,} labels more, twice as many in all "
            f"({asked['present']:,} of those asked for are present).",
            *_rows(results, 2, before="unknown"),
            "",
            f"3. Fill in with a promise: with {filled['confidence']:.0%} confidence, at least "
            f"{filled['precision']:.0%} of the labels filled in are right.",
            f"{'':{_WIDE}}{'filled in':>14}{'right':>14}",
            *(_filled(name, filled[name]) for name in ("present", "absent")),
            f"   of {filled['of']:,} unknown labels; the truth, by which they are checked here, was not used",
        ]
    )


def _rows(results: dict[str, Any], lesson: int, before: str = "") -> list[str]:
    lines = ["".join([" " * _WIDE, *(f"{title:>14}" for title in _COLUMNS)])]
    for model in results["models"]:
        if model["lesson"] == lesson or model["key"] == before:
            name = "none, as above" if model["key"] == before else model["name"]
            values = "".join(f"{100 * model['metrics'][key]:14.1f}" for key in _COLUMNS.values())
            lines.append(f"   {name:{_WIDE - 3}}{values}")
    return lines


def _filled(name: str, found: dict[str, Any]) -> str:
    right = "-" if found["right"] is None else f"{100 * found['right']:.1f}"
    return f"   {name:{_WIDE - 3}}{found['labels']:14,}{right:>14}"


def explained(results: dict[str, Any], folder: Path) -> str:
    """How to read the tables, and the commands."""
    budget = results["asked"]["questions"]
    precision, confidence = (results["filled_in"][name] for name in ("precision", "confidence"))
    images, labels = ("--images", folder / "scenes"), folder / "labels"
    train = (*images, "--validation", "held.parquet", "--config", folder / "runs" / "unknown" / "config.toml", "-o")
    coding = ("--coding", "1=present,0=absent,blank=unknown")
    held = ("--share", "0.2", "-o", "train.parquet", "--held-out", "held.parquet")
    commands = [
        ("import", "csv", labels / "known.csv", *coding, *images, "-o", "known.parquet"),
        ("labels", "hold-out", "known.parquet", *held),
        ("train", "train.parquet", *train, "run"),
        ("next", "run", "known.parquet", *images, "--budget", budget, "-o", "questions.csv"),
        ("labels", "answers", "train.parquet", labels / "questions.csv", "-o", "grown.parquet"),
        ("train", "grown.parquet", *train, "run2"),
        ("evaluate", "run2", labels / "test.parquet", *images),
        ("complete", "run2", *images, "--precision", precision, "--confidence", confidence, "-o", "completed.parquet"),
    ]
    typed = "\n".join(f"  {as_typed('partlabel', *words)}" for words in commands)
    return f"""\
All models share the network, the scenes, the seed and the number of passes over the scenes that they learn from. One
seed: differences of one or two points are chance.

Look at     {folder / "picture.png"}
The same with commands, as for your own images:
{typed}"""
