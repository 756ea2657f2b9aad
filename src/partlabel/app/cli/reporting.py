"""The command ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from partlabel.app.cli.output import Json
from partlabel.app.cli.output import reporting as printing


def report(
    run: Path,
    /,
    *runs: Path,
    output: Annotated[Path, Parameter(alias="-o")] = Path("report.html"),
    labels: Path | None = None,
    images: Path | None = None,
    resamples: int = 1000,
    seed: int = 0,
    json: Json = False,
) -> None:
    """Write a report on one run, or on several side by side, as one HTML file.

    The page needs no network and no other file. It holds the metrics with intervals, the numbers of each class, curves,
    the calibration, the most confident mistakes, what is known about the labels, the training and its rounds of
    relabelling. The numbers are also written as JSON beside it.

    Measured are the known labels that each run held out for validation, or those of `--labels`. Several runs are
    compared with the first one, on the same images and labels only, with a paired bootstrap test.

    Args:
        run: Run folder of `partlabel train`; it may be unfinished.
        runs: More run folders.
        output: File to be written: .html; the JSON gets the same name.
        labels: Label table to measure on instead, a .parquet file.
        images: Folder that the image names start from; with it, mistakes are shown as images. `--labels` needs it.
        resamples: How often the images are drawn anew for the intervals.
        seed: Number behind these draws.
    """
    with printing(json) as say:
        from partlabel.app.report import write_report

        found = write_report([run, *runs], output, labels=labels, images=images, resamples=resamples, seed=seed)
        files = {"output": str(output), "numbers": str(output.with_suffix(".json"))}
        say({**files, **found}, _text(found, output))


def _text(found: dict[str, Any], output: Path) -> str:
    """The first numbers of each run."""
    from partlabel.metrics.headline import say

    lines = []
    for row in found["runs"]:
        if row["headline"] is not None:
            lines.append(f"{row['name']}: {say(row['headline'])}")
            continue
        if row["results"] is None:
            lines.append(f"{row['name']}: not measured, as it has no validation part; give --labels and --images")
            continue
        metric = row["results"]["metrics"][0]
        if metric["value"] is None:
            lines.append(f"{row['name']}: mAP undefined, as {metric['reason']}")
            continue
        bounds = "" if metric["low"] is None else f" ({metric['low']:.1%} to {metric['high']:.1%})"
        lines.append(f"{row['name']}: mAP {metric['value']:.1%}{bounds}")
    return "\n".join([*lines, f"Written to {output} and {output.with_suffix('.json')}"])
