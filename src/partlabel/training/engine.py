"""The engine, Lightning Fabric: devices, precision, several processes. No other file imports it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.strategies import DDPStrategy
from torch import Tensor, nn

from partlabel.core.compute import has_gpu
from partlabel.core.errors import UserError
from partlabel.training.config import Config

#: how long processes wait for the one that fills the cache
_PATIENCE = timedelta(days=7)


@dataclass(frozen=True)
class Engine:
    """Where a training runs: the device, and this process among those that train together."""

    fabric: Fabric

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return self.fabric.device

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return self.fabric.global_rank

    @property
    def world(self) -> int:
        """The number of processes."""
        return self.fabric.world_size

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def gather(self, own: Any) -> list[Any]:
        """What every process has, in their order."""
        if self.world == 1:
            return [own]
        parts: list[Any] = [None] * self.world
        dist.all_gather_object(parts, own)
        return parts

    def average(self, value: Tensor) -> Tensor:
        """Replace a tensor by its mean over the processes, in place."""
        if self.world > 1:
            dist.all_reduce(value)
            value /= self.world
        return value

    def wait(self) -> None:
        """Wait for the other processes."""
        self.fabric.barrier()

    @contextmanager
    def first_alone(self) -> Generator[None, None, None]:
        """Let the first process carry out the block before the others do, who then find what it made."""
        if self.world > 1 and not self.first:
            self.wait()
        yield
        if self.world > 1 and self.first:
            self.wait()

    def set_up(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Any, Any]:
        """The model and the optimizer as the processes share them."""
        return self.fabric.setup(model, optimizer)

    def precision_state(self) -> dict[str, Any]:
        """The state of the scaler of half precision, empty where there is none."""
        return self.fabric.strategy.precision.state_dict()

    def restore_precision(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`precision_state`."""
        if state:
            self.fabric.strategy.precision.load_state_dict(state)

    def update(self, net: Any, optimizer: Any, clip_norm: float | None) -> bool:
        """Apply the gradient and clear it; False where half precision overflowed and the step was left out."""
        if clip_norm is not None:
            self.fabric.clip_gradients(net, optimizer, max_norm=clip_norm, error_if_nonfinite=False)
        scaler = getattr(self.fabric.strategy.precision, "scaler", None)
        before = scaler.get_scale() if scaler is not None else 0.0
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return scaler is None or scaler.get_scale() >= before


def start(config: Config) -> Engine:
    """The engine for this process, alone or started by ``torchrun``.

    Raises:
        UserError: half precision without a GPU.
    """
    world, local = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    precision: Any = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}[config.precision]
    if config.precision == "16" and not has_gpu():
        raise UserError("half precision (16) needs a GPU; choose bf16 or 32")
    if world == 1:
        return Engine(Fabric(accelerator="auto", devices=1, precision=precision))
    fabric = Fabric(
        accelerator="auto" if has_gpu() else "cpu",
        devices=local,
        num_nodes=world // local,
        strategy=DDPStrategy(timeout=_PATIENCE, broadcast_buffers=False),
        precision=precision,
    )
    fabric.launch()
    return Engine(fabric)
