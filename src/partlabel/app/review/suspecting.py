"""The queue of suspects, which takes a while: it is made in a thread when it is first asked for, and then kept."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from partlabel.app.review.board import Keys
from partlabel.core.errors import UserError
from partlabel.core.records import read_array, write_array
from partlabel.core.trouble import keep, machine_says
from partlabel.labels.table import LabelTable

NOT_YET = "Not looked for yet. Opening this list starts the search, which takes a while."
AT_WORK = "Looking for suspects. This takes a while; you can go on with another list."


class Suspecting:
    """Suspects among the labels given by people.

    Args:
        run: run folder.
        table: the labels.
        folder: folder of the images.
        path: where the list is kept.

    Attributes:
        reason: why there is no list, in words; None where there is one.
    """

    def __init__(self, run: Path, table: LabelTable, folder: Path, path: Path) -> None:
        self._run, self._table, self._folder, self._path = run, table, folder, path
        self._lock = threading.Lock()
        self._started = False
        self._keys: Keys | None = read_array(path, None, np.int64)
        self.reason: str | None = NOT_YET if self._keys is None else None

    def keys(self, *, start: bool) -> Keys | None:
        """The suspects, the surest first; None while they are not there.

        Args:
            start: begin to look for them if nobody has.
        """
        with self._lock:
            if self._keys is None and start and not self._started:
                self._started, self.reason = True, AT_WORK
                threading.Thread(target=self._look, name="suspects", daemon=True).start()
            return self._keys

    def _look(self) -> None:
        from partlabel.tasks.suspects import check_run

        try:
            found = check_run(self._run, self._table, self._folder)
            rows = self._table.image_index(found.table.images)
            columns = np.array([self._table.class_index(name) for name in found.table.classes], np.int64)
            keys = columns[found.suspects.cls] * self._table.num_images + rows[found.suspects.image]
            write_array(self._path, keys.astype(np.int64))
        except UserError as error:
            self.reason = f"Suspects cannot be found: {error.message}."
            return
        except Exception as error:
            reason = machine_says(error) or "by a fault of partlabel"
            path = keep(error, ["partlabel", "review", "suspects"])
            self.reason = f"Suspects cannot be found: {reason}" + ("." if path is None else f"; see {path}.")
            return
        with self._lock:
            self._keys, self.reason = keys, None
