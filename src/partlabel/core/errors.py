"""The errors and warnings that a user of partlabel sees."""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Iterable

from partlabel.core.text import shown

#: what parsers said during a command, of which errors were made that lost it; goes into the file of errors. Texts, as
#: an error would keep what was read, hundreds of megabytes of a large file
heard: deque[str] = deque(maxlen=50)


class UserError(ValueError):
    """A mistake in what the user gave: a file, a label table, an option.

    The message is one plain sentence; ``offenders`` lists every place that is wrong, each as ``file:line`` or with the
    image, class or id that it concerns. The command line prints both and exits with 2, without a traceback.
    """

    #: offenders printed in full; the rest is counted
    SHOWN = 20

    def __init__(self, message: str, offenders: Iterable[str] = ()) -> None:
        self.message = message
        self.offenders = list(offenders)
        super().__init__(message)

    def __str__(self) -> str:
        lines = [shown(self.message), *(f"  {shown(o, lines=False)}" for o in self.offenders[: self.SHOWN])]
        if len(self.offenders) > self.SHOWN:
            lines.append(f"  ... and {len(self.offenders) - self.SHOWN} more")
        return "\n".join(lines)


class PartlabelWarning(UserWarning):
    """Something that works but that the user should know, such as data without a known absent label."""


def check_name(what: str, given: str, allowed: Iterable[str]) -> None:
    """Refuse a name that does not exist.

    Args:
        what: what is named, such as a setting.
        given: the name.
        allowed: all names that exist.

    Raises:
        UserError: with the names that are close to it, and all names.
    """
    names = list(allowed)
    if given not in names:
        close = difflib.get_close_matches(given, names)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise UserError(f"{what} = {given!r} does not exist; {hint}choose one of: {', '.join(names)}")
