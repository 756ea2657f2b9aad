"""Two processes that pretend to be two nodes: each trains what a job says, with the words of torchrun or srun."""

from __future__ import annotations

import datetime
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
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
    from partlabel.training import agreement, engine, meeting

    torch.set_num_threads(1)
    os.environ["PARTLABEL_CACHE"] = str(folder / ("cache" if job.get("one_cache") else f"cache{rank}"))
    opened: list[str] = []
    sys.addaudithook(lambda event, about: opened.append(str(about[0])) if event == "open" else None)
    engine.PATIENCE = datetime.timedelta(seconds=job.get("patience", 300))
    if rank:  # no launcher ends the process that speaks, so nobody has to linger for it
        meeting.SILENCE = engine.SILENCE = 0.1
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
    """Let this process stop at a step, or in the second epoch, or lose its patience there, if the job says so."""
    from partlabel.training import loop

    def stop(*arguments: Any) -> None:
        (folder / "pid").write_text(str(os.getpid()), encoding="utf-8")
        os.kill(os.getpid(), signal.SIGSTOP)

    def at(step: str, act: Callable[[], None]) -> None:
        original = getattr(loop, step)

        def acting(*arguments: Any) -> Any:
            if step != "train_epoch" or arguments[-1] == 1:
                act()
            return original(*arguments)

        setattr(loop, step, acting)

    def stand() -> None:
        (folder / "pid").write_text(str(os.getpid()), encoding="utf-8")
        time.sleep(600)

    if "stops_at" in job:
        at(job["stops_at"], stop)
    if job.get("stands_still"):
        at("train_epoch", stand)
    if "gives_up_at" in job:
        at(job["gives_up_at"], lambda: _give_up_soon(folder))


def _give_up_soon(folder: Path) -> None:
    """Once another process stands still, wait for it some seconds only; until then a busy machine has all its time."""
    import torch.distributed as dist

    from partlabel.training import engine

    while not (folder / "pid").exists():
        time.sleep(0.05)
    engine.PATIENCE = datetime.timedelta(seconds=4)
    dist.distributed_c10d._set_pg_timeout(engine.PATIENCE, dist.group.WORLD)
