"""Show the examples of docstrings as code: a griffe extension of the documentation site."""

from __future__ import annotations

import re
from typing import Any

import griffe

#: lines from a prompt to the next empty line
_EXAMPLE = re.compile(r"^( *)(>>> .*(?:\n(?! *\n).+)*)", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts fences around what begins with a prompt."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was read."""
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = _EXAMPLE.sub(r"\1```python\n\1\2\n\1```", text)
