"""Every command on a disk that takes nothing more: one sentence, and what was there is as it was."""

from __future__ import annotations

import hashlib
import io
import os
import resource
import signal
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from partlabel.app.cli import main
from tests.processes import context

IMAGES = ("--images", "{place}/pictures")
STRATEGY = ("--strategy", "score-threshold")
CODING = ("--coding", "1=present,-1=absent,0=unknown")
COMMANDS = {
    "import": ("import", "csv", "{place}/labels.csv", *CODING, "-o", "{out}.parquet"),
    "predict csv": ("predict", "{place}/run", "{place}/pictures", "-o", "{out}.csv"),
    "predict parquet": ("predict", "{place}/run", "{place}/pictures", "-o", "{out}.parquet"),
    "relabel": ("relabel", "{place}/run", "{place}/labels.parquet", *IMAGES, *STRATEGY, "-o", "{out}.parquet"),
    "hold-out": ("labels", "hold-out", "{place}/labels.parquet", "-o", "{out}.parquet",
                 "--held-out", "{out}-2.parquet"),
    "report": ("report", "{place}/run", "-o", "{out}.html"),
    "thresholds": ("thresholds", "{place}/run", "--by", "f1"),
    "train": ("train", "{place}/labels.parquet", *IMAGES, "--config", "{place}/config.toml", "-o", "{out}-run"),
}  # fmt: skip


def _child(words: list[str], limit: int, said) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            code: object = main(words)
        except BaseException as error:
            code = f"{type(error).__name__}: {error}"
    said.put((code, out.getvalue()))


def state(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("name", COMMANDS)
def test_one_sentence_and_nothing_by_halves(place, tmp_path, monkeypatch, name):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    words = [word.format(place=place, out=tmp_path / "out") for word in COMMANDS[name]]
    before = state(place)
    said = context().Queue()
    process = context().Process(target=_child, args=(words, 100, said))
    process.start()
    code, text = said.get(timeout=600)
    process.join()
    assert (code, process.exitcode) == (2, 0), (code, text)
    words = ("cannot be written (File too large)", "cannot be stored", "ran out of shared memory")  # a file too
    assert any(one in text for one in words), text
    assert "Traceback" not in text
    assert state(place) == before
    left = [path.name for path in tmp_path.iterdir() if path.name not in ("cache", "out-run")]
    assert left == []
    if os.path.exists(tmp_path / "out-run"):
        assert not [p for p in (tmp_path / "out-run").rglob("*") if p.name.startswith(".")]
