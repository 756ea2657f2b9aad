"""The tutorial runs as it stands, on fewer images, and each command ends with the line that the page shows."""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from partlabel.app.cli import main
from partlabel.app.demo.digits import CLASSES, draw_scenes

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
IMAGES = 60


def steps() -> list[tuple[str, str]]:
    """Each command of the page with the line below it."""
    lines = "\n".join(re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)).splitlines()
    found = []
    for at, line in enumerate(lines):
        if line.startswith("$ "):
            below = lines[at + 1] if at + 1 < len(lines) and not lines[at + 1].startswith("$ ") else ""
            found.append((line[2:], below))
    return found


def answer(path: Path) -> None:
    """Fill in the column answer, as the page asks for."""
    truth = {f"{i:04}.jpg": scene.labels() for i, scene in enumerate(draw_scenes("train", IMAGES, seed=0))}
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["answer"] = "present" if truth[row["image"]][CLASSES.index(row["class"])] > 0 else "absent"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.slow
def test_every_command_ends_as_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    place = tmp_path
    ran = 0
    for command, shown in steps():
        words = shlex.split(command)
        if words[0] == "cd":
            place = place / words[1]
        elif words[0] == "python":
            script = [sys.executable, str(ROOT / words[1]), words[2], str(IMAGES)]
            done = subprocess.run(script, cwd=place, capture_output=True, text=True, check=True)
            assert done.stdout.strip() == shown.replace("300", str(IMAGES)).replace("30 in", f"{IMAGES // 10} in")
        else:
            monkeypatch.chdir(place)
            if words[1:3] == ["labels", "answers"]:
                answer(place / "questions.csv")
            assert main(words[1:]) == 0, capsys.readouterr().err
            assert capsys.readouterr().out.splitlines()[-1] == shown, command
            ran += 1
    assert ran >= 10
