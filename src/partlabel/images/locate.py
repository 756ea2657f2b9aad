"""Which file of a folder belongs to which image name, and which files are the same: the one rule for both."""

from __future__ import annotations

import hashlib
import os
import posixpath
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from partlabel.core.errors import UserError
from partlabel.images.decoding import ImageError, why_not_an_image

#: endings of images, and those that complete a name without one
PICTURES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".avif", ".jp2"),
    *(".ppm", ".pgm", ".pnm"),
)
#: bytes at the end of a file that are compared before the whole file is read
_END_BYTES = 4096


@dataclass
class Located:
    """The file of each name, and how often the name was not the file's own.

    Attributes:
        files: for each name its file relative to the folder, or None.
        completed: names without ending that exactly one image fits.
        other_case: names that differ from their file in upper and lower case or in the form of Unicode only.
        backslashes: names whose backslashes part folders.
        below: names without a folder whose file lies in exactly one folder below.
        ambiguous: ``name: file, file`` where several files fit; their entry in ``files`` is None.
        outside: names that lead out of the folder; nothing is looked for there.
    """

    files: list[str | None] = field(default_factory=list)
    completed: int = 0
    other_case: int = 0
    backslashes: int = 0
    below: int = 0
    ambiguous: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)


def folded(name: str) -> str:
    """Return the form in which names are compared, whatever their case and form of Unicode."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def stem(name: str) -> str:
    """Return a name without its ending."""
    return os.path.splitext(name)[0]


def _grouped(names: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        groups[folded(key(posixpath.basename(name)))].append(name)
    return groups


class _Files:
    """Some files, found in any case and without ending."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    @cached_property
    def folded(self) -> dict[str, list[str]]:
        return _grouped(self.names, str)

    @cached_property
    def stems(self) -> dict[str, list[str]]:
        return _grouped((n for n in self.names if os.path.splitext(n)[1].casefold() in PICTURES), stem)

    def fitting(self, base: str) -> tuple[list[str], bool]:
        """Return the files that fit a name, and whether their ending was added."""
        found = self.folded.get(folded(base), [])
        return (found, False) if found else (self.stems.get(folded(base), []), True)


class _Tree:
    """The folders that names were looked for in, each listed once."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._listed: dict[str, tuple[str, _Files, dict[str, list[str]]]] = {"": ("", *self._list(""))}

    def _list(self, folder: str) -> tuple[_Files, dict[str, list[str]]]:
        try:
            with os.scandir(os.path.join(self.root, folder)) as entries:
                there = [(entry.name, entry.is_dir()) for entry in entries]
        except (OSError, ValueError):
            there = []
        inner = [name for name, is_folder in there if is_folder]
        return _Files({name for name, is_folder in there if not is_folder}), _grouped(inner, str)

    def open(self, folder: str) -> tuple[str, _Files]:
        """Return the path of a folder, in another case where exactly one folder of the disk fits, and its files."""
        if folder not in self._listed:
            parent, _, base = folder.rpartition("/")
            path, _, inner = self._open(parent)
            fitting = inner.get(folded(base), [])
            name = base if base in fitting or len(fitting) != 1 else fitting[0]
            own = f"{path}/{name}" if path else name
            self._listed[folder] = (own, *self._list(own))
        return self._listed[folder][:2]

    def _open(self, folder: str) -> tuple[str, _Files, dict[str, list[str]]]:
        self.open(folder)
        return self._listed[folder]

    @cached_property
    def below(self) -> _Files:
        """The files of all folders below; hidden ones do not count."""
        found = set()
        for parent, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            inner = os.path.relpath(parent, self.root).replace(os.sep, "/")
            found |= {posixpath.normpath(f"{inner}/{name}") for name in files if not name.startswith(".")}
        return _Files(found)


def locate(names: Iterable[str], folder: str | os.PathLike[str]) -> Located:
    """Look for each image in a folder.

    A name (``b.jpg``, ``a/b.jpg``, ``./a//b.jpg``) is looked for as it is; with its backslashes as slashes; in another
    case or form of Unicode; with the ending of an image added; and, where it has no folder, in the folders below.

    Nothing is looked for outside of the folder.

    Raises:
        UserError: ``folder`` is not a folder.
    """
    if not os.path.isdir(folder):
        raise UserError(f"{folder}: not a folder with images")
    tree = _Tree(os.fspath(folder))
    result = Located()
    for name in names:
        result.files.append(_locate(name, tree, result))
    return result


def _locate(name: str, tree: _Tree, result: Located) -> str | None:
    """Return the file of one name, relative to the folder, or None; count how it was found."""
    if name in tree.open("")[1].names:
        return name
    own, plain = posixpath.normpath(name), posixpath.normpath(name.replace("\\", "/"))
    if plain == ".." or plain.startswith(("../", "/")) or os.path.splitdrive(plain)[0]:
        result.outside.append(name)
        return None
    for candidate in dict.fromkeys((own, plain)):
        parent, _, base = candidate.rpartition("/")
        path, files = tree.open(parent)
        fitting, completed = ([base], False) if base in files.names else files.fitting(base)
        if fitting:
            break
    else:
        path, (fitting, completed) = "", tree.below.fitting(plain) if "/" not in plain else ([], False)
        result.below += len(fitting) == 1
    if len(fitting) > 1:
        result.ambiguous.append(f"{name}: {', '.join(fitting)}")
    if len(fitting) != 1:
        return None
    result.backslashes += candidate != own
    result.completed += completed
    result.other_case += not completed and posixpath.basename(fitting[0]) != posixpath.basename(plain)
    return f"{path}/{fitting[0]}" if path else fitting[0]


def would_fit(names: Sequence[str], folder: str | os.PathLike[str]) -> tuple[str, str] | None:
    """Return a file that ends as a missing image does, and the beginning that most such names have before it.

    Args:
        names: images without a file; the first thousand are looked at.
        folder: where their files may lie.
    """
    files = _Tree(os.fspath(folder)).below
    found: dict[str, str] = {}
    starts: Counter[str] = Counter()
    for name in names[:1000]:
        plain = name.replace("\\", "/")
        ends = (plain[i + 1 :] for i, letter in enumerate(plain) if letter == "/")
        if end := next((end for end in ends if end in files.names), None):
            start = name[: len(name) - len(end)]
            starts[start] += 1
            found.setdefault(start, end)
    if not starts:
        return None
    start = starts.most_common(1)[0][0]
    return found[start], start


def name_below(path: str, folder: str | None) -> str:
    """Return a file path relative to the folder with the images; one that is relative or elsewhere stays as it is."""
    if folder is None or not os.path.isabs(path):
        return path
    root, plain = os.path.join(os.path.abspath(folder), ""), os.path.normpath(path)
    return plain.removeprefix(root).replace(os.sep, "/") if plain.startswith(root) else path


def relative(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> str:
    """Return a path as seen from a folder, with slashes; as it is where no way leads there (another drive)."""
    try:
        return os.path.relpath(path, folder).replace(os.sep, "/")
    except ValueError:
        return os.fspath(path)


def first_copies(folder: str | os.PathLike[str], files: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return for each file the number of the first with the same bytes, and the numbers of the empty files.

    Files are told apart by their size, then by their end, and read as a whole only where both are the same. Empty files
    are no copies of each other; the same name twice is a copy.

    Raises:
        UserError: files that cannot be read (all are listed).
    """
    wrong: dict[str, str] = {}
    numbers: dict[str, int] = {}
    for number, file in enumerate(files):
        numbers.setdefault(file, number)
    by_size = _parts(folder, files, numbers.values(), os.path.getsize, wrong)
    empty = by_size.pop(0, [])
    groups = list(by_size.values())
    for key in (_end, content_hash):
        parts = [_parts(folder, files, group, key, wrong) for group in groups if len(group) > 1]
        groups = [group for part in parts for group in part.values()]
    if wrong:
        raise UserError(
            f"{folder}: {len(wrong):,} images cannot be read", [f"{name}: {why}" for name, why in wrong.items()]
        )
    first = [numbers[file] for file in files]
    leader = {number: group[0] for group in groups for number in group}
    return [leader.get(number, number) for number in first], empty


def _parts(
    folder: str | os.PathLike[str],
    files: Sequence[str],
    group: Iterable[int],
    key: Callable[[str], Hashable],
    wrong: dict[str, str],
) -> dict[Hashable, list[int]]:
    """Part a group of files by a key."""
    parts: defaultdict[Hashable, list[int]] = defaultdict(list)
    for number in group:
        try:
            parts[key(os.path.join(folder, files[number]))].append(number)
        except (OSError, ImageError) as error:
            wrong[files[number]] = getattr(error, "strerror", None) or str(error)
    return parts


def _end(file: str) -> bytes:
    with open(file, "rb") as stream:
        stream.seek(max(os.path.getsize(file) - _END_BYTES, 0))
        return hashlib.blake2b(stream.read(), digest_size=16).digest()


def content_hash(path: str | os.PathLike[str]) -> str:
    """Hash the bytes of a file: BLAKE2b, 32 hexadecimal digits.

    Raises:
        ImageError: the file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise ImageError(path, f"cannot be read ({error.strerror})") from None


def identical(paths: Iterable[str | os.PathLike[str]]) -> list[list[Path]]:
    """Find files with equal bytes, for a check that the same image is not in two parts under two names.

    Args:
        paths: files; only those that share their length with another are read.

    Returns:
        Groups of two or more equal files, in the order of the first of each group.

    Raises:
        ImageError: a file cannot be read.
    """
    by_length: dict[int, list[Path]] = {}
    for path in map(Path, paths):
        try:
            by_length.setdefault(path.stat().st_size, []).append(path)
        except OSError as error:
            raise ImageError(path, f"cannot be read ({error.strerror})") from None
    by_content: dict[tuple[int, str], list[Path]] = {}
    for length, group in by_length.items():
        if len(group) > 1:
            for path in group:
                by_content.setdefault((length, content_hash(path)), []).append(path)
    return [group for group in by_content.values() if len(group) > 1]


@dataclass(frozen=True)
class Listed:
    """The images of a folder and its subfolders, by name.

    ``names``: paths inside the folder, with forward slashes. ``paths``: the files. ``left_out``: ``name: reason`` of
    the other files; hidden ones are not mentioned.
    """

    names: list[str]
    paths: list[Path]
    left_out: list[str]


def list_images(folder: str | os.PathLike[str]) -> Listed:
    """List every file of a folder that holds an image of a format that is read, whatever its name.

    The endings of ``PICTURES`` are taken at their word, so that a damaged image is found later and named; files with
    other names are looked into.

    Raises:
        UserError: there is no image.
    """
    top = Path(folder)
    names, left_out = [], []
    for parent, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in files:
            if file.startswith("."):
                continue
            name = Path(parent, file).relative_to(top).as_posix()
            if os.path.splitext(file)[1].casefold() not in PICTURES:
                reason = why_not_an_image(Path(parent, file))
                if reason is not None:
                    left_out.append(f"{name}: {reason}")
                    continue
            names.append(name)
    if not names:
        raise UserError(f"{folder}: no image in this folder", sorted(left_out))
    names.sort()
    return Listed(names, [top / name for name in names], sorted(left_out))


def find(
    names: Iterable[str] | pa.StringArray, folder: str | os.PathLike[str], elsewhere: tuple[str, Path] | None = None
) -> list[Path | None]:
    """Find the file of each image of a table, by the rule of `locate`, which import uses too.

    Args:
        names: (N,) names as in the table: file names or paths in ``folder``, with or without ending, in any case.
        folder: the folder with the images.
        elsewhere: where the images of some names lie: with ``("valid", Path("/data/v"))``, ``valid/a.jpg`` is ``a.jpg``
            in ``/data/v``.

    Returns:
        (N,) paths, in the order of ``names``; None where there is no file.

    Raises:
        UserError: ``folder`` is none; some names lead out of it, or fit more than one file; all of them are listed.
    """
    listed = names.to_pylist() if isinstance(names, pa.Array) else list(names)
    if elsewhere is not None:
        start, other = elsewhere
        there = [name.startswith(f"{start}/") for name in listed]
        moved = iter(find([name[len(start) + 1 :] for name, yes in zip(listed, there, strict=True) if yes], other))
        here = iter(find([name for name, yes in zip(listed, there, strict=True) if not yes], folder))
        return [next(moved) if yes else next(here) for yes in there]
    found = locate(listed, folder)
    if found.outside:
        raise UserError(f"{len(found.outside)} image names lead out of the image folder {folder}", found.outside)
    if found.ambiguous:
        raise UserError(f"{len(found.ambiguous)} images fit more than one file in {folder}", found.ambiguous)
    return [None if file is None else Path(folder, file) for file in found.files]


def resolve(
    names: Iterable[str] | pa.StringArray, folder: str | os.PathLike[str], elsewhere: tuple[str, Path] | None = None
) -> list[Path]:
    """Find the file of every image of a table; see `find` for the arguments and the rule.

    Returns:
        (N,) paths, in the order of ``names``.

    Raises:
        UserError: as `find`; or some names have no file, all of which are listed.
    """
    listed = names.to_pylist() if isinstance(names, pa.Array) else list(names)
    paths = find(listed, folder, elsewhere)
    missing = [name for name, path in zip(listed, paths, strict=True) if path is None]
    if missing:
        where = folder if elsewhere is None else f"{folder} and {elsewhere[1]}"
        raise UserError(f"{len(missing)} of {len(listed)} images missing in {where}", missing)
    return [path for path in paths if path is not None]
