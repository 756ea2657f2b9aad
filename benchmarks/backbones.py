"""Two steps of many timm backbones under two processes: which of them train.

Run ``python -m benchmarks.backbones``, or with names of backbones. Weights are random, images are noise, at a small
size. Two epochs of two steps each: a parameter without a gradient stops the second step.
The processes are forked from one that has imported everything, and speak by gloo. Results are in
``benchmarks/results/backbones.json``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import platform
import socket
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
from PIL import Image
from torch import nn

from partlabel import Config, LabelTable
from partlabel.core.errors import UserError
from partlabel.core.files import write_json
from partlabel.models.model import Model
from partlabel.training import engine, state
from partlabel.training.loop import train

RESULT = Path(__file__).parent / "results" / "backbones.json"
#: family: name, and the size of images where it takes no small one
BACKBONES = {
    **dict.fromkeys(("resnet18", "resnet26d", "resnext50_32x4d", "seresnet18", "resnetv2_50", "test_resnet"), 64),
    **dict.fromkeys(("efficientnet_lite0", "efficientnet_b0", "efficientnetv2_rw_t", "mixnet_s"), 64),
    **dict.fromkeys(("mobilenetv2_050", "mobilenetv3_small_050", "mobilenetv4_conv_small", "lcnet_050"), 64),
    **dict.fromkeys(("mnasnet_small", "fbnetc_100", "ghostnet_050", "tinynet_e", "hardcorenas_a", "test_byobnet"), 64),
    **dict.fromkeys(
        ("convnext_atto", "convnextv2_atto", "inception_next_atto", "edgenext_xx_small", "test_convnext"), 64
    ),
    **dict.fromkeys(("regnetx_002", "regnety_002", "densenet121", "dla34", "repvgg_a0", "darknet17"), 64),
    **dict.fromkeys(("vit_tiny_patch16_224", "deit_tiny_patch16_224", "test_vit", "cait_xxs24_224"), 224),
    **dict.fromkeys(
        ("swin_tiny_patch4_window7_224", "pvt_v2_b0", "mobilevit_xxs", "poolformer_s12", "levit_128s"), 224
    ),
    **dict.fromkeys(("efficientformer_l1", "fastvit_t8", "repvit_m0_9", "mixer_s32_224"), 224),
}


def rank(folder: Path, name: str, size: int, number: int, port: int) -> None:
    """Train as one of two processes, and write the losses, or what went wrong."""
    os.environ |= {
        **{"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
        **{"GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "bench"},
        "PARTLABEL_CACHE": str(folder / "cache"),
    }
    torch.set_num_threads(1)
    engine.PATIENCE = datetime.timedelta(seconds=120)
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}

    config = Config.preset("paper").replace(
        **{"model__backbone": name, "model__weights": "none", "images__size": size, "validation": 0.0, "workers": 0},
        **{"optim__epochs": 2, "optim__batch_size": 4, "optim__step_after": [], "optim__learning_rate": 1e-4},
    )

    def looked(model: Model, look: Any = state.unused) -> list[nn.Parameter]:
        idle = look(model)
        found["unused_parameters"] = len(idle)
        return idle

    state.unused = looked
    try:
        run = train(
            LabelTable.read_parquet(folder / "labels.parquet"), folder / "photos", out=folder / name, config=config
        )
        if number == 0:
            found["losses"] = [row["loss"] for row in run.epochs]
    except UserError as error:
        found["wrong"] = str(error)
    except SystemExit:
        found["wrong"] = "ended by the other"
    except Exception as error:
        found["wrong"] = f"{type(error).__name__}: {error}"
    (folder / f"{name}-{number}.json").write_text(json.dumps(found), encoding="utf-8")


def step(folder: Path, name: str, size: int) -> dict[str, Any]:
    """Train one backbone under two processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    fork, began = multiprocessing.get_context("fork"), time.time()
    both = [fork.Process(target=rank, args=(folder, name, size, number, port)) for number in range(2)]
    for own in both:
        own.start()
    for own in both:
        own.join()
    files = [folder / f"{name}-{number}.json" for number in range(2)]
    said = [json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"wrong": "died"} for path in files]
    wrong = next((each["wrong"] for each in said if "wrong" in each and "ended by" not in each["wrong"]), None)
    losses = said[0].get("losses")
    unused = said[0].get("unused_parameters")
    return {
        **{"backbone": name, "size": size, "unused_parameters": unused, "losses": losses, "wrong": wrong},
        "seconds": round(time.time() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backbone", nargs="*")
    chosen = parser.parse_args().backbone or list(BACKBONES)
    rows = json.loads(RESULT.read_text(encoding="utf-8"))["rows"] if RESULT.is_file() else []
    with tempfile.TemporaryDirectory() as made:
        folder, random = Path(made), np.random.default_rng(0)
        (folder / "photos").mkdir()
        names = [f"{i}.png" for i in range(8)]
        for name in names:
            Image.fromarray(random.integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(folder / "photos" / name)
        labels = random.choice(np.array([-1, 0, 1], np.int8), (8, 3))
        labels[:2] = [[1], [-1]]
        LabelTable.from_dense(names, ["a", "b", "c"], labels).write_parquet(folder / "labels.parquet")
        for name in chosen:
            row = step(folder, name, BACKBONES.get(name, 64))
            print(row, flush=True)
            rows = [*(other for other in rows if other["backbone"] != name), row]
            rows.sort(key=lambda own: own["backbone"])
            versions = {"timm": timm.__version__, "torch": torch.__version__, "python": platform.python_version()}
            write_json(RESULT, {"processes": 2, "backend": "gloo", **versions, "rows": rows})


if __name__ == "__main__":
    main()
