"""The examples of docs/formats.md run, and give what the page says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from partlabel.formats.coding import NAMED, shown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats.md"


def test_examples(tmp_path, monkeypatch):
    text = PAGE.read_text(encoding="utf-8")
    files = re.findall(r"`([\w./]+)`:\n\n```(?:csv|json|xml|text)\n(.*?)```", text, re.DOTALL)
    assert len(files) >= 7
    for name, content in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    output: list[str] = []
    result = doctest.DocTestRunner().run(example, out=output.append)
    assert result.attempted > 15
    assert result.failed == 0, "".join(output)


def test_table_of_codings():
    table = PAGE.read_text(encoding="utf-8").partition("| `coding` |")[2]
    for name, coding in NAMED.items():
        row = next(line for line in table.splitlines() if line.startswith(f"| `{name}` |"))
        cells = [cell.strip() for cell in row.split("|")[2:-1]]
        for word, cell in zip(("present", "absent", "uncertain", "unknown"), cells, strict=True):
            assert cell == ", ".join(shown(token) for token in coding.codes if coding.meaning(token) == word)
