"""Paths that are wrong end a command at once; a command names the one that follows, with the user's own paths."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cyclopts import App

from partlabel import LabelTable
from partlabel.app.cli import app, main
from partlabel.app.cli.paths import check_paths
from partlabel.app.cli.steps import UNKNOWN, following

#: commands that say themselves what follows
OWN = {"download", "review"}


def bound(*words: str):
    return app.parse_args([str(word) for word in words], print_error=False, exit_on_error=False)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("train", "no.parquet", "--images", "none", "-o", "run", "--validation", "val.parquet"),
            ["labels: there is no no.parquet", "--images: not a folder: none", "--validation: there is no val.parquet"],
        ),
        (("suspects", ".", "--images", ".", "-o", "none/s.csv"), ["--output: none/s.csv: the folder none does not"]),
        (("report", "a", "b", "-o", "x.html"), ["run: there is no a", "runs: there is no b"]),
        (("import", "csv", "a.csv", "b.csv", "-o", "x.parquet"), ["there is no a.csv", "there is no b.csv"]),
        (("labels", "merge", "a", "b", "c", "-o", "."), ["first:", "second:", "more:", "--output: . is a folder"]),
        (("inspect", "."), ["labels: . is a folder, where a label table is wanted"]),
        (("predict", "run", "x", "-o", "y.csv"), ["run: there is no run", "source: there is no x"]),
        (
            ("relabel", ".", "t", "--images", ".", "--also", "no", "-o", "x"),
            ["labels: there is no t", "--also: there is no no"],
        ),
    ],
)
def test_wrong_paths_are_all_named(tmp_path, monkeypatch, words, said, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    lines = capsys.readouterr().err.removeprefix("partlabel: ").splitlines()
    lines = [line.strip() for line in lines[1:]] if len(said) > 1 else lines
    assert len(lines) == len(said)
    assert all(line.startswith(start) for line, start in zip(lines, said, strict=True)), lines
    assert not list(tmp_path.iterdir())


def test_torch_is_not_imported_to_find_out(tmp_path: Path) -> None:
    code = (
        "import sys; from partlabel.app.cli import main; "
        "code = main(['train', 'no.parquet', '--images', '.', '-o', 'run', '--validation', 'v.parquet']); "
        "assert not {'torch', 'numpy', 'pyarrow'} & set(sys.modules); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr


def test_a_mistyped_file_of_an_import_is_found_before_the_formats_are_loaded(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.csv").touch()
    monkeypatch.setattr(App, "parse_args", None)
    assert main(["import", "csv", "lables.csv", "-o", "x.parquet"]) == 2
    assert capsys.readouterr().err == "partlabel: there is no lables.csv (did you mean labels.csv?)\n"


def test_the_name_that_was_meant_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "labels.parquet").touch()
    assert main(["train", "label.parquet", "--images", "photo", "-o", "run"]) == 2
    said = capsys.readouterr().err
    assert "label.parquet (did you mean labels.parquet?)" in said
    assert "photo (did you mean photos?)" in said


def test_a_sheet_given_as_a_label_table_is_refused_before_anything_is_imported(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "labels.csv").write_text("image,cat\n", encoding="utf-8")
    code = (
        "import sys; from partlabel.app.cli import main; code = main(sys.argv[1:]); "
        "assert not {'torch', 'numpy', 'pyarrow'} & set(sys.modules); sys.exit(code)"
    )
    words = ["train", "labels.csv", "--validation", "labels.csv", "--images", "photos", "-o", "run"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "make one first: partlabel import csv labels.csv -o labels.parquet" in done.stderr
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()[1:]] == ["labels", "--validation"]


def test_a_pattern_is_no_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_paths("import csv", bound("import", "csv", "parts/*.csv", "-o", "x.parquet"))


def test_next_step_is_ready_to_copy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"labels": Path("t.parquet"), "images": Path("my photos"), "output": Path("run")}
    assert following("train", given) == "partlabel report run --images 'my photos' -o report.html"
    assert following("", {}) == ""


def test_every_command_has_a_next_step():
    names = [name for name in app if not name.startswith("-") and name not in OWN | {"labels", "import"}]
    names += [f"labels {name}" for name in app["labels"] if not name.startswith("-")]
    given = dict.fromkeys(("labels", "run", "source", "output", "first", "second", "images", "held_out"), Path("x.csv"))
    assert [name for name in [*names, "import csv"] if not following(name, given)] == []


def test_each_next_step_is_a_command_that_finds_its_paths(place, tmp_path, monkeypatch, capsys):
    """From the spreadsheet to the exported file, by the lines that the commands end with."""
    monkeypatch.chdir(tmp_path)
    for name in ("pictures", "labels.csv", "config.toml"):
        (tmp_path / name).symlink_to(place / name)
    (tmp_path / "labels.csv").unlink()
    rows = (place / "labels.csv").read_text().replace(",-1", ",0").splitlines()
    half = [",".join(cell if (i + j) % 2 or j == 0 or i == 0 else "" for j, cell in enumerate(row.split(",")))
            for i, row in enumerate(rows)]  # fmt: skip
    (tmp_path / "labels.csv").write_text("\n".join(half))

    def run(*words: str) -> str:
        assert main(words) == 0, capsys.readouterr().err
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith("Next: partlabel ")
        assert UNKNOWN not in last
        found = shlex.split(last)[2:]
        check_paths(" ".join(found[: 2 if found[0] == "labels" else 1]), bound(*found))  # options and paths are right
        return last.removeprefix("Next: partlabel ")

    words = ("import", "csv", "labels.csv", "--coding", "1=present,0=absent,blank=unknown", "-o")
    step = run(*words, "looked-at.parquet", "--images", "pictures")
    assert step == "inspect looked-at.parquet --images pictures --html labels.html"
    assert run(*shlex.split(step)) == "train looked-at.parquet --images pictures -o run"
    step = run(*words, "labels.parquet")
    assert step == "inspect labels.parquet"
    step = run(*shlex.split(step))
    assert step == "train labels.parquet --images pictures -o run"
    step = run(*shlex.split(step), "--config", "config.toml")
    assert step == "report run --images pictures -o report.html"
    assert run(*shlex.split(step), "--resamples", "20") == "review run --images pictures"
    assert run("thresholds", "run", "--by", "f1") == "report run --images pictures -o report2.html"
    step = run("next", "run", "labels.parquet", "--images", "pictures", "--budget", "6", "-o", "questions.csv")
    assert step == "labels answers labels.parquet questions.csv -o grown.parquet"
    step = run(*shlex.split(step))
    assert step == "train grown.parquet --images pictures --after run -o run2"
    step = run("labels", "hold-out", "labels.parquet", "-o", "kept.parquet", "--held-out", "aside.parquet")
    assert step == "train kept.parquet --images pictures --validation aside.parquet -o run2"
    step = run("evaluate", "run", "labels.parquet", "--images", "pictures")
    assert step == "suspects run --images pictures -o suspects.csv"
    assert run(*shlex.split(step)) == "review run --images pictures"
    step = run("predict", "run", "pictures", "-o", "shards")
    assert step == "evaluate run run/validation.parquet --scores shards"
    assert run(*shlex.split(step)) == "suspects run --images pictures -o suspects2.csv"
    assert main(("predict", "run", "pictures", "-o", "sparse", "--top", "1")) == 0
    assert "Next" not in capsys.readouterr().out  # what reads scores wants all classes
    assert run("labels", "merge", "kept.parquet", "aside.parquet", "-o", "both.parquet") == "inspect both.parquet"


def test_the_folder_of_the_images_is_found_by_a_name_in_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = LabelTable.from_dense(["a/1.jpg"], ["cat"], [[1]])
    (tmp_path / "work").mkdir()
    table.write_parquet("work/t.parquet")
    assert following("inspect", {"labels": Path("work/t.parquet")}).split()[4] == UNKNOWN
    (tmp_path / "my photos" / "a").mkdir(parents=True)
    (tmp_path / "my photos" / "a" / "1.jpg").touch()
    step = following("inspect", {"labels": Path("work/t.parquet")})
    assert step == "partlabel train work/t.parquet --images 'my photos' -o run"
