"""The example of every public name runs as it is printed, in a folder with images, a label table and a run."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest

import partlabel
from tests.pictures import make_pictures, tiny_config

#: public names that are modules or plain values
MODULES = {"__version__", "formats", "method", "metrics", "simulate"}
NAMES = sorted(set(partlabel.__all__) - MODULES)
#: examples that need a network, take minutes, or never end
NOT_RUN = {"demo", "download", "review"}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples stand on: ``photos``, ``labels.csv`` and ``run``."""
    folder = tmp_path_factory.mktemp("examples")
    truth = make_pictures(folder / "photos", 24).select_classes(["red", "green"])
    keep = np.random.default_rng(0).random(truth.num_known) < 0.7
    table = truth.hide(keep)
    rows = ["image,red,green"]
    for name, labels in zip(table.images.to_pylist(), table.dense(), strict=True):
        rows.append(",".join([name, *({1: "1", -1: "0", 0: ""}[int(y)] for y in labels)]))
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    partlabel.train(table, folder / "photos", out=folder / "run", config=tiny_config(validation=0.5))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_the_example_runs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    thing = getattr(partlabel, name)
    found = [test for test in doctest.DocTestFinder(recurse=False).find(thing, name) if test.examples]
    assert found, f"partlabel.{name} has no example in its docstring"
    if name in NOT_RUN:
        return
    skipped = [example.source for test in found for example in test.examples if example.options.get(doctest.SKIP)]
    assert not skipped
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(optionflags=flags)
    for test in found:
        test.globs.update(pl=partlabel, **{public: getattr(partlabel, public) for public in NAMES})
        said: list[str] = []
        runner.run(test, out=said.append)
        assert runner.summarize(verbose=False).failed == 0, "".join(said)


def test_there_is_a_function_for_each_command() -> None:
    from partlabel.app.cli import app

    others = {"import": "read", "labels": "LabelTable", "next": "next_labels"}
    commands = {others.get(name, name) for name in app if not name.startswith("-")}
    assert commands <= set(dir(partlabel)), commands - set(dir(partlabel))


def test_images_are_a_folder_wherever_they_are_asked_for() -> None:
    import inspect as python

    for name in NAMES:
        thing = getattr(partlabel, name)
        if not python.isfunction(thing):
            continue
        signature = python.signature(thing)
        if "images" in signature.parameters and name not in ("predict", "train"):
            assert signature.parameters["images"].kind is python.Parameter.KEYWORD_ONLY, name
