"""Forward and backward of partial-BCE against binary_cross_entropy_with_logits, B = 64, C = 5,000.

Run ``python -m benchmarks.loss [--threads N]``. The peer gets float targets in {0, 1}, made beforehand: once without
and once with a mask of the known labels as its weight, as people write a loss on partial labels. partlabel gets the
int8 labels and does its own checks. Before the timing, losses and gradients of partial-BCE with g = 1 are compared with
the masked peer; the run stops where they differ.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.timing import compare, interleaved, machine, save
from partlabel.method.loss import partial_bce

ROWS, CLASSES = 64, 5000
KNOWN = (0.01, 0.03, 0.1, 0.5, 1.0)
ROUNDS, REPEATS = 21, 10


def problem(known: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores, labels, 0/1 targets and mask; 10 % of the known labels are present ones."""
    generator = torch.Generator().manual_seed(0)
    draw = torch.rand(3, ROWS, CLASSES, generator=generator)
    labels = torch.where(draw[0] < known, torch.where(draw[1] < 0.1, 1, -1), 0).to(torch.int8)
    scores = (3 * draw[2] - 2).requires_grad_()
    return scores, labels, (labels == 1).float(), (labels != 0).float()


def checked(scores: Tensor, labels: Tensor, targets: Tensor, mask: Tensor) -> dict[str, float]:
    """Largest differences to the masked peer where g = 1."""
    own = partial_bce(scores, labels, value=1.0)
    peer = F.binary_cross_entropy_with_logits(scores, targets, weight=mask)
    (own_gradient,) = torch.autograd.grad(own, scores)
    (peer_gradient,) = torch.autograd.grad(peer, scores)
    torch.testing.assert_close(own, peer, rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(own_gradient, peer_gradient, rtol=1e-5, atol=1e-11)
    return {
        "relative_difference_of_loss": abs(own.item() / peer.item() - 1),
        "largest_difference_of_gradient": (own_gradient - peer_gradient).abs().max().item(),
        "largest_gradient": peer_gradient.abs().max().item(),
    }


def run(known: float) -> dict[str, Any]:
    scores, labels, targets, mask = problem(known)

    def step(loss: Tensor) -> None:
        scores.grad = None
        loss.backward()

    sides = {
        "partlabel": lambda: step(partial_bce(scores, labels)),
        "bce": lambda: step(F.binary_cross_entropy_with_logits(scores, targets)),
        "bce_masked": lambda: step(F.binary_cross_entropy_with_logits(scores, targets, weight=mask)),
    }
    checks = checked(scores, labels, targets, mask)
    return {"known": known, **compare(interleaved(sides, ROUNDS, REPEATS), "bce"), **checks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    save("loss", {"machine": machine(), "rows": ROWS, "classes": CLASSES, "runs": [run(known) for known in KNOWN]})


if __name__ == "__main__":
    main()
