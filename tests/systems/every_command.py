"""Run every command but exports in one process, on classes with odd names; prints those that fail.

``python -m tests.systems.every_command SEED FOLDER``, with tests/systems/as_windows in PYTHONPATH for Windows.
"""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from pathlib import Path

from tests.disk.commands import COMMANDS, World, run_command


def run(seed: int, place: Path) -> list[str]:
    """Run the commands in a new folder; give those that did not end well."""
    warnings.simplefilter("ignore")
    World(seed).make(place)
    wrong = []
    for number, name in enumerate(name for name in COMMANDS if not name.startswith("export")):
        (out := place / f"out{number}").mkdir()
        if run_command(name, place, out):
            wrong.append(name)
    return wrong


def load_in_processes(place: Path) -> None:
    """Score images that another process loads, which is begun as Windows and macOS begin it."""
    from partlabel import Run, predict

    multiprocessing.set_start_method("spawn", force=True)
    images = sorted((place / "photos").iterdir())
    found = predict(Run(place / "run").model, images, workers=1)
    assert len(found.images) == len(images)


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    wrong = run(int(sys.argv[1]), folder)
    load_in_processes(folder)
    print(f"failed: {wrong}", file=sys.stderr)
    sys.exit(bool(wrong))
