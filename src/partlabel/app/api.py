"""What one does with a run, from Python: a function for each command, data first, small results.

:func:`partlabel.train`, :func:`partlabel.predict` and :func:`partlabel.evaluate` stand where their work is done; the
functions here open what they are given, take the run's lock where they write into it, and put results together.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partlabel import formats
from partlabel.app.results import Filled, NextLabels, Suspicions
from partlabel.core.errors import UserError
from partlabel.core.lock import holding
from partlabel.labels.table import LabelTable
from partlabel.training.config import Config
from partlabel.training.run import SETTINGS, Run

if TYPE_CHECKING:
    from partlabel.metrics.thresholds import Goal
    from partlabel.models.model import Model
    from partlabel.tasks.export import Exported, Int8Exported
    from partlabel.training.thresholds import Fitted

#: images that the ranges of an INT8 file are measured on, images without labels that it is compared on, and the fewest
_CALIBRATED, _COMPARED, _FEWEST = 100, 400, 20

AnyRun = Run | str | os.PathLike[str]


def read(format: str, path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], **options: Any) -> LabelTable:
    """Read annotations into a label table, whose ``report`` says what was read, changed, left out and assumed.

    Args:
        format: ``csv``, ``coco``, ``voc`` ...: a name in ``partlabel.formats.FORMATS``.
        path: a file or folder, as the format says; some formats take several.
        options: of the format, as ``partlabel import FORMAT --help`` lists them.

    Raises:
        UserError: an unknown format or option, or anything wrong in the file; all offenders of the pass are listed.

    >>> labels = read("csv", "labels.csv", coding="1=present,0=absent,blank=unknown")
    >>> labels
    LabelTable(24 images, 2 classes, 34 known labels)
    >>> print(labels.report.text().splitlines()[0])
    labels.csv (csv: wide table, separated by comma, UTF-8, 24 rows)
    """
    table, found = formats.read(format, path, **options)
    object.__setattr__(table, "report", found)  # the table is new, so nobody else holds it
    return table


def thresholds(
    run: AnyRun,
    *,
    goal: Goal = "f1",
    wanted: float | None = None,
    scores: str | os.PathLike[str] | None = None,
) -> Fitted:
    """Choose for each class from which score on it counts as present, on labels that the run was not trained on.

    They are written into the run, with the calibration and the model cards; everything that uses the run decides by
    them from then on.

    Args:
        run: a run or its folder.
        goal: ``f1``, or a ``precision`` or ``recall`` of at least ``wanted``.
        wanted: that precision or recall, above 0 and at most 1; None for F1.
        scores: a folder of scores of the validation images that ``partlabel predict`` wrote in shards, read some
            classes at a time; None takes those that lie in the run.

    Raises:
        UserError: a goal without its number, no run, no held-out labels, scores that do not fit, another process that
            writes into the run.

    >>> found = thresholds("run", goal="precision", wanted=0.9)
    >>> found.thresholds.values.shape
    (2,)
    """
    from partlabel.training.card import write_card
    from partlabel.training.thresholds import fit_run

    run, stored = _run(run), None
    if scores is not None:
        from partlabel.tasks.scoring import scores_of

        stored = scores_of(run.model, run.held_out_labels.images, None, scores, run.elsewhere)
    with holding(run.folder, "partlabel thresholds"):
        fitted = fit_run(run, goal, wanted, stored)
        write_card(run)
    return fitted


def relabel(
    run: AnyRun,
    labels: LabelTable,
    *,
    images: str | os.PathLike[str] | None = None,
    strategy: str | None = None,
    theta: float | None = None,
    measure: str | None = None,
    also: Sequence[AnyRun] = (),
    seed: int = 0,
    truth: LabelTable | None = None,
    scores: str | os.PathLike[str] | None = None,
) -> Filled:
    """Let a run fill in the unknown labels that it finds easy (section 3.3 of the paper).

    Args:
        run: a run or its folder, or the folder of a model alone.
        labels: the table; its image names are files in ``images``.
        images: the folder of the images.
        strategy: what makes a label easy, a name in ``partlabel.method.curriculum``; None is that of the run.
        theta: its threshold or share; None is that of the run, or the paper's best for a strategy chosen here.
        measure: what the uncertainty is, see ``RelabelConfig``; None is that of the run.
        also: other runs, whose scores are averaged with this one's.
        seed: of the samples of dropout.
        truth: true labels, for experiments: the report says how many new labels are right.
        scores: instead of the images, a folder of scores that ``partlabel predict`` wrote in shards.

    Raises:
        UserError: no run, classes that do not match, images that are missing or cannot be read, scores that do not fit
            or are not enough for the strategy.

    >>> labels = read("csv", "labels.csv", coding="1=present,0=absent,blank=unknown")
    >>> found = relabel("run", labels, images="photos", strategy="score-threshold", theta=1.0)
    >>> found.labels.num_known >= labels.num_known
    True
    """
    from partlabel.tasks.relabel import relabel as fill

    given = {"strategy": strategy, "theta": theta, "measure": measure}
    changes: dict[str, Any] = {} if strategy is None else {"relabel__theta": None}
    changes |= {f"relabel__{name}": value for name, value in given.items() if value is not None}
    settings = Path(run) / SETTINGS
    config = (Config.read(settings) if settings.is_file() else Config()).replace(**changes)
    models = [_model(own) for own in (run, *also)]
    more = {"batch_size": config.optim.batch_size, "seed": seed, "truth": truth, "scores": scores}
    return Filled(*fill(models, labels, images, config.relabel, **more))


def complete(
    run: AnyRun,
    labels: LabelTable | None = None,
    *,
    images: str | os.PathLike[str] | None = None,
    precision: float = 0.95,
    confidence: float = 0.9,
    seed: int = 0,
    scores: str | os.PathLike[str] | None = None,
) -> Filled:
    """Fill in unknown labels with a stated precision, where held-out labels bear it out.

    Args:
        run: a run with held-out labels, or its folder.
        labels: the table to complete; None takes the labels of the run.
        images: the folder of the images.
        precision: share of the labels filled in that must be right, above 0.5 and below 1.
        confidence: probability with which it must be.
        seed: of the draw that mixes the pool of classes.
        scores: instead of the images, a folder of scores of the last model that ``partlabel predict`` wrote in shards.

    Raises:
        UserError: see :func:`partlabel.tasks.complete.complete_run`.

    >>> found = complete("run", images="photos", precision=0.9)
    >>> sorted(found.report)[:3]
    ['absent', 'classes', 'confidence']
    """
    from partlabel.tasks.complete import complete_run

    options: dict[str, Any] = {"precision": precision, "confidence": confidence, "seed": seed, "scores": scores}
    made, done = complete_run(_run(run), images, labels, **options)
    return Filled(made, done)


def suspects(
    run: AnyRun,
    labels: LabelTable | None = None,
    *,
    images: str | os.PathLike[str] | None = None,
    seed: int = 0,
    scores: str | os.PathLike[str] | None = None,
) -> Suspicions:
    """List known labels that classifiers contradict which were trained without them.

    Args:
        run: a run or its folder, whose backbone gives the features.
        labels: the table; None takes the labels of the run.
        images: the folder of the images.
        seed: of the five folds.
        scores: instead of the images, a folder of scores that ``partlabel predict`` wrote in shards: they judge labels
            that the run was not trained on, those of its validation part where no table is given.

    Raises:
        UserError: see :func:`partlabel.tasks.suspects.check`.

    >>> found = suspects("run", images="photos")
    >>> found.checked >= len(found)
    True
    """
    from partlabel.tasks.suspects import check

    found = check(_run(run), labels, images, scores, seed=seed)
    listed, names = found.suspects, found.table.images.to_pylist()
    return Suspicions(
        tuple(names[i] for i in listed.image),
        tuple(found.table.classes[c] for c in listed.cls),
        listed.label,
        listed.probability,
        listed.checked,
    )


def next_labels(
    run: AnyRun,
    labels: LabelTable | None = None,
    *,
    images: str | os.PathLike[str] | None = None,
    budget: int,
    seed: int = 0,
    scores: str | os.PathLike[str] | None = None,
) -> NextLabels:
    """Choose which unknown labels to ask people for next.

    Args:
        run: a run or its folder.
        labels: the table; None takes the labels that the run was trained on.
        images: the folder of the images.
        budget: number of questions.
        seed: of the random part.
        scores: instead of the images, a folder of scores that ``partlabel predict`` wrote in shards.

    Raises:
        UserError: classes that do not match, nothing unknown, images that are missing or cannot be read.

    >>> asked = next_labels("run", images="photos", budget=6)
    >>> len(asked)
    6
    >>> asked.to_pandas().columns.tolist()
    ['image', 'class', 'why', 'score']
    """
    from partlabel.tasks.next_labels import ask

    run = _run(run)
    table = run.labels if labels is None else labels
    return NextLabels(*ask(run.model, table, images, budget, seed=seed, stored=scores))


def export(
    run: AnyRun,
    path: str | os.PathLike[str],
    *,
    images: str | os.PathLike[str],
    int8: bool = False,
    labels: LabelTable | None = None,
    max_loss: float | None = None,
) -> Exported | Int8Exported:
    """Write the classifier as one file for other programs, checked as written.

    Args:
        run: a run or its folder, or the folder of a model alone.
        path: file to write: ``.onnx``, or ``.pt2`` for ``torch.export.load``.
        images: folder with images to check the file on; for ``int8`` some hundreds that are typical of its use.
        int8: compute in 8-bit integers, where an ``.onnx`` file allows it.
        labels: for ``int8``, labels of images in the folder: the file is kept only if it loses little mAP on them.
        max_loss: points of mAP, of 100, that may be lost; None is 1.

    Raises:
        UserError: another ending, a package is missing, too few images, or the file does not do what the model does.

    >>> export("run", "model.pt2", images="photos").difference <= 1e-4
    True
    """
    from partlabel.images import check, list_images
    from partlabel.tasks.export import BATCHES
    from partlabel.tasks.export import export as write

    model, paths = _model(run), list_images(images).paths
    if int8:
        return _export_int8(model, Path(path), paths, images, labels, max_loss)
    paths = paths[: max(BATCHES)]
    check(paths).raise_if_bad()
    return write(model, path, paths)


def _export_int8(
    model: Model,
    path: Path,
    paths: list[Path],
    images: str | os.PathLike[str],
    labels: LabelTable | None,
    max_loss: float | None,
) -> Int8Exported:
    """Fit to some images of the folder, spread over it; compare on others, or on those that have labels."""
    from partlabel.images import check
    from partlabel.tasks.evaluate import Labelled
    from partlabel.tasks.export import MAX_LOSS, export_int8

    if len(paths) < _FEWEST:
        raise UserError(f"{images}: INT8 needs at least {_FEWEST} images, better {_CALIBRATED + _COMPARED}")
    fitted = _spread(paths, min(_CALIBRATED, len(paths) // 2))
    check(fitted).raise_if_bad()
    if labels is not None:
        labelled = Labelled.of(model, labels, images, without=fitted)
        check(labelled.paths).raise_if_bad()
        return export_int8(model, path, fitted, labelled, MAX_LOSS if max_loss is None else max_loss)
    others = _spread([own for own in paths if own not in set(fitted)], _COMPARED)
    check(others).raise_if_bad()
    return export_int8(model, path, fitted, others)


def _spread(paths: list[Path], count: int) -> list[Path]:
    """At most ``count`` of the paths, evenly from the whole list, as neighbours are often alike."""
    count = min(count, len(paths))
    return [paths[i * len(paths) // count] for i in range(count)]


def report(
    runs: AnyRun | Sequence[AnyRun],
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    images: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Write one HTML page about runs, and its numbers as ``.json`` beside it.

    Args:
        runs: a run, or several of which the first is what the others are compared with.
        path: file to write, ``.html``.
        labels: label table (``.parquet``) to measure on; None takes each run's held-out labels.
        images: the folder of the images; needed with ``labels``, else for the images shown.

    Returns:
        The numbers.

    Raises:
        UserError: no run, runs that cannot be compared, or the file cannot be written.

    >>> numbers = report("run", "report.html", images="photos")
    """
    from partlabel.app.report import write_report

    several = [runs] if isinstance(runs, str | os.PathLike) else list(runs)
    return write_report([_run(run).folder for run in several], path, labels=labels, images=images)


def review(
    run: AnyRun,
    *,
    images: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    port: int = 8000,
    browser: bool = True,
) -> None:
    """Serve the page on which people check labels and answer questions, until the process is stopped.

    Args:
        run: a run or its folder; answers lie in its folder ``review``.
        images: the folder of the images.
        labels: label table (``.parquet``) to review; None takes the labels of the run.
        port: port on this machine; 0 takes a free one.
        browser: open the page in the browser.

    Raises:
        UserError: the port is taken, or another process writes into the run.

    >>> review("run", images="photos")  # doctest: +SKIP
    """
    from partlabel.app.review.server import serve

    table = None if labels is None else Path(labels)
    serve(_run(run).folder, table, Path(images), port=port, browser=browser)


def _model(run: AnyRun) -> Model:
    """Give the best model of a run, or the model of a folder that holds no more than that."""
    from partlabel.models.model import Model

    return run.model if isinstance(run, Run) else Model.load(run)


def _run(run: AnyRun) -> Run:
    return run if isinstance(run, Run) else Run(run)
