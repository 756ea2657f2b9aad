"""Prediction of shards: each is scored by whichever process comes first, and its results appear whole or not at all."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partlabel.core.compute import cores, default_device, inference_batch, processes
from partlabel.core.errors import UserError
from partlabel.core.files import forget_sweeps, make_folder, replacing, sweep, temporary_folder
from partlabel.core.lease import Leases
from partlabel.core.progress import Reporter
from partlabel.images.decoding import ImageError
from partlabel.images.loading import load_bytes
from partlabel.images.shards import MANIFEST, Manifest, Place, cut
from partlabel.models.model import Model
from partlabel.models.onnx import OnnxModel
from partlabel.tasks.predict import scorer
from partlabel.tasks.prediction_files import Keep, PredictionWriter, decided
from partlabel.tasks.scoring import model_digest

#: seconds between two looks for shards that others gave up
_PAUSE = 0.5
#: batches that are decoded while one is scored
_AHEAD = 4
_LEASES = ".leases"


@dataclass
class Done:
    """What one process did: numbers of ``shards`` and ``images``, and ``left_out``, images that cannot be read."""

    shards: int = 0
    images: int = 0
    left_out: list[str] = field(default_factory=list)

    def add(self, other: Done) -> None:
        """Count what another process did, too."""
        self.shards, self.images = self.shards + other.shards, self.images + other.images
        self.left_out += other.left_out


@dataclass(frozen=True)
class Work:
    """All that there is to do, the same for every process."""

    source: Place
    output: Place
    manifest: Manifest
    keep: Keep
    on_bad: str

    @classmethod
    def open(
        cls,
        model: Model | OnnxModel,
        source: Place,
        output: Place,
        names: Sequence[str] | None,
        keep: Keep,
        on_bad: str,
        size: int,
    ) -> Work:
        """Read the manifest, or make it; see :func:`partlabel.tasks.engines.predict_shards`."""
        if output.is_local:
            make_folder(output.path)
        device = "cpu" if isinstance(model, OnnxModel) else torch.device(default_device()).type
        about = {"model": model_digest(model, device), "keep": keep.to_dict(), "on_bad": on_bad}
        file = output.child(MANIFEST)
        if file.kind().name != "File":
            made = cut(source, about, names, size)
            leases = Leases(Path(output.path, _LEASES)) if output.is_local else None
            while file.kind().name != "File":
                with leases.holding(MANIFEST) if leases else nullcontext(True) as mine:
                    if mine and file.kind().name != "File":
                        write_whole(file, made.write)
                if not mine:  # another process is about to write it, unless it cannot
                    time.sleep(_PAUSE)
        found = Manifest.read(io.BytesIO(file.read()), file.text)
        wrong = [name for name, value in about.items() if found.about.get(name) != value]
        wrong += [] if found.source == source.text else ["source"]
        if wrong:
            raise UserError(
                f"{output.text}: results with another {' and '.join(wrong)} lie there; take a new folder, or remove it"
            )
        return cls(source, output, found, keep, on_bad)

    def is_done(self, shard: int) -> bool:
        """Whether the results of a shard are there."""
        return self.output.child(self.manifest.file_name(shard)).kind().name == "File"

    def left(self) -> list[int]:
        """Return the numbers of the shards that are not done, by one look at the folder."""
        there = set(self.output.names())
        return [shard for shard in range(len(self.manifest)) if self.manifest.file_name(shard) not in there]

    def run(self, model: Model | OnnxModel) -> Done:
        """Do shards until none is left: those of one's own number among the processes first, then those of others."""
        done, own = Done(), processes()
        leases = Leases(Path(self.output.path, _LEASES)) if self.output.is_local else None
        first = own.rank * len(self.manifest) // own.world if own.world > 1 else os.getpid() * 7919 % len(self.manifest)
        with scorer(model) as (device, score), Reporter().bar("scoring shards", "shards") as bar:
            while left := self.left():
                at = np.searchsorted(left, first)
                for later, shard in zip(reversed(range(len(left))), [*left[at:], *left[:at]], strict=True):
                    if leases is None:
                        self.one(shard, model, device, score, done)
                    elif not self.is_done(shard):
                        with leases.holding(str(shard)) as mine:
                            if mine and not self.is_done(shard):
                                self._unless_done(shard, model, device, score, done)
                    bar(done.shards, done.shards + later)  # what others do meanwhile is not counted
                if leases is not None and self.left():
                    time.sleep(_PAUSE)
        if leases is not None:
            self._tidy()
            leases.end()
        return done

    def _unless_done(self, shard: int, *arguments: Any) -> None:
        """Do one shard; it is no mistake where others did it while this process stood still, and removed its file."""
        try:
            self.one(shard, *arguments)
        except (OSError, UserError):
            if not self.is_done(shard):
                raise

    def one(
        self,
        shard: int,
        model: Model | OnnxModel,
        device: str,
        score: Callable[[Tensor], NDArray[np.float32]],
        done: Done,
    ) -> None:
        """Score one shard and write its file."""
        images, bad, size = 0, [], inference_batch(device)
        about = {"shard": shard, "model": self.manifest.about["model"]}

        def write(path: Path) -> None:
            nonlocal images
            with (
                PredictionWriter.open(path, model.classes, self.keep, about) as writer,
                ThreadPoolExecutor(cores()) as pool,
            ):
                for names, pixels in self._batches(shard, model.preprocessing.size, size, pool, bad):
                    writer.add(names, *decided(model, score(pixels)))
                    images += len(names)
                if bad and self.on_bad == "error":
                    raise UserError(f"{len(bad)} images of shard {shard} cannot be used", bad)

        write_whole(self.output.child(self.manifest.file_name(shard)), write)
        done.shards, done.images = done.shards + 1, done.images + images
        done.left_out += bad

    def _batches(
        self, shard: int, side: int, size: int, pool: ThreadPoolExecutor, bad: list[str]
    ) -> Iterator[tuple[list[str], Tensor]]:
        """Whole batches of images that can be read, decoded by threads some batches ahead."""

        def pixels(item: tuple[str, bytes]) -> tuple[str, Tensor | ImageError]:
            try:
                item[0].encode()
                return item[0], load_bytes(item[1], item[0], side)
            except UnicodeEncodeError:
                return item[0], ImageError(item[0], "its name is not UTF-8")
            except ImageError as error:
                return item[0], error

        items, names, batch = self.manifest.images(shard, self.source), [], []
        while some := list(islice(items, size * _AHEAD)):
            for name, image in pool.map(pixels, some):
                if isinstance(image, ImageError):
                    bad.append(str(image))
                    continue
                names.append(name)
                batch.append(image)
                if len(batch) == size:
                    yield names, torch.stack(batch)
                    names, batch = [], []
        if batch:
            yield names, torch.stack(batch)

    def _tidy(self) -> None:
        """Remove what killed processes left, and what slow ones still write although it is done."""
        forget_sweeps()
        folder = Path(self.output.path)
        sweep(folder)
        for path in folder.glob(".part-*.tmp"):
            path.unlink(missing_ok=True)


def write_whole(target: Place, write: Callable[[Path], None]) -> None:
    """Write a file whole or not at all, here or in a bucket, where an upload that fails leaves nothing."""
    if target.is_local:
        with replacing(target.path) as temporary:
            write(temporary)
        return
    with temporary_folder() as folder:
        own = folder / "file"
        write(own)
        content = own.read_bytes()
    try:
        with target.files.open_output_stream(target.path) as stream:
            stream.write(content)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "the service refuses"
        raise UserError(f"{target.text}: cannot be written ({why})") from error
