"""Commands as a user calls them: exit codes, standard output and standard error, JSON, and a light start."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.app.cli import app, main
from partlabel.images.decoding import ImageError
from partlabel.labels.table import LabelTable
from tests.app.cli.calling import refused, run
from tests.processes import Started, free_port
from tests.training.test_processes import of_command_line

COMMANDS = (
    "import",
    "inspect",
    "simulate",
    "train",
    "evaluate",
    "predict",
    "relabel",
    "thresholds",
    "report",
    "complete",
    "suspects",
    "next",
    "review",
    "labels",
    "export",
    "download",
    "demo",
)


CSV = "image,cat,dog\na.jpg,1,0\nb.jpg,,1\nc.jpg,0,\n"


CODING = "1=present,0=absent,blank=unknown"


@pytest.fixture
def labels(tmp_path):
    """A label table file: 40 images, 5 classes, every label known."""
    values = np.where(np.random.default_rng(0).random((40, 5)) < 0.4, 1, -1).astype(np.int8)
    path = tmp_path / "labels.parquet"
    LabelTable.from_dense([f"{i}.jpg" for i in range(40)], list("abcde"), values).write_parquet(path)
    return path


def test_help_lists_the_commands_in_the_order_of_use(capsys):
    code, out, err = run(capsys, "--help")
    assert (code, err) == (0, "")
    places = [out.index(f"\n│ {name} ") for name in COMMANDS]
    assert places == sorted(places)


def test_no_command_shows_the_help(capsys):
    assert run(capsys) == run(capsys, "--help")


@pytest.mark.parametrize(
    "command", [(name,) for name in COMMANDS] + [("import", "csv"), ("import", "coco"), ("labels", "diff")]
)
def test_every_command_and_every_option_has_a_help_text(capsys, command):
    code, out, err = run(capsys, *command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: partlabel {' '.join(command)}")
    bound = app
    for name in command:
        bound = bound[name]
    if command in (("import",), ("labels",)):
        return
    assert "--json" in out
    for argument in bound.assemble_argument_collection(parse_docstring=True):
        if argument.name == "*":  # not a flag, but the group of them
            continue
        assert (argument.parameter.help or "").strip().endswith((".", "]")), f"{argument.name} has no help"


def test_version(capsys):
    import partlabel

    assert run(capsys, "--version") == (0, partlabel.__version__ + "\n", "")


def test_help_imports_nothing_heavy():
    script = (
        "import sys; from partlabel.app.cli import main; code = main(['--help']);"
        "heavy = {'torch', 'torchvision', 'timm', 'numpy', 'pyarrow', 'matplotlib', 'sklearn', 'PIL', 'markdown_it'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_help_answers_at_once():
    """Within four times what Python takes to import so much of its own library (1.8 were measured: 0.17 s)."""

    def seconds(script: str) -> float:
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return used.ru_utime + used.ru_stime

    script = "import sys; from partlabel.app.cli import main; sys.exit(main(['--help']))"
    library = (
        "import asyncio, argparse, csv, ctypes, decimal, http.client, json, logging, multiprocessing.pool, sqlite3"
    )
    library += ", tarfile, unittest.mock, xml.etree.ElementTree, zipfile"
    found = np.min([[seconds(each) for each in (script, library, "pass")] for _ in range(5)], axis=0)  # processor time
    assert found[0] - found[2] < 4 * (found[1] - found[2])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense"], "nonsense"),
        (["inspekt", "x"], "inspect"),
        (["inspect"], "LABELS"),
        (["inspect", "x", "--pgn", "y"], "--png"),
        (["simulate", "x", "half", "-o", "y"], "noisy+"),
        (["simulate", "x", "partial", "--proportion", "much", "-o", "y"], "much"),
        (["import", "spreadsheet", ".", "-o", "y"], "spreadsheet"),
        (["import", "csv", "."], "--output"),
        (["import", "csv", ".", "-o", "y", "--codign", "native"], "--coding"),
    ],
)
def test_mistyped_commands_are_explained(capsys, words, said):
    err = refused(capsys, *words)
    assert said in err
    assert "--help" in err


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "{missing}"],
        ["simulate", "{missing}", "noisy+", "-o", "{out}"],
        ["import", "csv", "{missing}", "-o", "{out}"],
        ["import", "coco", "{missing}", "-o", "{out}"],
        ["train", "{missing}", "--images", "{folder}", "-o", "{out}"],
        ["train", "{labels}", "--images", "{missing}", "-o", "{out}"],
        ["evaluate", "{missing}", "{labels}", "--images", "{folder}"],
        ["predict", "{missing}", "{folder}", "-o", "{out}.csv"],
    ],
)
def test_files_that_are_not_there(capsys, tmp_path, labels, words):
    names = {"missing": tmp_path / "nowhere", "out": tmp_path / "out", "folder": tmp_path, "labels": labels}
    assert "nowhere" in refused(capsys, *(word.format(**names) for word in words))
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_no_label_table(capsys, tmp_path):
    path = tmp_path / "labels.parquet"
    path.write_text("image,cat\na.jpg,1\n")
    assert "labels.parquet" in refused(capsys, "inspect", path)


def test_import_then_inspect(capsys, tmp_path):
    source, output = tmp_path / "labels.csv", tmp_path / "labels.parquet"
    source.write_text(CSV)
    code, out, _ = run(capsys, "import", "csv", source, "-o", output, "--coding", CODING)
    assert code == 0
    assert str(output) in out
    table = LabelTable.read_parquet(output)
    assert table.dense().tolist() == [[1, -1], [0, 1], [-1, 0]]

    code, out, err = run(capsys, "inspect", output)
    assert (code, err) == (0, "")
    assert "4 of 6" in out


def test_import_lists_every_wrong_cell_and_writes_nothing(capsys, tmp_path):
    source, output = tmp_path / "labels.csv", tmp_path / "labels.parquet"
    source.write_text(CSV.replace("1,0", "1,0.5").replace(",,1", ",2,1"))
    err = refused(capsys, "import", "csv", source, "-o", output, "--coding", CODING)
    assert "labels.csv:2" in err
    assert "labels.csv:3" in err
    assert not output.exists()


def test_import_needs_a_coding_where_two_readings_are_possible(capsys, tmp_path):
    source = tmp_path / "labels.csv"
    source.write_text("image,cat,dog\na.jpg,1,0\nb.jpg,0,1\n")
    assert "coding" in refused(capsys, "import", "csv", source, "-o", tmp_path / "labels.parquet")


def test_json_is_alone_on_standard_output(capsys, tmp_path, labels):
    source = tmp_path / "labels.csv"
    source.write_text(CSV)
    for words in (
        ["import", "csv", source, "-o", tmp_path / "l.parquet", "--coding", CODING],
        ["inspect", labels, "--png", tmp_path / "labels.png"],
        ["simulate", labels, "partial", "--proportion", "0.4", "-o", tmp_path / "p.parquet"],
    ):
        code, out, _ = run(capsys, *words, "--json")
        assert code == 0
        assert isinstance(json.loads(out), dict)
        assert out.count("\n") == 1


def test_what_libraries_print_does_not_mix_with_the_json(capsys):
    from partlabel.app.cli.output import reporting

    with reporting(True) as report:
        print("loading weights")
        report({"a": 1}, "text")
    assert capsys.readouterr() == ('{"a": 1}\n', "loading weights\n")


def test_inspect_draws(capsys, tmp_path, labels):
    code, out, _ = run(capsys, "inspect", labels, "--png", tmp_path / "labels.png")
    assert code == 0
    assert (tmp_path / "labels.png").read_bytes().startswith(b"\x89PNG")
    assert str(tmp_path / "labels.png") in out
    assert "name the page with --html" in refused(capsys, "inspect", labels, "--images", tmp_path)
    assert "give their folder with --images" in refused(capsys, "inspect", labels, "--html", tmp_path / "a.html")


def test_simulate_partial(capsys, tmp_path, labels):
    output = tmp_path / "partial.parquet"
    words = ("simulate", labels, "partial", "--proportion", "0.4", "--seed", "3", "-o", output)
    code, out, _ = run(capsys, *words, "--json")
    assert code == 0
    assert json.loads(out)["known"] == 40 * 2
    made = LabelTable.read_parquet(output)
    assert (np.diff(made.indptr) == 2).all()
    run(capsys, *words[:-1], tmp_path / "again.parquet")
    assert (LabelTable.read_parquet(tmp_path / "again.parquet").dense() == made.dense()).all()


def test_simulate_asks_for_what_a_strategy_needs(capsys, tmp_path, labels):
    output = tmp_path / "out.parquet"
    assert "--proportion" in refused(capsys, "simulate", labels, "dense", "-o", output)
    assert "no --proportion" in refused(capsys, "simulate", labels, "noisy+", "--proportion", "0.5", "-o", output)
    assert "--per-image" in refused(
        capsys, "simulate", labels, "dense", "--proportion", "0.5", "--per-image", "bernoulli", "-o", output
    )
    assert "1.5" in refused(capsys, "simulate", labels, "noisy", "--proportion", "1.5", "-o", output)
    assert not output.exists()


@pytest.mark.slow
@settings(max_examples=20)
@given(st.lists(st.text(max_size=12), max_size=4))
def test_no_words_make_a_traceback(words):
    """Whatever is typed after `inspect` ends with 0 or 2."""
    assert main(["inspect", *words]) in (0, 2)


def test_a_warning_is_a_sentence(capsys):
    from partlabel.app.cli import _show_warning
    from partlabel.core.errors import PartlabelWarning

    _show_warning("no label is known to be absent", PartlabelWarning, "training.py", 3)
    assert capsys.readouterr().err == "warning: no label is known to be absent\n"


def test_a_closed_pipe_is_no_error(labels):
    command = [sys.executable, "-c", "import sys; from partlabel.app.cli import main; sys.exit(main(sys.argv[1:]))"]
    done = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$@" | true', "bash", *command, "inspect", str(labels)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert done.stderr == ""


def of_two(rank, port, place):
    """`partlabel train` as one of two processes that cannot read an image before they meet."""

    def fail(path):
        raise ImageError(path, "is a folder, not an image")

    LabelTable.read_parquet = fail
    of_command_line(["train", "labels.parquet", "--images", "pictures", "-o", "run"], place, rank, port)


@pytest.mark.slow
def test_a_mistake_of_any_kind_before_the_training_is_said_once(tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "labels.parquet").touch()
    port = free_port()
    started = [Started(of_two, (rank, port, tmp_path), tmp_path / f"node{rank}") for rank in range(2)]
    said = [process.communicate(timeout=900)[1] for process in started]
    assert said == ["partlabel: labels.parquet: is a folder, not an image\n", ""]
    assert [process.returncode for process in started] == [2, 2]
