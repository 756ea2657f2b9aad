"""Images a second of a training epoch against a bare torch loop: same network, batches, images and optimizer.

    python -m benchmarks.training --data ../shared/data/coco-mini

Both sides read the same decoded images; the bare loop does nothing but normalise, forward, loss, backward, step.
Rounds take turns. Both must end with the same weights.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from experiments.main_job import tables

from partlabel import Config, LabelTable, Model
from partlabel.core.files import write_json
from partlabel.core.progress import Reporter
from partlabel.images import flip_draw
from partlabel.training.batches import Stored
from partlabel.training.data import prepare_data
from partlabel.training.engine import start
from partlabel.training.epoch import train_epoch
from partlabel.training.optimizer import build_loss
from partlabel.training.schedule import epoch_batches
from partlabel.training.state import Batches, Job, State, begin, build_model, open_batches

RESULT = Path(__file__).parent / "results" / "training.json"
ROUNDS = 8


def bare_epoch(
    model: Model, optimizer: torch.optim.Optimizer, pixels: np.ndarray, labels: np.ndarray, epoch: int, config: Config
) -> None:
    model.train()
    for rows in epoch_batches(len(pixels), config.optim.batch_size, config.seed, epoch):
        x = torch.from_numpy(pixels[rows])
        flip = torch.from_numpy(flip_draw(config.seed, epoch, rows))
        x[flip] = x[flip].flip(3)
        scores = model(x.contiguous(memory_format=torch.channels_last))
        loss = F.binary_cross_entropy_with_logits(scores, torch.from_numpy(labels[rows] > 0).float())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def opened(table: LabelTable, images: Path, config: Config, folder: Path) -> tuple[Job, State, Batches]:
    """A training that is about to begin its first epoch."""
    job = Job(config, start(config), folder, build_loss(config.loss, table.num_classes), Reporter())
    data = prepare_data(config, table, images, None, None, job.report)
    model = build_model(job, table)
    batches = open_batches(job, data, model, new=True)
    return job, begin(job, data, model, None), batches


def epoch_seconds(
    table: LabelTable, images: Path, config: Config, folder: Path
) -> tuple[list[float], list[float], float]:
    """Seconds of each epoch of both sides, and the largest relative difference of a tensor in the end."""
    job, state, batches = opened(table, images, config, folder / "run")
    seconds: tuple[list[float], list[float]] = ([], [])
    torch.manual_seed(config.seed)
    bare = Model(config.model, table.classes, config.images.size).to(memory_format=torch.channels_last)
    weights = [p for p in bare.parameters() if p.requires_grad and p.ndim > 1]
    others = [p for p in bare.parameters() if p.requires_grad and p.ndim <= 1]
    optim = config.optim
    optimizer = torch.optim.SGD(
        [{"params": weights, "weight_decay": optim.weight_decay}, {"params": others}],
        lr=optim.learning_rate,
        momentum=optim.momentum,
    )
    assert isinstance(batches.train, Stored)
    pixels = batches.train.array
    labels = table.dense()
    for epoch in range(ROUNDS + 1):
        sides = (
            lambda: train_epoch(job, state, batches, epoch),  # noqa: B023
            lambda: bare_epoch(bare, optimizer, pixels, labels, epoch, config),  # noqa: B023
        )
        for side in (0, 1) if epoch % 2 else (1, 0):
            began = time.perf_counter()
            sides[side]()
            if epoch:  # the first round warms up
                seconds[side].append(time.perf_counter() - began)
    ours, theirs = state.model.state_dict(), bare.state_dict()
    difference = max(float((ours[k].float() - theirs[k].float()).norm() / theirs[k].float().norm()) for k in ours)
    return seconds[0], seconds[1], difference


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--images", type=int, default=320)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    table = tables(arguments.data)[0].select(slice(0, arguments.images))
    config = Config.preset("paper").replace(
        model__backbone="tf_efficientnet_lite0",
        model__pooling="average",
        images__size=128,
        optim__schedule="constant",
        optim__learning_rate=1e-3,
        validation=0.0,
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PARTLABEL_CACHE"] = folder
        full, bare, difference = epoch_seconds(table, arguments.data / "images", config, Path(folder))
        frozen = config.replace(freeze="all")
        running = opened(table, arguments.data / "images", frozen, Path(folder) / "frozen")
        frozen_seconds = [train_epoch(*running, epoch)["seconds"] for epoch in range(ROUNDS + 1)][1:]
    record = {
        "images": arguments.images,
        "size": 128,
        "threads": arguments.threads,
        "torch": torch.__version__,
        "rounds": ROUNDS,
        "partlabel_images_per_second": arguments.images / statistics.median(full),
        "bare_images_per_second": arguments.images / statistics.median(bare),
        "ratio_partlabel_to_bare": statistics.median(b / a for a, b in zip(full, bare, strict=True)),
        "largest_relative_difference_of_a_tensor": difference,
        "frozen_epoch_seconds": statistics.median(frozen_seconds),
        "full_epoch_seconds": statistics.median(full),
        "full_to_frozen": statistics.median(full) / statistics.median(frozen_seconds),
    }
    RESULT.parent.mkdir(exist_ok=True)
    write_json(RESULT, record)
    print(record)


if __name__ == "__main__":
    main()
