"""Forward and backward of WELDON pooling by topk against the same by a full sort, 16 x 80 maps of 14 x 14 and 28 x 28.

Run ``python -m benchmarks.pooling [--threads N]``. The peer sorts all regions once and takes both ends of the result.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from torch import Tensor

from benchmarks.timing import compare, interleaved, machine, save
from partlabel.method.pooling import WeldonPool2d

IMAGES, CLASSES, SIZES = 16, 80, (14, 28)
ROUNDS, REPEATS = 21, 5


def by_sort(maps: Tensor, k: float = 0.1) -> Tensor:
    regions = torch.sort(maps.flatten(2), dim=2, descending=True).values
    count = max(1, round(k * regions.shape[2]))
    return regions[..., :count].mean(2) + regions[..., -count:].mean(2)


def run(size: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(IMAGES, CLASSES, size, size, generator=generator, requires_grad=True)
    pool = WeldonPool2d()
    own, peer = (torch.autograd.grad(f(maps).square().sum(), maps)[0] for f in (pool, by_sort))
    torch.testing.assert_close(pool(maps), by_sort(maps))
    torch.testing.assert_close(own, peer)

    def step(pooled: Tensor) -> None:
        maps.grad = None
        pooled.sum().backward()

    sides = {"partlabel": lambda: step(pool(maps)), "sort": lambda: step(by_sort(maps))}
    return {"size": size, **compare(interleaved(sides, ROUNDS, REPEATS), "sort"), "equal": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    save("pooling", {"machine": machine(), "images": IMAGES, "classes": CLASSES, "runs": [run(size) for size in SIZES]})


if __name__ == "__main__":
    main()
