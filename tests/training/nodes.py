"""Two processes that pretend to be two nodes: each trains what a job says, with the words of torchrun or srun."""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.processes import Started, free_port


def start(folder: Path, job: dict[str, Any], environments: Sequence[Mapping[str, str]]) -> list[Started]:
    """Start a process for each environment; the job lies in the folder."""
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    common = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    return [
        Started(_node, (folder,), folder / f"node{number}", common | own) for number, own in enumerate(environments)
    ]


def _node(folder: Path) -> None:
    rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", 0)))
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    _train(folder, rank, job | job["of_rank"].get(str(rank), {}))


def _train(folder: Path, rank: int, job: dict[str, Any]) -> None:
    import torch

    from partlabel import Config, LabelTable, train
    from partlabel.core.errors import UserError
    from partlabel.training import agreement, engine

    torch.set_num_threads(1)
    os.environ["PARTLABEL_CACHE"] = str(folder / ("cache" if job.get("one_cache") else f"cache{rank}"))
    opened: list[str] = []
    sys.addaudithook(lambda event, about: opened.append(str(about[0])) if event == "open" else None)
    engine.PATIENCE = datetime.timedelta(seconds=job.get("patience", 60))
    if "version" in job:
        agreement.version = lambda name: job["version"]
    _stand_still(folder, job)
    began = time.monotonic()
    try:
        table = LabelTable.read_parquet(folder / job.get("labels", "labels.parquet"))
        images = folder / job.get("images", "pictures")
        run = train(
            table,
            images,
            out=folder / job.get("out", "run"),
            config=Config.from_dict(job["config"]),
            resume=job.get("resume", False),
        )
        read = [name for name in opened if name.startswith(str(images) + os.sep)]
        best = run.summary["best_epoch"] if rank == 0 else None
        print(json.dumps({"rank": rank, "best": best, "read": sorted(set(read))}))
    except UserError as error:
        print(f"rank {rank} after {time.monotonic() - began:.1f} s: {error}", file=sys.stderr)
        sys.exit(2)


def _stand_still(folder: Path, job: dict[str, Any]) -> None:
    """Let this process stop at a step, or sleep in the second epoch, if the job says so."""
    from partlabel.training import loop

    if "stops_at" in job:
        setattr(loop, job["stops_at"], lambda *arguments: os.kill(os.getpid(), 19))
    if job.get("stands_still"):
        original = loop.train_epoch

        def standing(*arguments: Any) -> Any:
            if arguments[-1] == 1:
                (folder / "pid").write_text(str(os.getpid()), encoding="utf-8")
                time.sleep(60)
            return original(*arguments)

        loop.train_epoch = standing
