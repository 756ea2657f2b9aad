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
from partlabel.labels.table import LabelTable

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


def run(capsys, *words) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def refused(capsys, *words) -> str:
    """Run a command that a user got wrong and give what it says; nothing is on standard output, and no traceback."""
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert err.startswith("partlabel: ")
    return err


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
    """At most 0.3 s longer than `python -c pass` (0.2 s were measured), in processor time, with room for a busy one."""

    def seconds(script: str) -> float:
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return used.ru_utime + used.ru_stime

    script = "import sys; from partlabel.app.cli import main; sys.exit(main(['--help']))"
    assert min(seconds(script) for _ in range(5)) - min(seconds("pass") for _ in range(5)) < 0.5


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


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Images, a half-filled table and a run trained on them: red or dark, blue or dark, 24 images of 64 x 64."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("job")
    (folder / "photos").mkdir()
    rows = ["image,red,blue"]
    for i in range(24):
        red, blue = i % 2, i // 2 % 2
        Image.new("RGB", (64, 64), (200 * red + i, 20, 200 * blue)).save(folder / "photos" / f"{i:02}.png")
        rows.append(f"{i:02}.png,{red if i % 3 else ''},{blue if i % 4 else ''}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    labels, images = str(folder / "labels.parquet"), str(folder / "photos")
    settings = ["--backbone", "test_resnet", "--weights", "none", "--freeze", "none", "--size", "64", "--epochs", "2"]
    settings += ["--batch-size", "8", "--workers", "0", "--validation", "0.25"]
    words = ["import", "csv", str(folder / "labels.csv"), "--coding", CODING, "--images", images, "-o", labels]
    assert main(words) == 0
    assert main(["train", labels, "--images", images, "-o", str(folder / "run"), *settings]) == 0
    return folder


def test_train_writes_a_run(capsys, job):
    assert (job / "run" / "config.toml").is_file()
    assert (job / "run" / "best").is_dir()
    err = refused(capsys, "train", job / "labels.parquet", "--images", job / "photos", "-o", job / "run")
    assert "run" in err


def test_train_flags_reach_the_settings(job):
    from partlabel.training.config import Config

    config = Config.read(job / "run" / "config.toml")
    assert (config.model.weights, config.freeze, config.images.size) == ("none", "none", 64)
    assert (config.optim.epochs, config.optim.batch_size, config.validation) == (2, 8, 0.25)


def test_every_flag_of_train_is_a_setting():
    from partlabel.app.cli.settings import Settings, make_config
    from partlabel.training.config import Config

    config = make_config("small", None, Settings(), None)
    assert config == Config.preset("small")
    values = {
        "on_bad": "skip",
        "assume_absent": True,
        "backbone": "resnet18",
        "weights": "none",
        "freeze": "2",
        "size": 64,
        "loss": "bce",
        "gamma": 2.0,
        "graph": True,
        "dropout": 0.5,
        "relabel_before": "10,15",
        "strategy": "all-at-once",
        "theta": 0.25,
        "optimizer": "adamw",
        "epochs": 3,
        "batch_size": 5,
        "learning_rate": 0.5,
        "weight_decay": 0.25,
        "precision": "bf16",
        "workers": 3,
        "seed": 9,
    }
    assert set(values) == set(vars(Settings()))
    for name, value in values.items():
        others = {"dropout": 0.5} if name == "relabel_before" else {}  # its strategy needs some
        changed = make_config("paper", None, Settings(**{name: value}, **others), None)
        plain = make_config("paper", None, Settings(**others), None)
        assert changed != plain, f"--{name} changes nothing"


def test_train_takes_a_preset_or_a_file(capsys, job):
    words = ("train", job / "labels.parquet", "--images", job / "photos", "-o", job / "other")
    assert "--preset" in refused(capsys, *words, "--preset", "small", "--config", job / "run" / "config.toml")
    assert "epochs" in refused(capsys, *words, "--epochs", "0")
    assert "nowhere" in refused(capsys, *words, "--validation", job / "nowhere")
    assert not (job / "other").exists()


def test_evaluate(capsys, job):
    code, out, _ = run(capsys, "evaluate", job / "run", job / "labels.parquet", "--images", job / "photos", "--json")
    assert code == 0
    result = json.loads(out)
    assert 0 <= result["metrics"]["mean_ap"] <= 1
    assert [row["class"] for row in result["per_class"]] == ["red", "blue"]
    assert result["images"]["evaluated"] == 22  # two of the 24 images have no known label
    code, out, _ = run(capsys, "evaluate", job / "run", job / "labels.parquet", "--images", job / "photos")
    assert code == 0
    assert "red" in out


def test_evaluate_says_when_its_estimate_is_from_a_draw(capsys, job, monkeypatch):
    said = "estimated on 12 of the 24 images, drawn at random"
    words = ("evaluate", job / "run", job / "labels.parquet", "--images", job / "photos")
    assert said not in run(capsys, *words)[1]
    classes = LabelTable.read_parquet(job / "labels.parquet").num_classes
    monkeypatch.setattr("partlabel.tasks.evaluate.HEADLINE_PAIRS", 12 * classes)
    assert said in run(capsys, *words)[1].splitlines()
    assert json.loads(run(capsys, *words, "--json")[1])["headline"]["images"] == 12


def test_evaluate_names_classes_that_the_model_does_not_know(capsys, job):
    other = job / "other.parquet"
    LabelTable.from_dense(["00.png"], ["red", "green"], np.array([[1, 1]], np.int8)).write_parquet(other)
    assert "green" in refused(capsys, "evaluate", job / "run", other, "--images", job / "photos")


def test_predict_a_folder(capsys, job):
    code, out, _ = run(capsys, "predict", job / "run", job / "photos", "-o", job / "predictions.csv", "--json")
    assert code == 0
    assert json.loads(out)["pictures"] == 24
    rows = (job / "predictions.csv").read_text().splitlines()
    assert len(rows) == 1 + 24 * 2
    assert rows[1].startswith('"00.png","red",')


def test_predict_a_list_gives_what_the_folder_gives(capsys, job):
    import pyarrow.parquet

    (job / "some.txt").write_text("07.png\n03.png\n")
    assert run(capsys, "predict", job / "run", job / "photos", "-o", job / "all.parquet")[0] == 0
    words = ("predict", job / "run", job / "some.txt", "--images", job / "photos", "-o", job / "some.parquet")
    assert run(capsys, *words)[0] == 0
    all_, some = (pyarrow.parquet.read_table(job / f"{name}.parquet").to_pydict() for name in ("all", "some"))
    assert some["image"] == ["07.png", "03.png"]
    for name, score in zip(some["image"], some["score"], strict=True):
        assert score == pytest.approx(all_["score"][all_["image"].index(name)], rel=1e-5)


def test_predict_lists_every_bad_picture_or_leaves_it_out(capsys, job, tmp_path):
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"not an image")
    (tmp_path / "c.png").write_bytes((job / "photos" / "00.png").read_bytes())
    words = ("predict", job / "run", tmp_path, "-o", tmp_path / "out.csv")
    err = refused(capsys, *words)
    assert "a.png" in err
    assert "b.png" in err
    assert not (tmp_path / "out.csv").exists()
    code, out, _ = run(capsys, *words, "--on-bad", "skip", "--json")
    assert code == 0
    assert json.loads(out)["pictures"] == 1
    assert len(json.loads(out)["skipped"]) == 2


def test_predict_refuses_what_it_cannot_write_or_find(capsys, job, tmp_path):
    assert ".parquet" in refused(capsys, "predict", job / "run", job / "photos", "-o", tmp_path / "out.json")
    assert "no image" in refused(capsys, "predict", job / "run", tmp_path, "-o", tmp_path / "out.csv")
    assert "folder" in refused(
        capsys, "predict", job / "run", job / "photos", "--images", tmp_path, "-o", tmp_path / "out.csv"
    )
