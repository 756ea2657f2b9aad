"""Pages of the site that lie outside docs/: README.md, RESULTS.md and others, with links that fit their new place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
#: file in the repository -> page of the site
OUTSIDE = {
    "README.md": "index.md",
    "RESULTS.md": "results.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "LOG.md": "log.md",
    "LICENSE": "license.md",
    "CITATION.cff": "citation.md",
}
_LINK = re.compile(r"\]\(([^)#\s]+)")
#: what is left of a Sphinx role, as in :class:`LabelTable`, once Markdown has made HTML of it
_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):<code>~?([^<]+)</code>")


def moved(text: str, depth: int = 0) -> str:
    """Point the links of a page to the pages of the site.

    Args:
        text: the page; of the root of the repository, of docs/, or of a folder in it.
        depth: how many folders below docs/ it lies.
    """

    def target(match: re.Match[str]) -> str:
        path = match[1]
        named = path.removeprefix("../" * (depth + 1))
        if named in OUTSIDE:
            return f"]({'../' * depth}{OUTSIDE[named]}"
        return f"]({path.removeprefix('docs/')}"

    return _LINK.sub(target, text)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside."""
    from mkdocs.structure.files import File

    for name, page in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        if not name.endswith(".md"):
            text = f"# {name}\n\n```\n{text}```\n"
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point the links of each page to the pages of the site."""
    return moved(markdown, page.file.src_uri.count("/"))


def on_page_content(html: str, **_: object) -> str:
    """Show the roles of docstrings as plain code."""
    return _ROLE.sub(r"<code>\1</code>", html)
