"""One round of labelling: train, ask what is worth asking, put the answers in, train again, compare.

python examples/make_scenes.py my_images 300
python examples/labelling_round.py my_images
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import partlabel as pl
from partlabel.app.demo.digits import CLASSES, draw_scenes
from partlabel.tasks.next_labels import add_answers
from partlabel.tasks.question_files import read_answers


def answer(path: Path, count: int) -> None:
    """Fill in the column answer, as a person would; the scenes are drawn again to know the truth."""
    truth = {f"{i:04}.jpg": scene.labels() for i, scene in enumerate(draw_scenes("train", count, seed=0))}
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["answer"] = "present" if truth[row["image"]][CLASSES.index(row["class"])] > 0 else "absent"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def main(folder: str, budget: int = 200, *changes: str) -> None:
    """Ask ``budget`` questions."""
    place = Path(folder)
    labels = pl.read("csv", place / "labels.csv", coding="1=present,0=absent,blank=unknown")
    config = pl.Config.preset("small").replace(**dict(change.split("=") for change in changes))
    run = pl.train(labels, images=place / "photos", out=place / "round-1", config=config)

    asked = pl.next_labels(run, labels, images=place / "photos", budget=budget)
    asked.write(place / "questions.csv")
    answer(place / "questions.csv", labels.num_images)
    grown, counts = add_answers(labels, read_answers(place / "questions.csv"))
    print(f"{len(asked)} questions, {counts['added']} labels added: {labels.num_known} -> {grown.num_known} known")

    again = pl.train(grown, images=place / "photos", out=place / "round-2", after=run)
    pl.report([run, again], place / "report.html", images=place / "photos")
    for each in (run, again):
        print(each)
    print(f"Compared in {place / 'report.html'}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]), *sys.argv[3:])
