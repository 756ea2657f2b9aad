"""Commands that are started at once on the same run or output: one is at work, the others are told so."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest

from partlabel import LabelTable
from partlabel.app.cli import main
from tests.processes import context

#: processes, and rounds of each command
PROCESSES, ROUNDS = 4, 3


def _child(words: list[str], barrier, said) -> None:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        barrier.wait()
        try:
            code = main(words)
        except BaseException as error:
            code = f"{type(error).__name__}: {error}"
    said.put((code, out.getvalue()))
    sys.stdout.flush()


def at_once(processes: int, *words: str) -> list[tuple[object, str]]:
    """Run a command in so many processes that start at the same moment; their exit codes and what they printed."""
    barrier, said = context().Barrier(processes), context().Queue()
    workers = [context().Process(target=_child, args=(list(words), barrier, said)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    found = [said.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join()
    return found


def check(found: list[tuple[object, str]]) -> int:
    """Those that wrote; all others were told who did."""
    for code, text in found:
        assert code in (0, 2), (code, text)
        assert (code == 0) or "is in use by" in text or "holds a run already" in text, text
    return sum(code == 0 for code, _ in found)


CODING = "1=present,-1=absent,0=unknown"
COMMANDS = {
    "import": ("import", "csv", "{place}/labels.csv", "--coding", CODING, "-o", "{place}/out.parquet"),
    "thresholds": ("thresholds", "{place}/run", "--by", "f1"),
    "predict": ("predict", "{place}/run", "{place}/pictures", "-o", "{place}/out.csv"),
    "hold-out": ("labels", "hold-out", "{place}/labels.parquet", "-o", "{place}/a.parquet",
                 "--held-out", "{place}/b.parquet"),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_one_writes_and_the_others_are_told(place, name):
    words = [word.format(place=place) for word in COMMANDS[name]]
    for _ in range(ROUNDS):
        assert check(at_once(PROCESSES, *words)) >= 1
        left = [path.name for path in [*place.iterdir(), *(place / "run").iterdir()] if path.name.startswith(".")]
        assert left == []


def test_one_training_at_a_time_in_a_folder(place, tmp_path):
    words = ["train", f"{place}/labels.parquet", "--images", f"{place}/pictures", "--config", f"{place}/config.toml"]
    for number in range(ROUNDS):
        run = tmp_path / f"run-{number}"
        assert check(at_once(PROCESSES, *words, "-o", str(run))) == 1
        assert not [path.name for path in run.iterdir() if path.name.startswith(".")]
        table = LabelTable.read_parquet(run / "labels.parquet")
        assert np.isin(table.images.to_pylist(), LabelTable.read_parquet(place / "labels.parquet").images).all()
