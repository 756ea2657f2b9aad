"""The engine, Lightning Fabric: devices, precision, several processes. No other file imports it."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.strategies import DDPStrategy

from partlabel.core.errors import UserError
from partlabel.training.config import Config

#: how long processes wait for the one that fills the cache
_PATIENCE = timedelta(days=7)


def start(config: Config) -> Fabric:
    """The engine for this process, alone or started by ``torchrun``.

    Raises:
        UserError: half precision without a GPU.
    """
    world, local = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    precision: Any = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}[config.precision]
    if config.precision == "16" and not torch.cuda.is_available():
        raise UserError("half precision (16) needs a GPU; choose bf16 or 32")
    if world == 1:
        return Fabric(accelerator="auto", devices=1, precision=precision)
    accelerator = "auto" if torch.cuda.is_available() else "cpu"
    fabric = Fabric(
        accelerator=accelerator,
        devices=local,
        num_nodes=world // local,
        strategy=DDPStrategy(timeout=_PATIENCE, broadcast_buffers=False),
        precision=precision,
    )
    fabric.launch()
    return fabric


def gather(own: Any, world: int) -> list[Any]:
    """What every process has, in their order; ``world`` is their number."""
    if world == 1:
        return [own]
    parts: list[Any] = [None] * world
    dist.all_gather_object(parts, own)
    return parts
