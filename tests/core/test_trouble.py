"""What the machine refuses is one sentence; what a library said is in a file that is named."""

from __future__ import annotations

import ast
import csv
import errno
import gc
import json
import os
import re
import tomllib
import weakref
import zipfile
from contextlib import nullcontext
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import torch
from lxml import etree

import partlabel
from partlabel.app import cli
from partlabel.core.errors import UserError, heard
from partlabel.core.trouble import keep, machine_says, plainly, short_of_memory


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_real_lack_of_memory_in_every_library():
    for ask in (
        lambda: np.empty(2**62, np.int8),
        lambda: torch.empty(2**55),
        lambda: bytearray(2**62),
        lambda: pa.allocate_buffer(2**60),
    ):
        with pytest.raises((MemoryError, RuntimeError)) as caught:
            ask()
        assert str(machine_says(caught.value)).startswith("there is not enough memory")


def _from(cause, *, quiet=False):
    """A KeyError that was raised from another error, or while it was handled."""
    try:
        try:
            raise cause
        except BaseException as error:
            if quiet:
                raise KeyError("x") from None
            raise KeyError("x") from error
    except KeyError as error:
        return error


def test_lack_of_memory_in_the_words_of_libraries_and_in_what_led_to_an_error():
    said = (
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: 12"),
        RuntimeError("could not create a primitive"),
        RuntimeError("could not create a memory object"),
        RuntimeError("Caught MemoryError in DataLoader worker process 0."),
        RuntimeError("std::bad_alloc"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    )
    for error in said:
        for raised in (
            error,
            _from(error),
            _from(error, quiet=True),
            _from(_from(error)),
            ExceptionGroup("x", [error]),
        ):
            assert str(machine_says(raised)).startswith("there is not enough memory"), repr(raised)
    thread = RuntimeError("can't start new thread")
    assert str(machine_says(_from(thread))).startswith("the system allows no more threads")
    for error in (
        RuntimeError("could not create a primitive descriptor for a convolution"),
        FileNotFoundError(errno.ENOENT, "x", "/a"),
        BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)),  # as a lock that somebody holds raises it
    ):
        assert machine_says(_from(error)) is None
        assert not short_of_memory(error)


def test_a_part_of_the_program_that_does_not_fit_the_memory():
    library = ImportError("libarrow.so: failed to map segment from shared object")
    error = ImportError("Cannot import module 'partlabel.app.cli.importing'")
    assert machine_says(error) is None
    error.__cause__ = library
    assert str(machine_says(error)).startswith("there is not enough memory")


def test_other_refusals_of_the_machine_and_faults():
    assert machine_says(OSError(errno.EMFILE, "x")) == (
        "the system allows no more open files; raise the limit (ulimit -n), or take fewer workers"
    )
    assert machine_says(RuntimeError("can't start new thread")) is not None
    assert machine_says(OSError(errno.EIO, "x", "/a/b")) == "/a/b: Input/output error"
    assert machine_says(KeyError("x")) is None
    assert machine_says(RuntimeError("size mismatch")) is None


def _raise(error):
    def app(words):
        raise error

    return app


def test_a_fault_of_partlabel_is_a_sentence_and_a_file(cache, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_only_writer", lambda words: nullcontext())
    monkeypatch.setattr(cli, "app", _raise(KeyError("weird")))
    assert cli.main(["inspect", "x"]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    (kept,) = (cache / "errors").iterdir()
    assert str(kept) in said
    assert "KeyError: 'weird'" in kept.read_text()
    assert "inspect" in kept.read_text()


def test_what_a_library_said_is_kept(cache, monkeypatch, capsys):
    error = UserError("x.csv: is damaged")
    error.__cause__ = pa.ArrowInvalid("thrift: unexpected byte")
    monkeypatch.setattr(cli, "_only_writer", lambda words: nullcontext())
    monkeypatch.setattr(cli, "app", _raise(error))
    assert cli.main(["inspect", "x"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("partlabel: x.csv: is damaged\n  what the library said is in ")
    assert "thrift" not in said
    assert "thrift: unexpected byte" in next((cache / "errors").iterdir()).read_text()


def _made_of(cause):
    """A sentence about a sentence about what a library raised."""
    inner, outer = UserError("x.zip: is damaged"), UserError("import: x.zip: is damaged")
    inner.__cause__, outer.__cause__ = cause, inner
    return outer


def test_a_sentence_that_was_said_anew_still_names_the_file(cache, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_only_writer", lambda words: nullcontext())
    monkeypatch.setattr(cli, "app", _raise(_made_of(pa.ArrowInvalid("thrift: unexpected byte"))))
    assert cli.main(["inspect", "x"]) == 2
    assert "what the library said is in " in capsys.readouterr().err
    assert "thrift: unexpected byte" in next((cache / "errors").iterdir()).read_text()
    for cause in (OSError(errno.ENOENT, "no such file"), None):  # the sentence says it all
        monkeypatch.setattr(cli, "app", _raise(_made_of(cause)))
        assert cli.main(["inspect", "x"]) == 2
        assert "library" not in capsys.readouterr().err


def test_damage_that_may_be_a_lack_of_memory(cache, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_only_writer", lambda words: nullcontext())
    monkeypatch.setattr(cli, "app", _raise(_made_of(MemoryError())))
    assert cli.main(["inspect", "x"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[1] == "  memory was short, which may be all that is wrong: end other programs and try again"


def test_a_damaged_archive_names_the_file_with_the_words_of_the_library(cache, tmp_path, capsys):
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("annotations.xml", "<annotations><image name='a.jpg'/></annotations>" * 50)
    data = bytearray(archive.read_bytes())
    data[60:70] = bytes(10)
    archive.write_bytes(data)
    assert cli.main(["import", "cvat", str(archive), "-o", str(tmp_path / "t.parquet")]) == 2
    said = capsys.readouterr().err
    (kept,) = (cache / "errors").iterdir()
    assert f"what the library said is in {kept}" in said
    assert re.search(r"zlib\.error|BadZipFile", kept.read_text())


def test_where_nothing_can_be_kept_the_fault_is_shown(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(cli, "_only_writer", lambda words: nullcontext())
    monkeypatch.setattr(cli, "app", _raise(KeyError("weird")))
    assert cli.main(["inspect", "x"]) == 1
    assert "KeyError: 'weird'" in capsys.readouterr().err


def test_few_files_are_kept(cache):
    for _ in range(25):  # in one second, mostly
        assert keep(ValueError("x"), []).is_file()
    assert len(list((cache / "errors").iterdir())) == 20


def test_a_file_is_kept_although_the_clock_went_back(cache):
    (cache / "errors").mkdir(parents=True)
    for number in range(20):
        (cache / "errors" / f"2999-01-01-00000{number:02}-abcdef.txt").touch()
    assert keep(ValueError("x"), []).is_file()
    assert len(list((cache / "errors").iterdir())) == 20


_FOREIGN = re.compile(
    r"\bException\b|RuntimeError|\bpa\.|Safetensor|zipfile|tarfile|zlib|_DAMAGED|_BROKEN|onnx|EOFError"
    r"|msgspec|TOMLDecode|XMLSyntax|Unicode|JSONDecode|csv\.Error|yaml|_WRONG|RecursionError"
)


QUOTES = "quotes, line ends or NUL characters stand where a table has none"


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (
            lambda: msgspec.json.decode(b'{"a": [1, "x"]}', type=dict[str, list[int]]),
            "[...][1]: a whole number is expected, not text",
        ),
        (lambda: msgspec.json.decode(b"[1", type=list[int]), "is no JSON, or is cut off"),
        (lambda: json.loads("{]"), "is no JSON from line 1 column 2 on"),
        (lambda: tomllib.loads("a = 1e"), "is no TOML at line 1, column 6"),
        (lambda: b"\xff".decode(), "is not UTF-8 text"),
        (lambda: etree.fromstring("<a><b></a>"), "is no XML"),
        (lambda: json.loads("1" * 5000), "a number has too many digits"),
        (
            lambda: list(csv.reader(['"a"b'], strict=True)),
            "quotes, line ends or NUL characters stand where a table has none",
        ),
    ],
)
def test_parsers_are_put_into_plain_words_and_kept(cache, read, said):
    heard.clear()
    with pytest.raises((ValueError, SyntaxError, csv.Error)) as caught:
        read()
    assert plainly(caught.value) == said
    path = keep(UserError("several files"), [])
    assert path is not None
    assert str(caught.value) in path.read_text(encoding="utf-8")
    assert not heard
    assert plainly(ValueError("own words")) == plainly(UserError("own words")) == "own words"


def test_a_collection_of_mistakes_keeps_the_words_of_the_library(cache, tmp_path, capsys):
    for name, text in (("a.json", '{"shapes": 3}'), ("b.json", "{")):
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text(text)
    assert cli.main(["import", "labelme", str(tmp_path / "in"), "-o", str(tmp_path / "t.parquet")]) == 2
    said = capsys.readouterr().err
    (kept,) = (cache / "errors").iterdir()
    assert f"what the library said is in {kept}" in said
    assert "Expected" not in said
    assert "Expected" in kept.read_text(encoding="utf-8")


def names_whole(node: ast.AST, name: str | None) -> bool:
    """Whether an error itself is written (``{error}``, ``{error or 1}``, ``{str(error)}``), not a part of it."""
    if isinstance(node, ast.Name):
        return node.id == name
    if isinstance(node, ast.Attribute) or (
        isinstance(node, ast.Call) and ast.unparse(node.func) not in ("str", "repr")
    ):
        return False
    return any(names_whole(part, name) for part in ast.iter_child_nodes(node))


def test_no_message_quotes_what_a_library_said():
    """Its words go to a file: an error of a library is the cause of the sentence, and no part of it."""
    quoting = []
    for path in sorted(Path(partlabel.__file__).parent.rglob("*.py")):
        for handler in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(handler, ast.ExceptHandler) or handler.type is None:
                continue
            if not _FOREIGN.search(ast.unparse(handler.type)):
                continue
            quoting += [
                f"{path.name}:{part.lineno}"
                for part in ast.walk(handler)
                if isinstance(part, ast.FormattedValue) and names_whole(part.value, handler.name)
            ]
    assert quoting == []


def test_the_words_of_a_parser_keep_nothing_of_what_was_read(cache):
    """A file of hundreds of megabytes would stay in memory as long as the program that could not read it."""

    class Content(str):
        pass

    def read():
        content = Content("{")
        try:
            json.loads(content)
        except ValueError as error:
            return weakref.ref(content), plainly(error)

    alive, said = read()
    gc.collect()
    assert said == "is no JSON from line 1 column 2 on"
    assert alive() is None
    assert "JSONDecodeError: " in keep(UserError("a file"), []).read_text(encoding="utf-8")
