"""The command ``relabel``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from partlabel.app.cli.output import Json, reporting
from partlabel.app.cli.settings import StrategyName
from partlabel.method.strategies import STRATEGIES


def relabel(
    run: Path,
    labels: Path,
    /,
    *,
    images: Path | None = None,
    output: Annotated[Path, Parameter(alias="-o")],
    also: Annotated[tuple[Path, ...], Parameter(negative=())] = (),
    strategy: StrategyName | None = None,
    theta: float | None = None,
    measure: Literal["variance", "deviation", "probability-variance", "entropy", "mutual-information"] | None = None,
    seed: int = 0,
    truth: Path | None = None,
    scores: Path | None = None,
    json: Json = False,
) -> None:
    """Let a trained classifier fill in the labels that it finds easy.

    Labels that are known stay as they are. Each new one is marked as the model's, with its round and score, and can be
    taken back (`partlabel labels undo`). What is easy is the strategy's to say; it fills in an unknown label when

    {strategies}

    Args:
        run: Run folder of `partlabel train`.
        labels: Label table, a .parquet file.
        images: Folder that the image names of the table start from.
        scores: Instead of `--images`, a folder of scores that `partlabel predict` wrote, in shards, with all classes.
        output: Where the label table with the new labels is written.
        also: Run folder of another model; the scores of all are averaged. Can be given several times.
        strategy: What makes a label easy, see above. Without it, that of the run's settings.
        theta: Threshold or share of the strategy. Without it, that of the run's settings, or the paper's best for the
            strategy.
        measure: Of the uncertainty. Without it, that of the run's settings.
        seed: Number that decides the samples of dropout.
        truth: Label table with the true labels, for experiments: says how many new labels are right.
    """
    with reporting(json) as report:
        from partlabel.app.api import relabel as fill
        from partlabel.labels.table import LabelTable

        found = fill(
            run,
            LabelTable.read_parquet(labels),
            images=images,
            strategy=strategy,
            theta=theta,
            measure=measure,
            also=also,
            seed=seed,
            truth=None if truth is None else LabelTable.read_parquet(truth),
            scores=scores,
        )
        made, done = found.labels, found.report
        made.write_parquet(output)
        report({"output": str(output), **done}, _text(done, output))


_LIST = "\n    ".join(f"- `{name}`: {strategy.when}." for name, strategy in STRATEGIES.items())
relabel.__doc__ = (relabel.__doc__ or "").replace("{strategies}", _LIST)


def _text(done: dict[str, Any], output: Path) -> str:
    """Say what was added."""
    lines = [
        f"{output}: {done['added_present']:,} present and {done['added_absent']:,} absent labels added "
        f"(round {done['round']}, {done['strategy']}, theta {done['theta']:g}); "
        f"{done['label_proportion']:.1%} of the labels are known now"
    ]
    lines += [f"warning: {text}" for text in done["warnings"]]
    checked = done["truth"] and done["truth"]["this_round"]
    if checked:
        shares = {
            "of the truly present, labelled present": checked["true_positive_rate"],
            "of the truly absent, labelled absent": checked["true_negative_rate"],
            "right among the new present labels": checked["accuracy_present"],
            "right among the new absent labels": checked["accuracy_absent"],
        }
        lines += [f"  {text}: {'none' if share is None else f'{share:.2%}'}" for text, share in shares.items()]
    return "\n".join(lines)
