"""A label table in a notebook: counts of each class, and the labels of the first images."""

from __future__ import annotations

from typing import Any

import numpy as np

from partlabel.core.html import grid, line, page

#: classes in the counts, images and classes in the sample
_CLASSES, _IMAGES, _COLUMNS = 20, 8, 12
_SIGN = {1: "present", -1: "absent", 0: ""}


def shown(table: Any) -> str:
    """Give a :class:`LabelTable` in HTML.

    >>> from partlabel import LabelTable
    >>> shown(LabelTable.from_dense(["a.jpg"], ["cat", "dog"], [[1, 0]])).count("<tr>")
    5
    """
    present, absent = table.class_counts()
    pairs = table.num_images * table.num_classes
    share = f" ({table.num_known / pairs:.1%})" if pairs else ""
    order = np.argsort(-(present + absent), kind="stable")[:_CLASSES].tolist()
    counts = [
        (table.classes[c], int(present[c]), int(absent[c]), int(table.num_images - present[c] - absent[c]))
        for c in order
    ]
    head = f"Labels of {table.num_images:,} images and {table.num_classes:,} classes: {table.num_known:,} known{share}"
    first = table.select(np.arange(min(_IMAGES, table.num_images)))
    columns = order[:_COLUMNS]
    sample = [
        (name, *(_SIGN[int(row[c])] for c in columns))
        for name, row in zip(first.images.to_pylist(), first.dense(), strict=True)
    ]
    left = len(table.classes) - len(order)
    return page(
        head,
        grid(("class", "present", "absent", "unknown"), counts),
        line(
            f"and {left:,} classes with fewer known labels"
            if left > 0
            else "The first images; an empty cell is unknown:"
        ),
        grid(("image", *(table.classes[c] for c in columns)), sample),
    )
