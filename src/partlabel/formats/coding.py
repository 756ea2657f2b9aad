"""What the values of a label column mean: declared by the user, or implied where only one reading is possible."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from partlabel.core.errors import UserError
from partlabel.core.text import as_typed

#: codes that a value is read as; ``UNCERTAIN`` is a statement (somebody looked), ``SILENT`` is none
PRESENT, ABSENT, UNCERTAIN, SILENT, NOT_A_LABEL = 1, -1, 0, 2, 3
_CODES = {"present": PRESENT, "absent": ABSENT, "uncertain": UNCERTAIN, "unknown": SILENT}
_MEANINGS = {code: word for word, code in _CODES.items()}
_NUMERIC_MEANINGS = {"1": PRESENT, "-1": ABSENT, "0": SILENT}
_NUMBER = re.compile(r"([+-]?)0*(\d+)(?:\.0*)?", re.ASCII)

#: values that some named coding knows; everything else is no label in a table without a declared coding
VOCABULARY = frozenset({"1", "0", "-1", "", "true", "false", "yes", "no"})

#: what people mostly mean by a value: proposed, with the other one of 0 and -1 in sight, and never read so unasked
USUAL = {
    **dict.fromkeys(("true", "yes", "y", "x", "present", "1"), "present"),
    **dict.fromkeys(("false", "no", "n", "absent", "0", "-1"), "absent"),
    **dict.fromkeys(("?", "uncertain"), "uncertain"),
    **dict.fromkeys(("-", "unknown"), "unknown"),
}


@lru_cache(4096)
def canonical(value: str) -> str:
    """Return the form in which values are compared: trimmed, lower case, whole numbers without sign, zeros or point.

    ``" TRUE"`` is ``true``, ``"1.0"`` and ``"+1"`` are ``1``, a blank cell is the empty text; ``0.5`` stays as it is.
    """
    text = value.strip().casefold()
    if number := _NUMBER.fullmatch(text):
        sign = "-" if number[1] == "-" and number[2] != "0" else ""
        return sign + number[2]
    return text


def shown(token: str) -> str:
    """Return the canonical value as people read it: ``blank`` for the empty cell."""
    return token or "blank"


@dataclass(frozen=True)
class Coding:
    """The meaning of each value: canonical value -> one of the codes of this module."""

    name: str
    codes: Mapping[str, int]

    def code(self, value: str) -> int:
        """Return the code of one cell; ``NOT_A_LABEL`` for a value that the coding does not name."""
        return self.codes.get(canonical(value), NOT_A_LABEL)

    def meaning(self, token: str) -> str:
        """Return the word for a canonical value: present, absent, uncertain, unknown."""
        return _MEANINGS[self.codes[token]]

    def words(self) -> str:
        """Return the coding as text: ``1 = present; -1 = absent; 0, blank = unknown``."""
        values: dict[int, list[str]] = {}
        for token, code in self.codes.items():
            values.setdefault(code, []).append(shown(token))
        return "; ".join(f"{', '.join(tokens)} = {_MEANINGS[code]}" for code, tokens in values.items())


def _named(**names: str) -> dict[str, Coding]:
    result = {}
    for name, spec in names.items():
        pairs = dict(part.split("=") for part in spec.split())
        codes = {"" if value == "blank" else value: _CODES[word] for value, word in pairs.items()}
        result[name.replace("_", "-")] = Coding(name.replace("_", "-"), codes)
    return result


#: the codings that have a name
NAMED = _named(
    native="1=present -1=absent 0=unknown blank=unknown",
    zero_absent="1=present 0=absent blank=unknown",
    zero_unknown="1=present 0=unknown blank=unknown",
    chexpert="1=present 0=absent -1=uncertain blank=unknown",
    words="true=present yes=present 1=present false=absent no=absent 0=absent blank=unknown",
)

#: reads every known value, until ``implied`` tells whether the native coding is the only reading
UNDECLARED = Coding("undeclared", {token: _NUMERIC_MEANINGS.get(token, SILENT) for token in sorted(VOCABULARY)})


def describe_named() -> list[str]:
    """Return one line for each named coding."""
    return [f"coding={name}: {coding.words()}" for name, coding in NAMED.items()]


def parse(spec: str | Mapping[object, object]) -> Coding:
    """Read a declared coding.

    Args:
        spec: the name of a coding (``native``, ``zero-absent``, ``zero-unknown``, ``chexpert``, ``words``); or text as
            in ``1=present,0=absent,-1=uncertain,blank=unknown``; or a mapping of values to these words or to 1, -1, 0.
            A blank cell is unknown where the coding does not say otherwise.

    Raises:
        UserError: an unknown name or meaning, or one value with two meanings.
    """
    if isinstance(spec, str):
        if spec.strip().lower() in NAMED:
            return NAMED[spec.strip().lower()]
        if "=" not in spec:
            raise UserError(
                f"coding {spec!r} is not known; use a named one, or say it as 1=present,0=absent,blank=unknown",
                describe_named(),
            )
        parts = [part for part in spec.split(",") if part.strip()]
        items = [part.rpartition("=")[::2] for part in parts if "=" in part]
        bare = [f"{part.strip()}: each part is VALUE=MEANING, as in blank=unknown" for part in parts if "=" not in part]
    else:
        items = [(str(value), str(meaning)) for value, meaning in spec.items()]
        bare = []
    codes: dict[str, int] = {}
    wrong = []
    for value, meaning in items:
        token = canonical(value)
        token = "" if token == "blank" else token
        word = canonical(meaning)
        code = _CODES.get(word, _NUMERIC_MEANINGS.get(word))
        if code is None:
            wrong.append(f"{value}={meaning}: the meaning is one of {', '.join(_CODES)} (or 1, -1, 0)")
        elif codes.setdefault(token, code) != code:
            wrong.append(f"{value}={meaning}: {shown(token)} has two meanings")
    if wrong or bare:
        raise UserError("the coding cannot be read", [*wrong, *bare])
    codes.setdefault("", SILENT)
    return Coding("as declared", codes)


def implied(tokens: Iterable[str]) -> Coding | None:
    """Return the native coding where the values allow no other plausible reading, otherwise None.

    Only 1, -1 and blank; only 1, -1 and 0 (both signs seen, so that 0 can only be unknown); only 1 and blank; or only
    blanks. With 0, -1 and blank together, 0 or -1 may mean absent or uncertain; with 0 but no -1, 0 may mean absent or
    unknown; words may mean a box that nobody ticked. These are refused by the caller.

    Args:
        tokens: canonical values of all label columns together.
    """
    seen = frozenset(tokens)
    one_reading = seen <= {""} or seen == {"1", "-1", "0"} or ("1" in seen and seen <= {"1", "-1", ""})
    return NAMED["native"] if one_reading else None


def undeclared(
    source: str,
    columns: Mapping[str, Mapping[str, int]],
    tokens: Iterable[str] | None = None,
    ignored: Sequence[str] = (),
) -> UserError:
    """Build the error for values with more than one possible meaning, with options that are ready to copy.

    Args:
        source: file as it was given.
        columns: column name -> canonical value -> cells.
        tokens: canonical values of the columns that hold labels; None: of all columns.
        ignored: columns that hold something else.
    """
    lines = []
    for name, values in columns.items():
        some = sorted(values.items(), key=lambda item: (-item[1], item[0]))
        text = ", ".join(f"{shown(token)} ({cells})" for token, cells in some[:8]) + (", ..." if len(some) > 8 else "")
        foreign = "" if any(canonical(token) in USUAL for token in values) else " - not labels"
        lines.append(f"{name}: {text}{foreign}")
    seen = {token for values in columns.values() for token in values} if tokens is None else set(tokens)
    seen = {canonical(token) for token in seen}
    usual = USUAL | ({"-1": "uncertain"} if {"0", "-1"} <= seen else {})
    meanings = [f"{token}={word}" for token, word in usual.items() if token in seen]
    coding = ",".join([*meanings, "blank=unknown"])
    copy = as_typed("--coding", coding)
    copy += f" {as_typed('--ignore', ','.join(ignored))}" if ignored else ""
    return UserError(
        f"{source}: what the label values mean is not declared and could be read in more than one way; declare it "
        f"with one of: {', '.join(NAMED)}, or as in coding={coding}. To copy and correct: {copy}",
        lines,
    )
