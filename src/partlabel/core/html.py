"""Small tables in HTML, for notebooks: what ``_repr_html_`` of a label table, of metrics and of a run give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as escape_markup

from partlabel.core.text import shown


def escape(text: str) -> str:
    """A text as HTML that shows it, what would act on it unseen included."""
    return escape_markup(shown(text))


def page(title: str, *parts: str) -> str:
    """A heading with what follows it.

    Args:
        title: text.
        parts: HTML, from :func:`grid` and :func:`line`.
    """
    return f"<div><strong>{escape(title)}</strong>{''.join(parts)}</div>"


def line(text: str) -> str:
    """A line of text."""
    return f"<p style='margin:.2em 0'>{escape(text)}</p>"


def grid(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; numbers are set to the right.

    Args:
        head: names of the columns.
        rows: cells as text or numbers, as many as there are columns.
    """
    cells = [
        "".join(
            f"<td style='text-align:{'left' if isinstance(x, str) else 'right'}'>{escape(_text(x))}</td>" for x in row
        )
        for row in rows
    ]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
