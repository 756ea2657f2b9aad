"""The weights of a saved model: safetensors whose metadata hold a checksum of all tensors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from partlabel.core.errors import UserError
from partlabel.core.files import folder_beside, make_folder, replacing
from partlabel.core.records import CHECKSUM, WRONG, checksum_of_arrays
from partlabel.core.special import refuse_special
from partlabel.models.description import DESCRIPTION_FILE, WEIGHTS_FILE


def write_state(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write tensors by name, whole or not at all.

    Raises:
        UserError: the disk is full or refuses.
    """
    tensors = {key: value.detach().cpu().contiguous() for key, value in state.items()}
    with replacing(path) as temporary, folder_beside(path) as folder:  # safetensors has a temporary file of its own
        temporary.touch()  # with the rights of any new file; safetensors lets nobody but its owner read one
        # one entry only: several come in another order in each process, and equal models are to be equal files
        save_file(tensors, folder / WEIGHTS_FILE, {CHECKSUM: _checksum(tensors)})
        shutil.copymode(temporary, folder / WEIGHTS_FILE)
        os.replace(folder / WEIGHTS_FILE, temporary)


def read_state(path: Path) -> dict[str, Tensor]:
    """Read what :func:`write_state` wrote; a file of an earlier version has no checksum, and is read as it is.

    Raises:
        UserError: the file is missing or damaged.
    """
    refuse_special(path)
    try:
        with safe_open(path, "pt") as file:
            about = file.metadata() or {}
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - it is no dictionary
    except (OSError, SafetensorError, RuntimeError, ValueError, KeyError, TypeError, MemoryError) as error:
        raise UserError(f"{path}: is missing or damaged") from error
    if CHECKSUM in about and about[CHECKSUM] != _checksum(state):
        raise UserError(f"{path}: {WRONG}")
    return state


def _checksum(state: Mapping[str, Tensor]) -> str:
    """Of the bytes of each tensor, whatever its type, and of names, types and shapes."""
    plain = {key: value.reshape(-1).view(torch.uint8).numpy() for key, value in state.items() if value.numel()}
    return checksum_of_arrays(plain, {key: [str(value.dtype), list(value.shape)] for key, value in state.items()})


def copy_model(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy a model folder, each file whole or not at all."""
    make_folder(target)
    for name in (WEIGHTS_FILE, DESCRIPTION_FILE):
        with replacing(Path(target) / name) as temporary:
            shutil.copyfile(Path(source) / name, temporary)
