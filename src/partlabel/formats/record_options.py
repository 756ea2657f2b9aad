"""Options that the readers of labelling tools share, and the choice of the fields that they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from partlabel.core.errors import UserError
from partlabel.formats import options as read_as
from partlabel.formats.spine import CommonOptions, choice, option

#: usual names of fields with checked present and absent classes, as the Open Images of FiftyOne's zoo have them
POSITIVE, NEGATIVE = "positive_labels", "negative_labels"


@dataclass(frozen=True, kw_only=True)
class RecordOptions(CommonOptions):
    """The common options as they read in the formats that know whether somebody looked at an image."""

    not_listed: str | None = choice(
        "unknown",
        "absent",
        help="what a class counts as that was not listed or chosen: unknown or absent; images that nobody has labelled "
        "stay unknown",
    )
    classes: Any = option(
        None,
        read_as.names,
        "the classes that are wanted, in this order: names between commas, or a file with one name a line; class "
        "numbers without names are positions in it",
    )


def weak_option(whose: str) -> Any:
    """Declare the option that says what becomes of the labels of models."""
    return choice(
        "ignore",
        "keep",
        "given",
        help=f"labels of a model, {whose}: ignore, keep (as labels of a model, with their score), or given (as if a "
        "person had given them)",
    )


def choose_signs(
    path: str,
    found: Sequence[str],
    there: Sequence[str],
    given: tuple[str | None, str | None],
    described: Sequence[str],
    what: str,
) -> dict[str, int]:
    """Choose the fields (or columns) that are read.

    Args:
        path: for errors.
        found: fields that hold labels.
        there: all fields that may be chosen by their usual name.
        given: the fields with present and with absent classes, as the options name them.
        described: the fields to choose from, for an error.
        what: ``field`` or ``column``, as the options are called.

    Returns:
        Field -> +1 where it lists present classes, -1 where it lists absent ones.

    Raises:
        UserError: no field, several to choose from, or one for both.
    """
    positive, negative = given
    if positive is None and negative is None:
        if POSITIVE in there:
            positive = POSITIVE
        elif len(found) == 1:
            (positive,) = found
        else:
            problem = f"more than one {what} has" if found else f"no {what} has"
            raise UserError(f"{path}: {problem} labels; name it with {what}=NAME", list(described))
    if negative is None and positive == POSITIVE and NEGATIVE in there:
        negative = NEGATIVE
    if positive == negative:
        raise UserError(f"{path}: {what} and negative_{what} are both {positive}")
    return {name: value for name, value in ((positive, 1), (negative, -1)) if name is not None}
