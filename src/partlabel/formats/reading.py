"""Text, JSON and XML files: their encoding, their mistakes named with file and line, and how far a reading is."""

from __future__ import annotations

import codecs
import glob
import mmap
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, TypeVar, cast

import msgspec
from lxml import etree

from partlabel.core.errors import UserError
from partlabel.core.trouble import plainly
from partlabel.formats.packed import opened

Content = TypeVar("Content")
Watcher = Callable[[int, int], None]

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
#: the constants that Python writes although JSON has none, or a text; only what stands outside texts is replaced
_CONSTANT = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b', re.DOTALL)

#: the encoding that an XML file declares, where it is written in bytes that ASCII shares
_DECLARED = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']""")
#: what lxml may not do: expand entities, fetch anything, or read files made to exhaust the memory
_SAFE = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False}

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher) -> Generator[None]:
    """Call ``watcher`` with (megabytes read, megabytes in all) of each file that is read inside the block."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def advance(done: int, total: int) -> None:
    """Tell that ``done`` of ``total`` bytes of a file are read; readers that read in parts call this."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(done // 1_000_000, -(-total // 1_000_000))


def files_below(folder: str, *endings: str) -> list[str]:
    """Return the files in a folder and below it, relative with ``/``, sorted; hidden files and folders are left out.

    Args:
        folder: where to look.
        endings: in lower case, such as ``.xml``; files end with one of them in any case.
    """
    found = []
    for parent, folders, names in os.walk(folder) if os.path.isdir(folder) else ():
        folders[:] = [name for name in folders if not name.startswith(".")]
        inner = os.path.relpath(parent, folder)
        own = [name for name in names if name.casefold().endswith(endings) and not name.startswith(".")]
        found += [os.path.normpath(os.path.join(inner, name)).replace(os.sep, "/") for name in own]
    return sorted(found)


def matching(path: str) -> list[str]:
    """Return the files that fit a pattern with ``*``, sorted; the path itself where it is no pattern or exists."""
    if os.path.exists(path) or not glob.has_magic(path):
        return [path]
    return sorted(glob.glob(path, recursive=True))


def find_encoding(path: str, declared: str | None = None) -> str:
    """Return the codec of a text file: as declared, by its byte-order mark, otherwise UTF-8.

    Raises:
        UserError: the file cannot be opened, is empty, or has neither a mark nor the look of UTF-8; an unknown codec.
    """
    with opened(path) as content:
        start = content.file.read(4096)
    if not start:
        raise UserError(f"{path}: the file is empty")
    marked = next((codec for mark, codec in _MARKS if start.startswith(mark)), None)
    if declared is not None:
        try:
            name = codecs.lookup(declared).name
        except LookupError as error:
            raise UserError(f"the encoding {declared!r} is not known") from error
        # the codec of the mark leaves the mark out of the text, which plain utf-8 or utf-16-le would not
        fits = marked is not None and (marked.startswith(name) or name.startswith(marked))
        return marked if marked and fits else name
    if marked is None and b"\0" in start:
        raise UserError(f"{path}: not UTF-8 text; if it is UTF-16 without a mark, say encoding=utf-16-le")
    return marked or "utf-8"


def text_lines(path: str, encoding: str | None = None) -> list[str]:
    """Return the lines without outer blanks; item i is line i + 1. Blank lines at the end are left out.

    Lines end with LF, CRLF or CR. The text is UTF-8, or what its byte-order mark says.

    Raises:
        UserError: the file cannot be read or holds no text, or lines are in another encoding (all are listed).
    """
    encoding = encoding or find_encoding(path)
    with opened(path) as packed:
        content = packed.file.read()
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        wrong = _undecodable(path, content) if encoding.startswith("utf-8") else [path]
        raise UserError(f"{path}: the text is not {encoding}", wrong) from error
    lines = [line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise UserError(f"{path}: the file holds only blank lines")
    return lines


def _undecodable(path: str, content: bytes) -> list[str]:
    wrong = []
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            wrong.append(f"{path}:{number} {line.strip()!r} is not UTF-8")
    return wrong


def load_json(path: str, kind: type[Content], what: str) -> Content:
    """Decode a JSON file. NaN and Infinity, which Python writes although JSON has none, are read as null.

    Args:
        path: the file; a byte-order mark is skipped.
        kind: what msgspec is to decode.
        what: the file in words, for the error, such as ``a COCO file``.

    Raises:
        UserError: the file cannot be read, is not JSON (the line is named), or is not ``kind``.
    """
    try:
        with open(path, "rb") as file:
            return _decode(path, _content(file), kind, what)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error


def _content(file: IO[bytes]) -> memoryview:
    """Return the bytes of a file after its byte-order mark; raw parts of what is decoded from them may outlive it."""
    try:
        content: mmap.mmap | bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (ValueError, OSError):  # an empty file, or a pipe
        content = file.read()
    return memoryview(content)[len(codecs.BOM_UTF8) if content[:3] == codecs.BOM_UTF8 else 0 :]


def _decode(path: str, text: memoryview, kind: type[Content], what: str) -> Content:
    try:
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            mended = _CONSTANT.sub(lambda match: match[0] if match[0][:1] == b'"' else b"null", text)
            if len(mended) == len(text) and mended == text:
                raise
            return msgspec.json.decode(mended, type=kind)
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: not {what}: {plainly(error)}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        at = re.search(r"byte (\d+)", str(error))
        line = bytes(text[: int(at[1])] if at else text).count(b"\n") + 1
        raise UserError(f"{path}: not valid JSON", [f"{path}:{line} {plainly(error)}"]) from error
    except RecursionError:
        raise UserError(f"{path}: not {what}: lists or objects inside each other without end") from None


def xml_elements(file: IO[bytes], *tags: str) -> Iterator[etree._Element]:
    """Yield the root of an XML file as soon as it opens, then each element of some tags when it is whole.

    The file streams through, in any encoding that Python knows; entities are not expanded, nothing is fetched.

    Raises:
        XmlError: the file is not well-formed or its encoding is not known.
    """
    with _xml_mistakes():
        for events, wanted in (("start",), None), (("end",), tags):
            stream, encoding = _decoded(file)
            opened = etree.iterparse(
                stream, events=events, tag=wanted, remove_comments=True, remove_pis=True, encoding=encoding, **_SAFE
            )
            for _, element in opened:
                yield element
                if wanted is None:
                    break


def xml_root(file: IO[bytes]) -> etree._Element:
    """Return the root of an XML file, read as ``xml_elements`` does; a file with entities is refused.

    Raises:
        XmlError: the file is not well-formed, declares or uses an entity, or its encoding is not known.
    """
    with _xml_mistakes():
        stream, encoding = _decoded(file)
        parser = etree.XMLParser(remove_comments=True, remove_pis=True, encoding=encoding, **_SAFE)
        root = etree.parse(stream, parser).getroot()
    if (entity := next(root.iter(etree.Entity), None)) is not None:
        raise XmlError(entity.sourceline, f"the entity {entity.name!r} is not read: entities can do harm")
    refuse_entities(root)
    return root


def refuse_entities(root: etree._Element) -> None:
    """Refuse a file that declares an entity.

    Raises:
        XmlError: it does.
    """
    declared = root.getroottree().docinfo.internalDTD
    for entity in declared.iterentities() if declared is not None else ():
        raise XmlError(1, f"the entity {entity.name!r} is declared: entities can do harm")


class XmlError(Exception):
    """What is wrong in an XML file, and its line or ``line:column``."""

    def __init__(self, where: int | str, what: str) -> None:
        super().__init__(what)
        self.place = f"{where} {what}"


@contextmanager
def _xml_mistakes() -> Generator[None]:
    try:
        yield
    except etree.XMLSyntaxError as error:
        line, column = error.position
        raise XmlError(f"{line}:{column}", plainly(error)) from error
    except UnicodeError as error:
        raise XmlError(1, "its encoding cannot be read") from error


def _decoded(file: IO[bytes]) -> tuple[IO[bytes], str | None]:
    """Return the file, and how lxml is to read it; what only Python can decode becomes UTF-8 on the way."""
    file.seek(0)
    declared = _DECLARED.match(file.read(1024))
    file.seek(0)
    if declared is None:
        return file, None
    name = declared[1].decode()
    try:
        codec = codecs.lookup(name)
        "".encode(name)  # some codecs are not of text
    except LookupError:
        raise XmlError(1, f"unknown encoding: {name}") from None
    if codec.name in ("utf-8", "utf-16", "ascii", "iso8859-1"):
        return file, None
    return cast("IO[bytes]", codecs.EncodedFile(file, "utf-8", codec.name)), "utf-8"
