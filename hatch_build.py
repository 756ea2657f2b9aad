"""What the package index shows: the README without figures and links that lead nowhere outside the repository."""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: a figure on a line of its own, with the line of small print below it
_FIGURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n(?:\n\*[^*\n](?:[^*\n]|`[^`]*`)*\*\n)?\n?", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]+\)")


def readme_for_index(text: str) -> str:
    """The README as it can be read where the repository is not."""
    text = _LINK.sub(r"\1", _FIGURE.sub("", text))
    return f"{text.rstrip()}\n\nThe pages and figures that are named here lie in the source archive.\n"


class ReadmeHook(MetadataHookInterface):
    """Called by hatchling while it builds the archives; the one class of this kind here."""

    def update(self, metadata: dict[str, object]) -> None:
        """Put the text into the metadata."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme_for_index(text)}
