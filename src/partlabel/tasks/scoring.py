"""Scores that every task shares: computed once for a model and the content of an image, and kept in files.

``evaluate``, ``predict``, ``complete``, ``next`` and ``review`` ask here. Scores lie in the cache folder, in a folder
named after all that they depend on: weights, network, preprocessing, kind of device and version. A file holds the
scores of some images, each under the hash of what it holds, and is whole or not there: a pass that is killed goes on
after its last file. An image that was exchanged has another hash, so a stale score cannot be found.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
import weakref
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import torch
from numpy.typing import NDArray

from partlabel.core.compute import default_device
from partlabel.core.errors import UserError
from partlabel.core.files import cache_folder, make_folder, replacing, temporary_folder
from partlabel.core.progress import Reporter
from partlabel.images import ImageError, check, resolve
from partlabel.images.among import among
from partlabel.images.contents import facts_of, known_contents
from partlabel.images.shards import MANIFEST, Manifest, Place
from partlabel.models.model import Model
from partlabel.models.onnx import OnnxModel
from partlabel.models.score_files import ScoreFile, ScoreWriter
from partlabel.models.scores import Scores, read_scores
from partlabel.tasks.predict import score, score_batches
from partlabel.tasks.prediction_files import Keep, PredictionWriter, decided

#: fewer images are scored faster than they are looked up
FEW = 64
#: images in one file, of which at most one is lost when a pass is killed
IN_FILE = 2048
#: bytes of stored scores above which those of models that were not used for long are removed
LIMIT = 32 * 2**30
#: seconds within which stored scores may be in use by another process
_IN_USE = 3600.0
_HASH = pa.binary(32)
#: scores that become probabilities, in double precision, at once
_DECIDED = 2**21
_SHARD = re.compile(r"manifest\.parquet|part-\d+\.parquet")
#: what is said where neither images nor scores are given
NEITHER = "either the folder of the images is needed (--images), or one of their scores (--scores)"


def scored(
    model: Model | OnnxModel,
    paths: Sequence[Path],
    *,
    device: str | torch.device | None = None,
    workers: int | None = None,
) -> Scores:
    """Score image files, those only whose scores are not stored yet.

    Args:
        model: the classifier, the mode of which is put back afterwards, or an exported one.
        paths: N image files; those that are to be scored are checked first.
        device: where to run; None takes the GPU if there is one. An exported classifier always runs on the CPU.
        workers: loader processes; None chooses.

    Returns:
        (N, C), in the order of ``paths``; never all in memory where there are many images.

    Raises:
        UserError: images cannot be read (all are named), or there is no room for the scores.
    """
    if len(paths) <= FEW:
        check(paths).raise_if_bad()
        return Scores.of(score(model, paths, device=device, workers=workers, keep=True))
    on = "cpu" if isinstance(model, OnnxModel) else torch.device(device or default_device()).type
    folder = cache_folder() / "scores" / model_digest(model, on)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    except OSError as error:
        Reporter().line(f"{folder}: scores cannot be kept ({error.strerror}); they are made anew each time")
        with ExitStack() as held:
            folder = held.enter_context(temporary_folder()) / folder.name
            folder.mkdir()
            files, place = _filed(folder, model, paths, device, workers)
            weakref.finalize(files[0], held.pop_all().close)  # it goes when nobody can read from it any more
    else:
        files, place = _filed(folder, model, paths, device, workers)
    return read_scores(files, place)


def _filed(
    folder: Path,
    model: Model | OnnxModel,
    paths: Sequence[Path],
    device: str | torch.device | None,
    workers: int | None,
) -> tuple[list[ScoreFile], NDArray[np.int64]]:
    """Score images whose scores are not in a folder yet; gives all its files, and where the images lie in them."""
    known = contents_of(paths, folder.parent)
    contents = known["hash"]
    place, files = _stored(folder, contents)
    missing = np.flatnonzero(place < 0)
    if len(missing):
        with Reporter().bar("checking images") as bar:
            check([paths[i] for i in missing.tolist()], progress=bar).raise_if_bad()
        _, first = np.unique(contents[missing], return_index=True)  # images of the same content are scored once
        new = missing[np.sort(first)]
        _check_room(folder, len(new) * len(model.classes) * 4)
        _fill(folder, model, [paths[i] for i in new.tolist()], known[new], device, workers)
        place, files = _stored(folder, contents)
    return files, place


def scores_of(
    model: Model | OnnxModel,
    names: pa.StringArray,
    images: str | os.PathLike[str] | None,
    stored: str | os.PathLike[str] | None = None,
    elsewhere: tuple[str, Path] | None = None,
) -> Scores:
    """Score the images of a table, or open the scores that ``partlabel predict`` wrote in shards.

    Args:
        model: the classifier.
        names: of the images.
        images: the folder that the names start from; not needed with stored scores.
        stored: a folder of shards with the scores of all classes, or the address of one in a bucket, which is copied
            into the cache, each shard once.
        elsewhere: see :func:`partlabel.images.resolve`.

    Raises:
        UserError: neither is given; images are missing or cannot be read; or the stored scores are of another model, or
            lack images.
    """
    if stored is not None:
        place = Place.of(stored)
        folder = Path(stored) if place.is_local else fetched(place)
        return _of_shards(model, names, folder, place.text, elsewhere)
    if images is None:
        raise UserError(NEITHER)
    return scored(model, resolve(names, images, elsewhere))


def fetched(place: Place) -> Path:
    """Copy scores from a bucket into the cache, without the shards that are there and have not changed.

    Raises:
        UserError: they cannot be read, or the disk has no room.
    """
    folder = cache_folder() / "scores" / hashlib.blake2b(place.text.encode(), digest_size=16).hexdigest()
    make_folder(folder)
    os.utime(folder)
    names = [name for name in place.names() if _SHARD.fullmatch(name)]
    found = place.ask(lambda: place.files.get_file_info([f"{place.path}/{name}" for name in names]))
    todo = []
    for name, about in zip(names, found, strict=True):
        own = (folder / name).stat() if (folder / name).exists() else None
        if own is None or (own.st_size, own.st_mtime_ns) != (about.size, about.mtime_ns):  # not every service has times
            todo.append((name, about))
    _check_room(folder, sum(about.size for _, about in todo))
    with Reporter().bar("copying scores", "bytes") as bar:
        done, in_all = 0, sum(about.size for _, about in todo)
        for name, about in todo:
            with replacing(folder / name) as temporary:
                target = str(temporary), place.files, pyarrow.fs.LocalFileSystem()
                place.child(name).ask(partial(pyarrow.fs.copy_files, about.path, *target))
                if about.mtime_ns is not None:
                    os.utime(temporary, ns=(about.mtime_ns, about.mtime_ns))
            bar(done := done + about.size, in_all)
    for path in folder.glob("*.parquet"):
        if path.name not in names:
            path.unlink(missing_ok=True)
    return folder


def _of_shards(
    model: Model | OnnxModel, names: pa.StringArray, folder: Path, text: str, elsewhere: tuple[str, Path] | None
) -> Scores:
    """The scores of images in a folder, which a person calls ``text``."""
    paths = sorted(folder.glob("part-*.parquet"))
    if not paths:
        what = "is no folder of scores" if folder.is_file() else "no scores lie there"
        raise UserError(f"{text}: {what}; partlabel predict RUN IMAGES -o FOLDER --dense writes them")
    files = [ScoreFile(path) for path in paths]
    devices = ("cpu",) if isinstance(model, OnnxModel) else ("cpu", "cuda", "mps")
    digests = {model_digest(model, device) for device in devices}
    wrong = [str(file.path) for file in files if file.about.get("model") not in digests]
    if wrong:
        raise UserError(f"{text}: the scores are of another model, or of another version of partlabel", wrong)
    there = pa.concat_arrays([file.column("image") for file in files])
    place = pc.index_in(names, value_set=there).fill_null(-1)  # pyrefly: ignore[missing-attribute]
    at = place.to_numpy(zero_copy_only=False).astype(np.int64)
    # in their own folder, images are not called after it; the same names in another folder are other images
    if elsewhere is not None and (at < 0).any() and _scored_folder(folder) == elsewhere[1].resolve():
        bare = pc.replace_substring_regex(  # pyrefly: ignore[missing-attribute]
            names, "^" + re.escape(elsewhere[0]) + "/", ""
        )
        found = pc.index_in(bare, value_set=there).fill_null(-1)  # pyrefly: ignore[missing-attribute]
        at = np.where(at < 0, found.to_numpy(zero_copy_only=False), at)
    if (at < 0).any():  # a sheet may write a name in another case, or without its ending
        left = np.flatnonzero(at < 0)
        at[left] = among(names.take(pa.array(left)).to_pylist(), there.to_pylist())
    if (at < 0).any():
        lacking = names.take(pa.array(np.flatnonzero(at < 0))).to_pylist()
        said = f"{text}: {len(lacking)} of {len(names)} images have no scores there"
        manifest = _manifest(folder)
        if manifest is not None and len(manifest) > len(files):
            said += (
                f"; {len(manifest) - len(files)} of {len(manifest)} shards are missing, which the same "
                "partlabel predict would write"
            )
        raise UserError(said, lacking)
    return read_scores(files, at)


def _scored_folder(folder: Path) -> Path | None:
    """The folder whose images a folder of scores is about; None where it has no manifest that can be read."""
    manifest = _manifest(folder)
    return None if manifest is None else Path(manifest.source).resolve()


def _manifest(folder: Path) -> Manifest | None:
    path = folder / MANIFEST
    return Manifest.read(path, str(path)) if path.is_file() else None


def write_predictions(
    output: Path, model: Model | OnnxModel, names: Sequence[str], paths: Sequence[Path], keep: Keep
) -> None:
    """Score images and write their predictions into one ``.csv`` or ``.parquet`` file, whole or not at all.

    Raises:
        UserError: images cannot be read, or the file cannot be written.
    """
    scores = scored(model, paths)
    with (
        replacing(output) as temporary,
        PredictionWriter.open(temporary, model.classes, keep, kind=output.suffix[1:]) as writer,
    ):
        step = max(1, _DECIDED // max(scores.num_classes, 1))
        for start, values in scores.in_order():
            for low in range(0, len(values), step):
                high = min(low + step, len(values))
                writer.add(names[start + low : start + high], *decided(model, values[low:high]))
            del values  # or it is held while the next ones are read


def model_digest(model: Model | OnnxModel, device: str) -> str:
    """Return 32 hexadecimal digits that change with all that scores depend on, but for the image.

    Thresholds and calibration do not count: they make decisions of scores.
    """
    digest = hashlib.blake2b(digest_size=16)
    about = [version("partlabel"), list(model.classes), device]
    if isinstance(model, OnnxModel):
        with open(model.path, "rb") as file:
            about.append(hashlib.file_digest(file, "blake2b").hexdigest())
    else:
        described = model.describe()
        about += [described["preprocessing"], described["model"] | {"weights": ""}, model.precision]
        for name, value in model.state_dict().items():
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    digest.update(json.dumps(about).encode())
    return digest.hexdigest()


def contents_of(paths: Sequence[Path], folder: Path) -> NDArray[np.void]:
    """Return facts and hash of each file; those whose facts are known from an earlier time are not read.

    Args:
        paths: N files.
        folder: where this is remembered.

    Returns:
        (N,) of :data:`partlabel.images.contents.ROW`.

    Raises:
        UserError: files cannot be read; all bad ones are named.
    """
    names = hashlib.blake2b(digest_size=8)
    for path in paths:
        names.update(os.fsencode(os.path.abspath(path)) + b"\0")
    try:
        with Reporter().bar("looking for images that were changed") as bar:
            return known_contents(paths, folder / f"contents-{names.hexdigest()}.npy", bar)
    except ImageError:
        check(paths).raise_if_bad()
        raise


def _stored(folder: Path, contents: NDArray[np.bytes_]) -> tuple[NDArray[np.int64], list[ScoreFile]]:
    """Where the scores of images lie, counted over the rows of all files, -1 where they are not stored; and the files.

    A damaged file is removed, and its images count as not scored.
    """
    place, files, start = np.full(len(contents), -1, np.int64), [], 0
    order = np.argsort(contents)
    wanted = contents[order]
    for path in sorted(folder.glob("*.parquet")):
        try:
            file = ScoreFile(path)
            there = np.array(file.column("content").to_pylist(), "S32")
        except (UserError, OSError, pa.ArrowInvalid, KeyError) as error:
            if getattr(error.__cause__ or error, "errno", None) is None:  # damaged, not only out of reach for now
                path.unlink(missing_ok=True)
            continue
        low, high = np.searchsorted(wanted, there, "left"), np.searchsorted(wanted, there, "right")
        for row in np.flatnonzero(high > low).tolist():
            place[order[low[row] : high[row]]] = start + row
        files.append(file)
        start += file.num_images
    return place, files


def _fill(
    folder: Path,
    model: Model | OnnxModel,
    paths: list[Path],
    known: NDArray[np.void],
    device: str | torch.device | None,
    workers: int | None,
) -> None:
    """Score images and write a file for each ``IN_FILE`` of them."""
    contents = known["hash"]
    batches = score_batches(model, paths, cut=IN_FILE, device=device, workers=workers, keep=True)
    with Reporter().bar("scoring images") as bar:
        for start in range(0, len(paths), IN_FILE):
            end = min(start + IN_FILE, len(paths))
            own = hashlib.blake2b(contents[start:end].tobytes(), digest_size=8).hexdigest()
            with (
                replacing(folder / f"{own}.parquet") as temporary,
                ScoreWriter(temporary, model.classes, columns={"content": _HASH}) as writer,
            ):
                for rows, values in batches:
                    names = [str(paths[i]) for i in rows]
                    hashes = pa.array([contents[i].ljust(32) for i in rows], _HASH)
                    writer.add([name.encode(errors="replace").decode() for name in names], values, content=hashes)
                    bar(int(rows[-1]) + 1, len(paths))
                    if rows[-1] + 1 == end:
                        break
                _check_unchanged(paths[start:end], known[start:end])


def _check_unchanged(paths: list[Path], known: NDArray[np.void]) -> None:
    """Refuse images that were changed after their hash was taken: their scores may be those of the new content."""
    found = [facts_of(os.stat(path)) == tuple(row["facts"].tolist()) for path, row in zip(paths, known, strict=True)]
    if not all(found):
        changed = [str(path) for path, same in zip(paths, found, strict=True) if not same]
        raise UserError(f"{len(changed)} images were changed while they were scored; start again", changed)


def _check_room(folder: Path, needed: int) -> None:
    """Remove stored scores of models that were not used for long, where all together are too many.

    Raises:
        UserError: the disk has no room for what is needed.
    """
    found = []
    for other in folder.parent.iterdir():
        with suppress(OSError):  # another process may remove it at this moment
            if other.is_dir():
                size = sum(file.stat().st_size for file in other.glob("*.parquet"))
                found.append((other.stat().st_mtime, size, other))
    total = sum(size for _, size, _ in found) + needed
    for used, size, other in sorted(found):
        if total > LIMIT and other != folder and time.time() - used > _IN_USE:
            shutil.rmtree(other, ignore_errors=True)
            total -= size
    if needed > shutil.disk_usage(folder).free:
        raise UserError(
            f"{folder}: the scores need {needed / 2**30:.1f} GiB, which the disk does not have; set PARTLABEL_CACHE to "
            "a folder with room"
        )
