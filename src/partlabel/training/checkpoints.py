"""Checkpoints of a training: each written whole, the newest two kept, damaged ones found and passed over."""

from __future__ import annotations

import pickle
import re
import warnings
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import torch

from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.core.files import make_folder, replacing
from partlabel.core.trouble import short_of_memory

_KEPT = 2
_DAMAGED = (RuntimeError, EOFError, OSError, ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError)


class Checkpoints:
    """The checkpoints of one run, one file for each finished epoch.

    A file holds tensors and plain Python values only, so that it loads with ``weights_only=True``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def files(self) -> list[Path]:
        """Checkpoint files, oldest first."""
        found = [(re.fullmatch(r"epoch-(\d+)\.pt", path.name), path) for path in self.folder.glob("epoch-*.pt")]
        return [path for match, path in sorted(((m, p) for m, p in found if m), key=lambda item: int(item[0][1]))]

    def save(self, epoch: int, state: dict[str, Any]) -> None:
        """Write the state after ``epoch`` epochs and remove all but the newest two.

        Raises:
            UserError: the disk is full or refuses; the earlier checkpoints stay.
        """
        target = self.folder / f"epoch-{epoch}.pt"
        try:
            make_folder(self.folder)
            with replacing(target) as temporary:
                torch.save(state, temporary)
        except UserError as error:
            raise UserError(f"{error.message}; resume when there is room") from error
        for old in self.files()[:-_KEPT]:
            old.unlink()

    def newest(self) -> dict[str, Any] | None:
        """The newest state that is whole; a damaged one is named in a warning and passed over.

        Returns:
            The state, or None where there is no checkpoint.

        Raises:
            UserError: there are checkpoints and none is whole.
        """
        damaged = []
        for path in reversed(self.files()):
            try:
                _check_sums(path)
                state = torch.load(path, "cpu", weights_only=True)
            except pickle.UnpicklingError:
                damaged.append(f"{path}: is not a checkpoint of partlabel, or holds more than tensors and plain values")
            except _DAMAGED as error:
                if short_of_memory(error):  # which says nothing of the file
                    raise
                damaged.append(f"{path}: is damaged, perhaps by a run that was killed or a full disk")
            else:
                for text in damaged:
                    warnings.warn(f"{text}; going on from {path.name}", PartlabelWarning, stacklevel=2)
                return state
        if damaged:
            raise UserError("no checkpoint can be read; remove them to start anew", damaged)
        return None


class _Told(msgspec.Struct):
    """What of a state is read before its tensors are."""

    epoch: Annotated[int, msgspec.Meta(ge=0)]
    best: float | None
    history: list[dict[str, Any]]


@contextmanager
def fitting(folder: Path, state: dict[str, Any] | None = None) -> Generator[None]:
    """Say what comes of a state in one sentence where it is not one of this training.

    Args:
        folder: of the checkpoints.
        state: is looked at first, if given.

    Raises:
        UserError: the block failed, as on tensors of another network, or the state lacks something.
    """
    try:
        if state is not None:
            msgspec.convert(state, _Told)
        yield
    except UserError:
        raise
    except (RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
        if short_of_memory(error):
            raise
        raise UserError(f"{folder}: the newest checkpoint is not of this training; remove it to start anew") from error


def _check_sums(path: Path) -> None:
    """Compare the content of a checkpoint with its check sums, which torch writes and does not look at.

    Raises:
        RuntimeError: they differ.
    """
    if not zipfile.is_zipfile(path):
        return  # an old or foreign file, which torch tells apart
    with zipfile.ZipFile(path) as parts:
        wrong = parts.testzip()
    if wrong is not None:
        raise RuntimeError(f"{wrong} does not fit its check sum")
