"""What is said of the package where it is not a checkout: on the package index."""

from __future__ import annotations

import re

from hatch_build import readme_for_index

from tests.test_docs import ROOT


def test_by_hand():
    text = "# name\n\nwords\n\n![figure](docs/a.png)\n\n*Output of `x`: small.*\n\n[page](docs/a.md) and [site](https://a.b)\n"
    expected = "# name\n\nwords\n\npage and [site](https://a.b)\n\nThe pages and figures"
    assert readme_for_index(text).startswith(expected)


def test_the_index_shows_nothing_that_is_not_there():
    text = readme_for_index((ROOT / "README.md").read_text(encoding="utf-8"))
    assert "![" not in text
    assert [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("https://")] == []
    assert "import partlabel as pl" in text
    assert "Tutorial: ten minutes" in text
