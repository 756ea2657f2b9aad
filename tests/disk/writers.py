"""Files that libraries write, on a disk that refuses at each call: what is raised, and what is left.

    python -m tests.disk.writers                          all of them, a full disk and one failing call at every call
    python -m tests.disk.writers int8

As the matrix, but of single functions in one process, so that every call can be tried in seconds: of those that no
command of the matrix reaches, and of exports, which take long there. Linux with a C compiler.
"""

from __future__ import annotations

import gc
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from partlabel.core.errors import UserError
from partlabel.core.files import forget_sweeps
from partlabel.core.trouble import machine_says
from tests.disk import layer
from tests.disk.matrix import NOISE, left_behind


def network(path: Path) -> None:
    """Two convolutions and a head, as an ONNX file."""
    from onnx import TensorProto, helper, numpy_helper, save

    rng = np.random.default_rng(0)
    weights = {"a": (8, 3, 3, 3), "b": (8, 8, 3, 3), "c": (2, 8, 1, 1)}
    nodes = [
        helper.make_node("Cast", ["images"], ["x"], name="cast", to=TensorProto.FLOAT),
        helper.make_node("Conv", ["x", "a"], ["y"], name="first"),
        helper.make_node("Relu", ["y"], ["z"], name="relu"),
        helper.make_node("Conv", ["z", "b"], ["u"], name="second"),
        helper.make_node("GlobalAveragePool", ["u"], ["v"], name="mean"),
        helper.make_node("Conv", ["v", "c"], ["w"], name="classifier"),
        helper.make_node("Flatten", ["w"], ["scores"], name="flat"),
    ]
    values = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name) for name, shape in weights.items()
    ]
    ends = [
        [helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", 3, 16, 16])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 2])],
    ]
    graph = helper.make_graph(nodes, "graph", *ends, initializer=values)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


def int8(source: Path, out: Path) -> None:
    """An INT8 file, made of one in single precision."""
    from partlabel.core.files import replacing
    from partlabel.tasks.quantize import quantize

    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 16, 16)).astype(np.uint8)
    with replacing(out / "int8.onnx") as temporary:
        quantize(source / "single.onnx", temporary, pixels)


def workbook(source: Path, out: Path) -> None:
    """A workbook with predictions."""
    from partlabel.tasks.sheets import write_workbook

    values = np.random.default_rng(0).random((20, 4))
    write_workbook(out / "p.xlsx", [f"{i}.jpg" for i in range(20)], list("abcd"), values, values > 0.5)


def images(source: Path, out: Path) -> None:
    """Images of a data set of a user's."""
    from partlabel.images.own_dataset import keep_images

    drawn = np.random.default_rng(0).integers(0, 256, (3, 40, 40, 3)).astype(np.uint8)
    keep_images(list(drawn), [f"{i}.png" for i in range(3)], out)


def program(source: Path, out: Path) -> None:
    """A program of torch.export; its network is not a classifier of partlabel's, but it is written as one is."""
    from partlabel.core.files import replacing
    from partlabel.tasks.export import save_program

    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    with replacing(out / "program.pt2") as temporary:
        save_program(torch.export.export(module, (torch.zeros(1, 3, 8, 8),)), {"version": 1}, temporary)


WRITERS: dict[str, Callable[[Path, Path], None]] = {
    "int8": int8,
    "workbook": workbook,
    "images": images,
    "program": program,
}
#: of which two good writes differ by their date
DATED = (".xlsx", ".pt2")


def outcome(write: Callable[[Path, Path], None], disk: Path, source: Path) -> str | None:
    """Write; None where it went well, else the sentence that is said."""
    forget_sweeps()
    try:
        write(source, disk / "out")
    except UserError as error:
        return error.message
    except Exception as error:
        said = machine_says(error)
        return f"{type(error).__name__}: {error}" if said is None else said
    return None


def found(disk: Path) -> dict[str, str]:
    """Every file and folder with what it holds."""
    content: dict[str, str] = {}
    for path in sorted(disk.rglob("*")):
        if path.is_file():
            dated = path.suffix in DATED
            content[str(path.relative_to(disk))] = "" if dated else hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.parent == disk / "tmp":
            content[str(path.relative_to(disk))] = "a folder"
    return content


def wrong_of(said: str | None, call: str, good: dict[str, str], after: dict[str, str]) -> list[str]:
    """What is wrong after a fault."""
    wrong = []
    if said is not None and (noise := NOISE.search(said)):
        wrong.append(f"said {noise[0]!r} in {said[:300]!r}")
    if said is not None and "\n" in said:
        wrong.append(f"said {said[:300]!r}")
    wrong += [f"{name} is not as it should be" for name in after if name in good and after[name] != good[name]]
    if said is None:
        wrong += [f"{name} is missing, and nobody said so" for name in good if name not in after]
    return wrong + ([] if call.startswith(("unlink", "rmdir")) else left_behind(after))


def tried(name: str, base: Path, armed: layer.Disk) -> tuple[int, list[str]]:
    """One writer with each fault: how many tries, and what went wrong."""
    write, disk, wrong = WRITERS[name], base / "disk", []
    source = base / "source"

    def fresh() -> None:
        shutil.rmtree(disk, ignore_errors=True)
        for folder in ("out", "tmp"):
            (disk / folder).mkdir(parents=True)

    def once(mode: int, at: int, error: int) -> tuple[str | None, list[str]]:
        armed.arm(mode, at, error)
        try:
            said = outcome(write, disk, source)
            gc.collect()  # what files say that nobody closed
        finally:
            calls = armed.disarm()
        return said, calls

    ignored: list[str] = []
    sys.unraisablehook = lambda what: ignored.append(f"printed {what.exc_value!r} of {what.object!r}")

    fresh()
    said, calls = once(layer.COUNT, 0, 0)
    gc.freeze()  # so that collecting is quick
    good = found(disk)
    assert said is None, said
    assert not left_behind(good)
    tries = 0
    for kind in ("full", "broken"):
        for at, call in enumerate(calls):
            fresh()
            said, _ = once(layer.ERRORS[kind][0], at, layer.ERRORS[kind][1])
            some = wrong_of(said, call, good, found(disk)) + ignored
            ignored.clear()
            again = outcome(write, disk, source)
            if again is not None or {n for n in found(disk) if not n.startswith("tmp/")} != good.keys():
                some.append(f"once more: {again}, {sorted(found(disk))}")
            if some:
                wrong.append(f"{name}, {kind} at {at} ({call}): {'; '.join(some)[:600]}")
            tries += 1
    return tries, wrong


def main() -> None:
    layer.under("tests.disk.writers")
    torch.set_num_threads(1)
    chosen = sys.argv[1:] or list(WRITERS)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="writers-") as folder:
        base = Path(folder).resolve()
        (base / "source").mkdir()
        network(base / "source" / "single.onnx")
        tempfile.tempdir = str(base / "disk" / "tmp")
        armed = layer.Disk(base / "disk")
        for name in chosen:
            tries, wrong = tried(name, base, armed)
            result[name] = {"tries": tries, "wrong": wrong}
            print(f"{name:10} {tries:4} tries, {len(wrong)} wrong", *wrong[:30], sep="\n  ", flush=True)
        tempfile.tempdir = None
    print(json.dumps({name: one["tries"] for name, one in result.items()}))
    sys.exit(any(one["wrong"] for one in result.values()))


if __name__ == "__main__":
    main()
