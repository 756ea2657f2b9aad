"""Paths that are not there end a command at once; a command names the one that follows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from partlabel.app.cli import main
from partlabel.app.cli.steps import following


def test_mistyped_paths_are_all_named_before_torch_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from partlabel.app.cli import main; "
        "code = main(['train', 'no.parquet', '--images', 'none', '-o', 'run']); "
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[1:] == ["  labels: there is no no.parquet", "  images: not a folder: none"]
    assert not list(tmp_path.iterdir())


def test_one_mistake_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suspects", str(tmp_path / "run"), "--images", str(tmp_path), "-o", str(tmp_path / "s.csv")]) == 2
    assert capsys.readouterr().err == f"partlabel: run: there is no {tmp_path / 'run'}\n"


def test_next_step_is_ready_to_copy() -> None:
    given = {"labels": Path("t.parquet"), "images": Path("my photos"), "output": Path("run")}
    assert following("train", given) == "partlabel report run --images 'my photos' -o report.html"
    assert following("labels diff", {}) == ""
