"""Lists that hold one value for each class (multi-hot), told from lists that hold the class numbers of an image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats import coding as codings
from partlabel.formats.coding import Coding, canonical
from partlabel.formats.huggingface.columns import cells, class_names, holds_lists_of_numbers
from partlabel.formats.huggingface.files import DataFile

NUMBERS = "numbers"
#: names of classes that are no classes, but the two or three values of one
_VALUE_NAMES = codings.VOCABULARY | {"absent", "present", "negative", "positive", "unknown", "off", "on", "n", "y"}


def parse_coding(name: str, value: Any) -> Coding | str:
    """Read the option: ``numbers``, or the coding of values."""
    return NUMBERS if value == NUMBERS else codings.parse(value)


def coding_of(
    files: Sequence[DataFile], features: Mapping[str, Any], column: str, declared: Coding | str | None, classes: Any
) -> Coding | None:
    """Return what the values of a column with one for each class mean; None where it holds class numbers or names.

    Values are told from numbers by what all lists of the column hold: as many of 1, 0 and -1 in each as there are
    classes can only be values where a class number would be repeated, would not exist, or is no whole number.

    Args:
        files: all files.
        features: those of the first.
        column: the column.
        declared: the coding of values, or ``numbers``; None: not declared.
        classes: the class list, or None.

    Raises:
        UserError: both readings are possible; values whose meaning or whose classes are not declared.
    """
    path, schema = files[0].path, files[0].schema
    if declared == NUMBERS:
        return None
    if not holds_lists_of_numbers(schema, column):
        if declared is not None:
            raise UserError(f"{path}: coding is for lists of numbers, and {column} holds no such lists")
        return None
    names = class_names(path, features, column)
    meaning = [canonical(name) for name in names or ()]
    switch = are_values(names)
    if names and not switch and declared is None:
        return None
    lengths, tokens, repeated = _look_through(files, column)
    if switch:
        tokens = Counter({name: tokens[str(number)] for number, name in enumerate(meaning)})
    if declared is None and not _may_be_values(lengths, tokens, classes, switch=switch):
        return None
    shown = f"lists of numbers ({', '.join(sorted(filter(None, tokens)))})"
    if classes is None and (switch or not names):
        raise UserError(
            f"{path}: {column} holds {shown} and no class names; name the classes with classes=NAMES, in the order of "
            "the values, or of the class numbers"
        )
    whole = pa.types.is_integer(schema.field(column).type.value_type)
    if declared is None and whole and not (repeated or switch) and set(tokens) <= _numbers(classes):
        raise UserError(
            f"{path}: {column} holds {shown}, which can be class numbers or one value for each class; say coding="
            "numbers, or what the values mean, as in coding=zero-absent"
        )
    coding = declared or codings.implied(set(tokens))
    if not isinstance(coding, Coding) or (switch and any(coding.code(name) == codings.NOT_A_LABEL for name in meaning)):
        raise codings.undeclared(path, {column: tokens}, tokens)
    if switch:
        return Coding(coding.name, {str(i): coding.code(name) for i, name in enumerate(meaning)} | {"": codings.SILENT})
    return coding


def are_values(names: Sequence[str] | None) -> bool:
    """Tell whether the class names of a column are those of values, such as ``no`` and ``yes``, and not of classes."""
    return bool(names) and {canonical(name) for name in names or ()} <= _VALUE_NAMES


def _numbers(classes: Any) -> set[str]:
    """Return what a list of class numbers can hold."""
    return {"", "-1", *map(str, range(len(classes)))}


def _may_be_values(lengths: set[int], tokens: Iterable[str], classes: Any, *, switch: bool) -> bool:
    """Tell whether lists of these lengths and values can hold a value for each class."""
    if len(lengths) != 1:
        return False
    (size,) = lengths
    right_size = size == len(classes) if classes is not None else size > 1
    return right_size and (switch or set(tokens) <= {"1", "0", "-1", ""} or set(tokens) <= {"true", "false", ""})


def _look_through(files: Iterable[DataFile], column: str) -> tuple[set[int], Counter[str], bool]:
    """Return the lengths of the lists, how often each value occurs in its canonical form, and if a list repeats one."""
    lengths: set[int] = set()
    tokens: Counter[str] = Counter()
    repeated = False
    for file in files:
        for batch in file.batches([column]):
            entries = cells(batch, column)
            lengths.update(np.bincount(entries.row, minlength=len(batch))[entries.valid].tolist())
            value, number = value_tokens(entries.values)
            for token, count in zip(value, np.bincount(number, minlength=len(value)).tolist(), strict=True):
                if count:
                    tokens[token] += count
            pair = entries.row * max(len(value), 1) + number
            repeated = repeated or len(np.unique(pair)) < len(pair)
    return lengths, tokens, repeated


def value_tokens(values: pa.Array) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct values in their canonical form (blank for null), and the number there of each entry."""
    encoded = pc.call_function("dictionary_encode", [values])
    names = [canonical(str(value)) for value in encoded.dictionary.to_pylist()]
    number = encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False).astype(np.int64)
    return [*names, ""], number
