"""The store of results: what is added comes back, from several processes at once and after a killed one too."""

from __future__ import annotations

import json
import math
import multiprocessing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from experiments.store import RESULTS, Store
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.core.errors import UserError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
NAMES = st.text(st.characters(codec="utf-8"), max_size=8)


@settings(max_examples=40)
@given(st.lists(st.tuples(NAMES, VALUES), max_size=8), st.binary(max_size=20))
def test_records_come_back_as_they_were(added: list[tuple[str, Any]], cut: bytes) -> None:
    """A name that comes again replaces its record; a line that a killed writer left without its end is no record."""
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "deep" / "table.jsonl")
        assert store.read() == {}
        for name, record in added:
            store.add(name, record)
            with open(store.path, "ab") as file:
                file.write(cut.replace(b"\n", b""))
        assert store.read() == dict(added)
        assert list(store.read()) == list(dict(added))
        assert {path.name for path in store.path.parent.glob("*")} <= {"table.jsonl"}


def test_a_line_is_a_name_and_its_record(tmp_path: Path) -> None:
    store = Store(tmp_path / "table.jsonl")
    store.add("a", {"mAP": 40.25})
    store.add("b", [1, None, "é\u2028"])
    store.add("a", 0.1)
    assert store.path.read_text(encoding="utf-8") == (
        '{"name": "a", "record": 0.1}\n{"name": "b", "record": [1, null, "é\u2028"]}\n'
    )


def _add(path: Path, process: int) -> None:
    for number in range(20):
        Store(path).add(f"{process} {number}", {"value": number / 7, "text": "x" * 5000})


@pytest.mark.linux
def test_processes_add_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add, args=(path, process)) for process in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    found = Store(path).read()
    assert len(found) == 80
    assert all(found[f"{p} {n}"]["value"] == n / 7 for p in range(4) for n in range(20))
    assert [file.name for file in tmp_path.iterdir()] == ["table.jsonl"]


@pytest.mark.parametrize("line", ["", "{", "[]", '"name"', '{"name": "a"}', '{"name": "first", "record": 1}'])
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str) -> None:
    store = Store(tmp_path / "table.jsonl")
    store.add("first", 1)
    with open(store.path, "a", encoding="utf-8") as file:
        file.write(line + "\n")
    before = store.path.read_bytes()
    with pytest.raises(UserError, match=r"table\.jsonl, line 2: "):
        store.read()
    with pytest.raises(UserError, match=r"table\.jsonl, line 2: "):
        store.add("second", 2)
    assert store.path.read_bytes() == before


def test_nan_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    store = Store(tmp_path / "table.jsonl")
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.add("a", {"value": math.nan})
    assert not list(tmp_path.iterdir())


def test_the_results_of_the_repository_are_stores() -> None:
    files = sorted(RESULTS.rglob("*.*"))
    assert len(files) > 10
    for file in files:
        assert file.suffix == ".jsonl", file
        assert Store(file).read(), file
        for line in file.read_text(encoding="utf-8").splitlines():
            assert json.dumps(json.loads(line), ensure_ascii=False) == line
