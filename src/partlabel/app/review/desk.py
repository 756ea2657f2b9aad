"""All of a review in one place: the run, its pairs, what to ask, and the answers; gives plain values for the page."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from partlabel.app.review import exporting, precision, queues
from partlabel.app.review.answers import AnswerStore, New, Pair, StoreError
from partlabel.app.review.board import TOP, Keys, label_of
from partlabel.app.review.listing import Names, open_board
from partlabel.app.review.pictures import Pictures
from partlabel.app.review.queues import QUEUES, SOME, TEXTS, scope
from partlabel.app.review.record import RECORD, write_record
from partlabel.app.review.scores import Judge, ScoreShelf, digest
from partlabel.app.review.suspecting import Suspecting
from partlabel.app.review.verdicts import Verdict
from partlabel.app.review.views import Filter, Marks, View, Views
from partlabel.core.errors import UserError
from partlabel.core.files import make_folder
from partlabel.core.progress import Reporter
from partlabel.core.text import as_typed
from partlabel.images import resolve
from partlabel.images.contents import known_contents
from partlabel.labels.match import match
from partlabel.labels.table import LabelTable
from partlabel.training.run import Run


@dataclass(frozen=True)
class Asked:
    """One answer as a browser sends it.

    Image and class are named, and so is what the image held when the person saw it, so that an answer cannot reach
    another image, whatever the server shows by then.
    """

    image: str
    cls: str
    content: str
    answer: Any
    queue: str


class Desk:
    """One review.

    Args:
        run: run folder.
        table: labels; None takes those that the run was trained and validated on.
        folder: folder of the images.

    Raises:
        UserError: no run, classes of the model that the table lacks, images that are missing, or a store of answers
            that cannot be used.
    """

    def __init__(self, run: Path, table: LabelTable | None, folder: Path) -> None:
        judge = Judge.of_run(run)
        self.run, self.folder = run, folder
        self.whole = Run(run).all_labels if table is None else table
        self.table = _own(self.whole, judge)
        self.home = run / "review"
        cache = make_folder(self.home / "cache")
        self.names = self.table.images.to_pylist()
        elsewhere = Run(run).elsewhere
        paths = resolve(self.names, folder, elsewhere)
        known = cache / f"contents-{digest(self.table.images, str(folder.resolve()))}.npy"
        with Reporter().bar("looking for images that were changed") as bar:
            contents = known_contents(paths, known, bar)
        folders = [folder] if elsewhere is None else [folder, elsewhere[1]]
        self.pictures = Pictures(self.names, paths, contents, folders, cache / "thumbnails")
        shelf = ScoreShelf(run, judge, paths, contents["hash"], cache)
        calibration = [judge.calibration.slope, judge.calibration.offset]
        of_scores = digest(judge.weights, judge.classes, calibration, self.table.images, contents["hash"].tolist())
        of_table = self.table.content_hash()[:16]
        both = digest(of_scores, of_table)
        asked = queues.questions(shelf.scores, self.table, judge.thresholds, cache / f"questions-{both}.npy")
        names = Names(cache, of_scores, of_table, both)
        self.board = open_board(shelf.scores, shelf.find, judge.calibration, self.table, asked, names)
        self.marks = Marks()
        self.views = Views(self.board, self.table.images, self.marks)
        filled, self.sample = queues.filled(self.board, self.table, cache / f"filled-{both}.npy")
        self._bases = {"questions": View(asked, self.marks), "filled": View(filled, self.marks)}
        self.suspecting = Suspecting(run, self.table, folder, cache / f"suspects-{of_table}.npy")
        self._classes = queues.class_rows(self.table)
        self._lock, self._exporting = threading.Lock(), threading.Lock()
        self._columns = {name: number for number, name in enumerate(self.table.classes)}
        self._rows = {name: number for number, name in enumerate(self.names)}
        self.store = AnswerStore(self.home / "answers.sqlite")
        #: names run, table and images; a page that was loaded from another review is refused
        self.identity = digest(self.store.identity, both)
        self.verdicts: dict[Pair, Verdict] = {}
        self._skipped = 0
        self._conflicts: dict[Pair, Verdict] = {}
        self._take(self.store.verdicts(content=self._content))
        self.outdated = self.store.outdated(self._content)

    # --- what the page shows ---

    def session(self, browser: str | None, person: str | None = None) -> dict[str, Any]:
        """What the review is about, its queues, and how far it is."""
        return {
            "run": self.run.resolve().name,
            "review": self.identity,
            "store": self.store.identity,
            "person": person,
            "outdated": {"count": len(self.outdated), "first": self.outdated[:3]},
            "pictures": len(self.names),
            "pairs": len(self.names) * self.table.num_classes,
            "listed": len(self.board),
            "classes": self._classes,
            "queues": [self._queue(name) for name in QUEUES],
            **self.state(browser),
            "formats": exporting.format_names(),
        }

    def state(self, browser: str | None) -> dict[str, Any]:
        """Progress and running precision."""
        pace = None if browser is None else self.store.pace(browser)
        return {
            "progress": {
                "answered": len(self.verdicts) - self._skipped,
                "skipped": self._skipped,
                "conflicts": len(self._conflicts),
                "per_hour": None if pace is None else pace.per_hour,
                "minutes": 0.0 if pace is None else pace.minutes,
            },
            "precision": self._precision(),
        }

    def page(
        self, queue: str, chosen: Filter, open_only: bool, offset: int, limit: int, by_label: bool = False
    ) -> dict[str, Any]:
        """One page of a queue; ``by_label``: present labels first, then absent ones, then unknown ones."""
        view = self._view(queue, chosen, start=True)
        if by_label and view is not None:
            view = self.views.by_label(queue, view, chosen)
        total, keys = (0, np.zeros(0, np.int64)) if view is None else view.page(offset, limit, open_only)
        return {
            "total": total,
            "offset": offset,
            "items": self.items(keys),
            "scope": scope(self.board, queue, chosen.cls),
        }

    def items(self, keys: Keys) -> list[dict[str, Any]]:
        """Pairs: each with its image, class, probability, label and answer."""
        return [self._item(*found) for found in self.board.glance(keys)]

    def _item(self, image: int, cls: int, state: int, level: int | None) -> dict[str, Any]:
        value, origin = label_of(state)
        picture, name = self.names[image], self.table.classes[cls]
        verdict = self.verdicts.get((picture, name))
        return {
            "image": image,
            "picture": picture,
            "content": self.pictures.content(image),
            "class": cls,
            "class_name": name,
            "score": None if level is None else round(level / TOP, 5),
            "value": value,
            "origin": origin,
            "answer": None if verdict is None else verdict.answer,
            "conflict": verdict is not None and verdict.conflict,
        }

    def picture(self, image: int) -> dict[str, Any]:
        """One image with its known labels and the best scored others, present ones first."""
        table, board = self.table, self.board
        known = table.indices[table.indptr[image] : table.indptr[image + 1]].astype(np.int64)
        items = self.items(np.concatenate([known, board.best_of(image)]) * board.pictures + image)
        items.sort(key=lambda item: (not _says_present(item), -item["score"]))
        size = self.pictures.size(image)
        return {
            "image": image,
            "picture": self.names[image],
            "content": self.pictures.content(image),
            "width": None if size is None else size[0],
            "height": None if size is None else size[1],
            "previous": image - 1 if image else None,
            "next": image + 1 if image + 1 < len(self.names) else None,
            "labels": items,
        }

    def listed(self, search: str | None, offset: int, limit: int) -> dict[str, Any]:
        """Images by name."""
        found = self.views.pictures(search)
        questions = self._bases["questions"].keys
        per_picture = np.bincount(np.asarray(questions) % len(self.names), minlength=len(self.names))
        known = np.diff(self.table.indptr)
        return {
            "total": len(found),
            "items": [
                {
                    "image": i,
                    "picture": self.names[i],
                    "content": self.pictures.content(i),
                    "known": int(known[i]),
                    "questions": int(per_picture[i]),
                }
                for i in found[offset : offset + limit].tolist()
            ],
        }

    def conflicts(self, only: Sequence[Pair] | None = None) -> list[dict[str, Any]]:
        """Questions that were answered yes by one and no by another."""
        with self._lock:
            found = dict(self._conflicts)
        return [
            {
                "image": self._rows[image],
                "picture": image,
                "content": self.pictures.content(self._rows[image]),
                "class": self._columns[cls],
                "class_name": cls,
                "answers": [
                    {"answer": given.answer, "browser": given.browser, "person": given.person, "time": given.time}
                    for given in verdict.counting
                    if given.answer != "skip"
                ],
            }
            for (image, cls), verdict in found.items()
            if only is None or (image, cls) in only
        ]

    # --- what people do ---

    def answer(
        self, browser: str, batch: str, answers: Sequence[Asked], settle: bool, person: str | None = None
    ) -> dict[str, Any]:
        """Store answers; they are on disk when this returns.

        Args:
            browser: where they come from.
            batch: names them, see :meth:`AnswerStore.add`.
            answers: at least one.
            settle: they settle conflicts.
            person: whose they are, where it is known.

        Returns:
            The state, the conflicts that they led to, and how many do not count now: ``aside`` are about images or
            classes that this table lacks, ``outdated`` about images that held something else.
        """
        new = [New(a.image, a.cls, a.answer, a.queue, a.content, self._label((a.image, a.cls))) for a in answers]
        pairs = list(dict.fromkeys((a.image, a.cls) for a in new))
        self.store.add(browser, batch, new, settle=settle, person=person)
        self._refresh(pairs)
        return {
            "saved": len(new),
            "aside": sum(self._number((a.image, a.cls)) is None for a in answers),
            "outdated": sum(self._content(a.image) not in (None, a.content) for a in answers),
            **self.state(browser),
            "conflicts": self.conflicts(pairs),
        }

    def undo(self, browser: str) -> dict[str, Any] | None:
        """Take back the latest batch of a browser; None where there is nothing to take back."""
        pairs = self.store.undo(browser)
        if not pairs:
            return None
        self._refresh(pairs)
        here = [pair for pair in pairs if self._number(pair) is not None]
        items = self.items(np.array([self._key(pair) for pair in here], np.int64))
        return {"undone": items, **self.state(browser)}

    def export(self, format: str) -> dict[str, Any]:
        """Write the label table with the answers."""
        with self._lock:
            verdicts = dict(self.verdicts)
        table, counts = exporting.with_answers(self.whole, verdicts)
        with self._exporting:  # one at a time, so that each finds a name that is free
            path = exporting.write(table, format, self.home)
            write_record(self.store, self.home / RECORD)
        settled = counts.answers + counts.confirmed
        return {
            "path": str(path),
            "labels": table.num_known,
            "answers": settled,
            "unsettled": counts.unsettled,
            "next": self._next(path) if format == "parquet" else None,
        }

    def close(self) -> None:
        """End the search for suspects, write the record of answers where the disk allows, and close their store."""
        self.suspecting.close()
        with suppress(UserError, StoreError):
            write_record(self.store, self.home / RECORD)
        self.store.close()

    # --- inside ---

    def _next(self, labels: Path) -> str:
        """The command that trains on exported labels, into a folder that is not there yet."""
        number = next(number for number in itertools.count(2) if not Path(f"{self.run}-{number}").exists())
        words = ["partlabel", "train", str(labels), "--images", str(self.folder)]
        return as_typed(*words, "--after", str(self.run), "-o", f"{self.run}-{number}")

    def _refresh(self, pairs: Sequence[Pair]) -> None:
        # Read under the lock, so that of two threads the later one does not put back what the earlier one read.
        with self._lock:
            self._take(self.store.verdicts(pairs, content=self._content))

    def _take(self, verdicts: dict[Pair, Verdict | None]) -> None:
        for pair, verdict in verdicts.items():
            if self._number(pair) is None:
                continue
            old = self.verdicts.pop(pair, None)
            self._skipped -= old is not None and old.answer == "skip"
            self._conflicts.pop(pair, None)
            if verdict is not None:
                self.verdicts[pair] = verdict
                self._skipped += verdict.answer == "skip"
                if verdict.conflict:
                    self._conflicts[pair] = verdict
            self.marks.set(self._key(pair), verdict is not None)

    def _number(self, pair: Pair) -> tuple[int, int] | None:
        """Image and class of a pair; None where the table lacks it, as it may be another one than at the time."""
        image, cls = self._rows.get(pair[0]), self._columns.get(pair[1])
        return None if image is None or cls is None else (image, cls)

    def _content(self, image: str) -> str | None:
        """What an image of the table holds; None for others."""
        row = self._rows.get(image)
        return None if row is None else self.pictures.content(row)

    def _label(self, pair: Pair) -> str | None:
        """The label of the table as the record of an answer names it, such as ``given present``."""
        number = self._number(pair)
        value, origin = (None, None) if number is None else label_of(self.board.state(self._key(pair)))
        return None if value is None else f"{origin} {value}"

    def _key(self, pair: Pair) -> int:
        return self.board.key(self._rows[pair[0]], self._columns[pair[1]])

    def _view(self, queue: str, chosen: Filter, start: bool = False) -> View | None:
        if queue == "suspects":
            keys = self.suspecting.keys(start=start)
            if keys is None:
                return None
            self._bases.setdefault("suspects", View(keys, self.marks))
        return self.views.get(queue, self._bases.get(queue), chosen)

    def _queue(self, name: str) -> dict[str, Any]:
        view = self._view(name, Filter())
        total, answered = (0, 0) if view is None else (len(view), len(view.answered()))
        title, text, empty = TEXTS[name]
        text = text if name != "all" or self.board.listed is None else SOME
        reason = self.suspecting.reason if view is None else None if total else empty
        counts = {"total": total, "answered": answered, "counted": view is not None}
        return {"id": name, "title": title, "help": text, **counts, "reason": reason}

    def _precision(self) -> dict[str, Any]:
        return {sign: self._precision_of(sign) for sign in ("present", "absent")}

    def _precision_of(self, sign: str) -> dict[str, Any] | None:
        keys = self.sample[sign]

        def answers() -> Any:
            for key in keys.tolist():
                image, cls = self.board.pair(key)
                verdict = self.verdicts.get((self.names[image], self.table.classes[cls]))
                yield None if verdict is None else verdict.answer

        found = precision.estimate(answers(), sign)
        if found is None:
            return None
        values = {"checked": found.checked, "right": found.right, "estimate": found.estimate}
        return {**values, "low": found.low, "high": found.high, "basis": precision.BASIS}


def _says_present(item: dict[str, Any]) -> bool:
    answer = item["answer"]
    return answer == "yes" if answer in ("yes", "no") else item["value"] == "present"


def _own(table: LabelTable, judge: Judge) -> LabelTable:
    """The table with the classes of the model, in its order; others are not asked about."""
    matched = match(table, judge, every="model")
    if not table.num_images:
        raise UserError("the label table has no images, so there is nothing to review")
    return matched.table


def open_desk(run: Path, labels: Path | None, images: Path) -> Desk:
    """Open the review of a run; see :class:`Desk`."""
    return Desk(run, None if labels is None else LabelTable.read_parquet(labels), images)
