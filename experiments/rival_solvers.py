"""Methods without an epoch: the head in closed form, label propagation, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from partlabel.training.discriminant import Round, fit

Features = NDArray[np.float32]
#: features of training images, their labels, features of others -> scores of the others
Solver = Callable[..., Features]


def discriminant(x: Features, labels: NDArray[np.int8], others: Features, rounds: Round | None = None) -> Features:
    """The head of the preset small, with its round of self-training or without."""
    return fit(x, labels, rounds=rounds).scores(others)


def with_round(x: Features, labels: NDArray[np.int8], others: Features) -> Features:
    """The preset small."""
    return fit(x, labels, rounds=Round()).scores(others)


def propagation(
    x: Features, labels: NDArray[np.int8], others: Features, count: int = 50, alpha: float = 0.9
) -> Features:
    """Label propagation (Zhou et al. 2004, "local and global consistency") over a graph of nearest neighbours.

    All images are nodes, the others without a label; a known label is +1, or minus the odds of its class, so that a
    class without evidence is at 0. 30 steps of ``F <- alpha S F + (1 - alpha) Y``.
    """
    nodes = torch.from_numpy(np.concatenate([x, others]))
    graph = _graph(nodes, count)
    yes, no = (labels > 0).astype(np.float32), (labels < 0).astype(np.float32)
    odds = yes.sum(0) / np.maximum(no.sum(0), 1)
    start = torch.zeros(len(nodes), labels.shape[1])
    start[: len(x)] = torch.from_numpy(yes - no * np.where(no.sum(0) > 0, odds, 0).astype(np.float32))
    found = start.clone()
    for _ in range(30):
        found = alpha * torch.sparse.mm(graph, found) + (1 - alpha) * start
    return found[len(x) :].numpy()


def _graph(nodes: Tensor, count: int) -> Tensor:
    """Nearest neighbours by cosine, made symmetric, divided by the roots of the degrees of both ends."""
    unit = F.normalize(nodes, dim=1)
    rows, columns, values = [], [], []
    for begin in range(0, len(unit), 1000):
        near = unit[begin : begin + 1000] @ unit.T
        own = torch.arange(len(near))
        near[own, begin + own] = -2
        value, column = near.topk(count, dim=1)
        rows.append((begin + own)[:, None].expand_as(column).flatten())
        columns.append(column.flatten())
        values.append(value.clamp(min=0).flatten())
    row, column, value = torch.cat(rows), torch.cat(columns), torch.cat(values)
    index = torch.stack([torch.cat([row, column]), torch.cat([column, row])])
    both = torch.sparse_coo_tensor(index, torch.cat([value, value]), (len(nodes),) * 2).coalesce()
    degree = torch.sparse.sum(both, 1).to_dense().clamp(min=1e-9).rsqrt()
    at = both.indices()
    scaled = both.values() * degree[at[0]] * degree[at[1]]
    return torch.sparse_coo_tensor(at, scaled, both.shape).coalesce()


SOLVERS: dict[str, tuple[Solver, tuple[dict[str, Any], ...]]] = {
    "discriminant": (discriminant, ({},)),
    "discriminant, round": (with_round, ({},)),
    "label propagation": (
        propagation,
        tuple({"count": count, "alpha": alpha} for count in (100, 300) for alpha in (0.2, 0.5, 0.9)),
    ),
}
