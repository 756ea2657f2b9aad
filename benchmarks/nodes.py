"""What two nodes of a training do that differ: seconds from the start to the refusal, and what is said.

Run ``python -m benchmarks.nodes``. The two nodes are two processes of this machine with the environment of
``torchrun``, which speak by gloo over loopback, each with a cache of its own, empty at the start. ``seconds`` go from
the start of the processes to the end of both; five of them are a pause of the second, which leaves it to the first to
speak. They are forked from one that has imported torch, which is in the seconds of the first row alone.
``seconds_of_train`` go from the call of ``train`` to its error, in the process that says why. Two nodes with run
folders of their own are not refused: the second folder is not used, and the model is compared with that of one process.
Results are in ``benchmarks/results/nodes.json``.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tests.pictures import make_pictures, tiny_config
from tests.training.nodes import start

from partlabel import LabelTable, train
from partlabel.core.files import write_json

RESULT = Path(__file__).parent / "results" / "nodes.json"
IMAGES = 200
CONFIG = tiny_config(freeze="all")


def make(folder: Path) -> None:
    """Images, labels, and what the second node may have instead of them."""
    make_pictures(folder / "pictures", IMAGES).write_parquet(folder / "labels.parquet")
    for name in ("others", "alike"):
        make_pictures(folder / name, IMAGES)
    (folder / "others" / "004.png").unlink()
    for images, end in (("pictures", b"0"), ("others", b"0"), ("alike", b"1")):  # of the same sizes
        with open(folder / images / "003.png", "ab") as file:
            file.write(end)
    LabelTable.read_parquet(folder / "labels.parquet").select(range(100)).write_parquet(folder / "fewer.parquet")


#: what the second node has instead
CASES: dict[str, dict[str, Any]] = {
    "the same": {},
    "an image is missing": {"images": "others"},
    "images of the same sizes with another content": {"images": "alike"},
    "other labels": {"labels": "fewer.parquet"},
    "other settings": {"config": CONFIG.replace(optim__epochs=7).to_dict()},
    "another version": {"version": "0.0.1"},
    "a run folder of its own": {"out": "elsewhere"},
}


def both(folder: Path, other: dict[str, Any]) -> dict[str, Any]:
    """Train with two nodes, the second of which has something else."""
    for name in ("run", "cache0", "cache1"):
        shutil.rmtree(folder / name, ignore_errors=True)
    environments = [
        {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": str(rank)}
        for rank in range(2)
    ]
    began = time.monotonic()
    job = {"config": CONFIG.to_dict(), "of_rank": {"1": other}}
    started = start(folder, job, [own | {"TORCHELASTIC_RUN_ID": "benchmark"} for own in environments])
    said = [own.communicate(timeout=200)[1] for own in started]
    row: dict[str, Any] = {"seconds": time.monotonic() - began, "exit_codes": [own.returncode for own in started]}
    found = re.search(r"rank 0 after ([0-9.]+) s: (.*)", said[0], re.DOTALL)
    if found:
        row |= {"seconds_of_train": float(found[1]), "said": found[2].strip().replace(str(folder), "FOLDER")}
    return row | {
        "said_by_the_second": "rank 1" in said[1],
        "traceback": "Traceback" in "".join(said),
        "run_folders": sorted(name for name in ("run", "elsewhere") if (folder / name).exists()),
    }


def equal_to_one_process(folder: Path) -> bool:
    """Whether the model of two nodes is that of one process, but for rounding."""
    table = LabelTable.read_parquet(folder / "labels.parquet")
    train(table, folder / "pictures", out=folder / "one", config=CONFIG)
    one, two = (load_file(folder / name / "last" / "model.safetensors") for name in ("one", "run"))
    return all(torch.allclose(one[key], two[key], atol=1e-5) for key in one)


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        os.environ["PARTLABEL_CACHE"] = str(folder / "cache")
        make(folder)
        for name, other in CASES.items():
            rows.append({"second_node": name, **both(folder, other)})
            if "out" in other:
                rows[-1]["equal_to_one_process"] = equal_to_one_process(folder)
            print(json.dumps(rows[-1], indent=1), flush=True)
    result = {"images": IMAGES, "rows": rows}
    write_json(RESULT, {**result, "machine": platform.machine(), "python": platform.python_version()})


if __name__ == "__main__":
    main()
