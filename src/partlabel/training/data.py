"""What a training learns from and is measured on: images that are there, split into two parts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.compute import ALONE, Crew
from partlabel.core.errors import UserError
from partlabel.core.progress import Reporter
from partlabel.core.text import plural, some
from partlabel.labels.groups import COPIES
from partlabel.labels.holdout import random_sample
from partlabel.labels.split import units
from partlabel.labels.table import LabelTable
from partlabel.method.strategies import STRATEGIES
from partlabel.training.config import Config
from partlabel.training.copies import tied
from partlabel.training.curriculum import prior_of
from partlabel.training.labels import TrainingLabels
from partlabel.training.leaks import Shared, check_leaks
from partlabel.training.prepare import Prepared, check_labels, prepare
from partlabel.training.run import Run


@dataclass(frozen=True)
class Data:
    """The images of a training and what is known of them.

    Attributes:
        table: the labels of all usable images but those of a validation table of its own.
        paths: the image of each row.
        contents: (N,) hash of each image's file.
        rows: the training part, rows of ``table``.
        measured: labels to measure on, only those that are a random sample; its images are ``table``'s, or those of
            ``validation_paths``.
        held_out: the validation part, rows of ``measured``.
        validation_table: the validation part with all its labels; None where there is none.
        validation_paths: the images of a validation table of its own; None where the part was split off.
        validation_contents: the hashes of their files.
        truth: true labels to compare model labels with, or None.
        skipped: (name, reason) of images left out.
        animated: images of which only the first frame is used.
        shared: images of a validation table of its own that are trained on with other labels.
        copies: what a user should know of images that are copies of one another.
    """

    table: LabelTable
    paths: list[Path]
    contents: NDArray[np.bytes_]
    rows: NDArray[np.int64]
    measured: LabelTable
    held_out: NDArray[np.int64]
    validation_table: LabelTable | None
    validation_paths: list[Path] | None
    validation_contents: NDArray[np.bytes_] | None
    truth: LabelTable | None
    skipped: list[tuple[str, str]]
    animated: list[str]
    shared: Shared
    copies: list[str]

    @property
    def trained_table(self) -> LabelTable:
        """The labels of the training part."""
        return self.table.select(self.rows)

    def labels(self, config: Config) -> TrainingLabels:
        """The labels of the training part as the steps read them."""
        return TrainingLabels(config, self.table, self.rows, self.truth)

    def about(self, config: Config) -> dict[str, Any]:
        """What the summary of a run says of its data."""
        train_rows = self.labels(config).train_rows
        return {
            "classes": self.table.num_classes,
            "images_trained": len(train_rows),
            "images_without_labels": len(self.rows) - len(train_rows),
            "images_skipped": len(self.skipped),
            "images_animated": len(self.animated),
            "validation_images_trained_on": self.shared.by_name,
            "validation_images_trained_on_by_content": self.shared.by_content,
            "validation_images_trained_on_by_looks": self.shared.by_looks,
            "known_labels": int(np.diff(self.table.indptr)[train_rows].sum()),
            "assume_absent": config.assume_absent,
        }


def _in_order(validation: LabelTable, classes: tuple[str, ...]) -> LabelTable:
    """Give the validation table with its classes in the order of those that are trained."""
    if validation.classes == classes:
        return validation
    differ = [f"{name}: only in the training labels" for name in classes if name not in validation.classes]
    differ += [f"{name}: only in the validation labels" for name in validation.classes if name not in classes]
    if differ:
        raise UserError("the validation labels have other classes than the training labels", differ)
    return validation.select_classes(classes)


def prepare_data(
    config: Config,
    labels: LabelTable,
    images: Path,
    validation: LabelTable | None,
    truth: LabelTable | None,
    report: Reporter,
    earlier: Run | None = None,
    elsewhere: tuple[str, Path] | None = None,
    crew: Crew = ALONE,
) -> Data:
    """Check labels and images, leave out images that cannot be used, and split off the validation part.

    The arguments are those of :func:`partlabel.train`; ``elsewhere`` is how the names of validation images in a folder
    of their own begin, and that folder. The processes of a crew share the reading of the images out.

    Raises:
        UserError: labels from which nothing can be learned, a validation table of other classes, images that are
            missing or bad.
    """
    check_labels(labels, config.unknown_as_absent)
    if validation is not None:
        validation = _in_order(validation, labels.classes)
    settings = (config.images, config.workers, report)
    prepared = prepare(labels, images, *settings, crew=crew)
    own = None if validation is None else prepare(validation, images, *settings, elsewhere, crew)
    prepared, own, copies, looks = tied(prepared, own, report, crew)
    shared = Shared()
    if own is not None:
        shared = replace(check_leaks(prepared.table, prepared.contents, own.table, own.contents), by_looks=looks)
    rows, held_out = _split(prepared, own, config, earlier)
    table = prepared.table
    validation_table = own.table if own else table.select(held_out) if len(held_out) else None
    data = Data(
        table=table,
        paths=prepared.paths,
        contents=prepared.contents,
        rows=rows,
        measured=random_sample(own.table if own else table),
        held_out=held_out,
        validation_table=validation_table,
        validation_paths=own.paths if own else None,
        validation_contents=own.contents if own else None,
        truth=truth,
        skipped=prepared.skipped + (own.skipped if own else []),
        animated=prepared.animated,
        shared=shared,
        copies=copies,
    )
    about = data.about(config)
    report.line(
        f"{plural(about['images_trained'], 'image')} to train on, {len(held_out):,} to validate on{_known(data)}, "
        f"{about['images_without_labels']:,} without a known label, {len(data.skipped):,} skipped"
    )
    if config.relabel.before and STRATEGIES[config.relabel.strategy].reads == "class":
        prior_of(data.trained_table, config.relabel.strategy)  # it refuses before anything is learned
    for line in _cautions(data, config):
        report.line(line)
    return data


def _known(data: Data) -> str:
    """How many of the images to validate on have a known label, where not all do."""
    known = int((np.diff(data.measured.indptr)[data.held_out] > 0).sum())
    return "" if known == len(data.held_out) else f" ({known:,} with known labels that count)"


def _cautions(data: Data, config: Config) -> list[str]:
    """What a user should know of the labels before the training starts."""
    lines = []
    classes = np.array(data.table.classes)
    nothing = unlearned(data.trained_table)
    if nothing.any():
        lines.append(
            f"no label is known of {int(nothing.sum())} classes, so nothing is learned about them and they are never "
            f"predicted present or filled in: {some(classes[nothing].tolist(), 5)}"
        )
    if data.shared.by_name or data.shared.by_content:
        lines.append(
            f"{data.shared.by_name + data.shared.by_content} validation images are trained on with other labels "
            f"({data.shared.by_content} of them under another name)"
        )
    if data.shared.by_looks:
        lines.append(
            f"{data.shared.by_looks} validation images look like an image that is trained on (another encoding, size "
            "or border)"
        )
    lines += data.copies
    if not len(data.held_out):
        return lines
    present, absent = data.measured.select(data.held_out).class_counts()
    sided = (present > 0) & (absent > 0)
    if not sided.any():
        lines.append(
            "no class has held-out labels of both signs that are a random sample, so no epoch can be measured and the "
            "last one is kept"
        )
    elif not sided.all():
        lines.append(
            f"epochs are compared by {int(sided.sum())} of {len(sided)} classes; the others have no held-out labels of "
            f"both signs: {some(classes[~sided].tolist(), 5)}"
        )
    return lines


def unlearned(table: LabelTable) -> NDArray[np.bool_]:
    """(C,) classes of which no label is known."""
    present, absent = table.class_counts()
    return (present + absent) == 0


def _split(
    prepared: Prepared, own: Prepared | None, config: Config, earlier: Run | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on, and rows to validate on: of a validation table of its own, or of the same table."""
    table = prepared.table
    if own is not None:
        return np.arange(table.num_images), np.arange(own.table.num_images)
    if config.validation > 0:
        held_out = lasting_split(table, prepared.contents, config.validation)
        if earlier is not None and earlier.validation is not None:
            trained, judged = earlier.labels, earlier.validation
            unit, _ = units(table.num_images, table.groups)
            before = [(part.image_index(table.images) >= 0, held) for part, held in ((trained, False), (judged, True))]
            for there, held in before:  # a new copy of an image goes where the image is
                held_out[np.isin(unit, unit[there])] = held
            for there, held in before:
                held_out[there] = held
        return np.flatnonzero(~held_out), np.flatnonzero(held_out)
    return np.arange(table.num_images), np.empty(0, np.int64)


def lasting_split(table: LabelTable, contents: NDArray[np.bytes_], share: float) -> NDArray[np.bool_]:
    """Decide for each image by itself whether it is held out, so that it stays where it is for good.

    The bytes of its file decide, or the name of its group: a hash of them, as a number in [0, 1), below ``share`` holds
    it out. In a group that is made of copies alone, the least of the hashes decides for all. More labels, more images
    (but for copies), another name or order and another seed change nothing for an image.

    Args:
        table: N images.
        contents: (N,) the hash of each file, see :func:`partlabel.images.content_hash`.
        share: of the images (groups) to be held out, about; at least one is and at least one is not.

    Raises:
        UserError: there are fewer than two images (groups).
    """
    groups = [None] * table.num_images if table.groups is None else table.groups.to_pylist()
    keys: list[str] = []
    least: dict[str, str] = {}
    for group, content in zip(groups, contents.tolist(), strict=True):
        copies = group is not None and group.startswith(COPIES)
        keys.append(content.decode() if group is None or copies else f"group {group}")
        if copies:
            least[group] = min(least.get(group, keys[-1]), keys[-1])
    keys = [key if group is None else least.get(group, key) for group, key in zip(groups, keys, strict=True)]
    digests = [hashlib.blake2b(f"held out of training {key}".encode(), digest_size=8).digest() for key in keys]
    drawn = np.array([int.from_bytes(digest, "big") for digest in digests], np.uint64) / 2.0**64
    if len(np.unique(drawn)) < 2:
        raise UserError("one image (or group) cannot be split into a part to train on and a part to validate on")
    held_out = drawn < share
    return held_out | (drawn == drawn.min()) if not held_out.any() else held_out & (drawn < drawn.max())
